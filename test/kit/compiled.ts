/** Compiles the sources to JavaScript for child processes, which then start one second faster. */
import { mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildSync } from 'esbuild'
import { COMPILED_FOLDERS } from './compiledFolders.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** Folders and files that the sources expect next to them. */
const BESIDE = ['models', 'assets', 'recipes', 'package.json', 'node_modules']

let folder: string | undefined

/**
 * Makes a folder inside the folder of the test run, which is removed after the last test. Without a
 * test run, it is removed with the process.
 */
const newFolder = (): string => {
  const run = process.env[COMPILED_FOLDERS]
  const made = mkdtempSync(join(run ?? tmpdir(), 'tandem-compiled-'))
  if (run === undefined) process.once('exit', () => rmSync(made, { recursive: true, force: true }))
  return made
}

const compile = (): string => {
  const made = newFolder()
  const sources = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' }).map((name) => `src/${name}`)
  const kit = readdirSync(join(ROOT, 'test/kit')).map((name) => `test/kit/${name}`)
  buildSync({
    entryPoints: [...sources, ...kit].filter((path) => path.endsWith('.ts')),
    ...{ absWorkingDir: ROOT, outbase: '.', outdir: made, format: 'esm', target: 'node20', logLevel: 'error' },
  })
  for (const name of BESIDE) symlinkSync(join(ROOT, name), join(made, name))
  return made
}

/**
 * Returns the folder with the compiled `src` and `test/kit` at the same paths, made once per
 * process.
 */
export const compiledFolder = (): string => {
  folder ??= compile()
  return folder
}

/** The JavaScript of a source, such as `src/cli/main.ts`. */
export const compiled = (path: string): string => join(compiledFolder(), path.replace(/\.ts$/, '.js'))
