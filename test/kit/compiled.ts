/** Compiles the sources to JavaScript for child processes, which then start one second faster. */
import { existsSync, mkdtempSync, readdirSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildSync } from 'esbuild'
import { COMPILED_FOLDERS, sharedFolder } from './compiledFolders.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** Folders of sources. */
const COMPILED = ['src', 'examples', 'bench', 'scripts', 'test/kit']

/** Folders and files that the sources expect next to them. */
const BESIDE = ['models', 'assets', 'recipes', 'package.json', 'node_modules']

let folder: string | undefined

/** Compiles into a new folder below `parent`. */
const compileBelow = (parent: string): string => {
  const made = mkdtempSync(join(parent, 'tandem-compiled-'))
  const sources = COMPILED.flatMap((path) =>
    readdirSync(join(ROOT, path), { recursive: true, encoding: 'utf8' }).map((name) => `${path}/${name}`),
  )
  buildSync({
    entryPoints: sources.filter((path) => path.endsWith('.ts')),
    ...{ absWorkingDir: ROOT, outbase: '.', outdir: made, format: 'esm', target: 'node20', logLevel: 'error' },
  })
  for (const name of BESIDE) symlinkSync(join(ROOT, name), join(made, name))
  symlinkSync('src', join(made, 'dist')) // package.json names this folder for `tandem-rl`
  return made
}

/** Removed with the process. */
const compileForProcess = (): string => {
  const made = compileBelow(tmpdir())
  process.once('exit', () => rmSync(made, { recursive: true, force: true }))
  return made
}

/**
 * Compiles for all processes of a test run, unless one of them has. Of two at the same time, the
 * first to end gives its folder the common name.
 */
const compileForRun = (run: string): string => {
  const shared = sharedFolder(run)
  if (existsSync(shared)) return shared
  const made = compileBelow(run)
  try {
    renameSync(made, shared)
  } catch (error) {
    if (!existsSync(shared)) throw error
  }
  return shared
}

/** Returns the folder with the compiled sources at the same paths. */
export const compiledFolder = (): string => {
  const run = process.env[COMPILED_FOLDERS]
  folder ??= run === undefined ? compileForProcess() : compileForRun(run)
  return folder
}

/** The JavaScript of a source, such as `src/cli/main.ts`. */
export const compiled = (path: string): string => join(compiledFolder(), path.replace(/\.ts$/, '.js'))
