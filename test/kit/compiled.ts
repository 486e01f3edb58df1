/** Compiles the sources to JavaScript for child processes, which then start one second faster. */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildSync } from 'esbuild'
import { PACKAGES, type Package, SOURCE_FOLDERS } from '../../scripts/kit/workspace.js'
import { COMPILED_FOLDERS, sharedFolder } from './compiledFolders.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** Folders of sources. */
const COMPILED = [...SOURCE_FOLDERS, 'examples', 'bench', 'scripts', 'test/kit']

/** Folders and files that the sources expect next to them. */
const BESIDE = ['models', 'assets', 'recipes', ...PACKAGES.map(({ folder }) => join(folder, 'assets'))].filter(
  (path, i, all) => existsSync(join(ROOT, path)) && all.indexOf(path) === i,
)

let folder: string | undefined

/** Writes a package.json whose import paths lead to the JavaScript, in `src` and as `dist`. */
const writeManifest = ({ folder }: Package, made: string): void => {
  const text = readFileSync(join(ROOT, folder, 'package.json'), 'utf8')
  writeFileSync(join(made, folder, 'package.json'), text.replace(/("tandem-source": "[^"]+)\.ts"/g, '$1.js"'))
  symlinkSync('src', join(made, folder, 'dist'))
}

/** Links the packages of this checkout, and those of this repository to their compiled form. */
const linkPackages = (made: string): void => {
  const modules = join(made, 'node_modules')
  mkdirSync(join(modules, '@tandem-rl'), { recursive: true })
  for (const name of readdirSync(join(ROOT, 'node_modules')))
    if (!['@tandem-rl', 'tandem-rl'].includes(name)) symlinkSync(join(ROOT, 'node_modules', name), join(modules, name))
  for (const { folder, manifest } of PACKAGES) {
    const link = join(modules, manifest.name)
    symlinkSync(relative(dirname(link), join(made, folder)), link) // the folder is renamed once it is complete
  }
}

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
  for (const each of PACKAGES) writeManifest(each, made)
  linkPackages(made)
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

/** Flags of Node for a process that finds the compiled packages, whatever folder it starts in. */
export const fromCompiledFolder = (): readonly string[] => [
  '--import',
  `data:text/javascript,process.chdir(${JSON.stringify(compiledFolder())})`,
]
