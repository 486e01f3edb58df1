/** The import paths of the packages, from each package.json. */
import { posix } from 'node:path'
import { PACKAGES, type Package } from './workspace.js'

/** Maps the import paths of a package to their source files. */
const doorsOf = ({ folder, manifest }: Package): ReadonlyMap<string, string> =>
  new Map(
    Object.entries(manifest.exports).flatMap(([path, target]) =>
      typeof target === 'string'
        ? []
        : [[`${manifest.name}${path.slice(1)}`, posix.join(folder, target['tandem-source'])] as const],
    ),
  )

/**
 * Maps each import path to its source file, for example `@tandem-rl/text` to
 * `packages/text/src/index.ts`.
 */
export const DOORS: ReadonlyMap<string, string> = new Map(PACKAGES.flatMap((each) => [...doorsOf(each)]))
