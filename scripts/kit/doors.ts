/** The doors of the package, from package.json. */
import { readFileSync } from 'node:fs'

const { exports } = JSON.parse(readFileSync('package.json', 'utf8')) as {
  readonly exports: Readonly<Record<string, string | { readonly default: string }>>
} // our own file

/**
 * Maps the import path of each door to its source file, for example `tandem-rl/text` to
 * `src/doors/text.ts`.
 */
export const DOORS: ReadonlyMap<string, string> = new Map(
  Object.entries(exports).flatMap(([path, target]) =>
    typeof target === 'string'
      ? []
      : [[`tandem-rl${path.slice(1)}`, target.default.replace('./dist/', 'src/').replace('.js', '.ts')] as const],
  ),
)
