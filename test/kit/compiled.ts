/** The sources as JavaScript, for processes of their own: those start in a second less than from TypeScript. */
import { mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildSync } from 'esbuild'
import { afterAll } from 'vitest'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** What the sources look for beside them. */
const BESIDE = ['models', 'assets', 'package.json', 'node_modules']

let folder: string | undefined
const remove = (): void => {
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true })
}
// Scripts use the kit, too: there are no tests to come after.
if ('__vitest_worker__' in globalThis) afterAll(remove)
else process.once('exit', remove)

const compile = (): string => {
  const made = mkdtempSync(join(tmpdir(), 'tandem-compiled-'))
  const sources = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' }).map((name) => `src/${name}`)
  const kit = readdirSync(join(ROOT, 'test/kit')).map((name) => `test/kit/${name}`)
  buildSync({
    entryPoints: [...sources, ...kit].filter((path) => path.endsWith('.ts')),
    ...{ absWorkingDir: ROOT, outbase: '.', outdir: made, format: 'esm', target: 'node20', logLevel: 'error' },
  })
  for (const name of BESIDE) symlinkSync(join(ROOT, name), join(made, name))
  return made
}

/** The folder with the JavaScript of `src` and of this folder, at the same paths. It is removed after the tests of the file, or with the process. */
export const compiledFolder = (): string => {
  folder ??= compile()
  return folder
}

/** The JavaScript of a source, such as `src/cli/main.ts`. */
export const compiled = (path: string): string => join(compiledFolder(), path.replace(/\.ts$/, '.js'))
