/** Packs the package and installs it in projects of its users. Needs the npm registry. */
import { execFile } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { buildPackages } from '../../scripts/kit/build.js'
import { DOORS as FILES } from '../../scripts/kit/doors.js'
import { PACKAGES } from '../../scripts/kit/workspace.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** The compilers that users have: version 6 is written in JavaScript, version 7 is native. */
const COMPILERS = {
  6: join(ROOT, 'node_modules/typescript/bin/tsc'),
  7: join(ROOT, 'node_modules/typescript-7/bin/tsc'),
}

/** Of several, each would compute the types of the libraries for itself. */
const ONE_CHECKER = ['--checkers', '1']

const run = promisify(execFile)

/** The import paths of all packages: `tandem-rl`, `@tandem-rl/text` and so on. */
export const DOORS: readonly string[] = [...FILES.keys()]

/**
 * The environment of this process, without what npm and vitest add and without the download of
 * CUDA.
 */
export const environment = async (): Promise<NodeJS.ProcessEnv> => {
  const { CI: _, ...kept } = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(npm_|NODE_OPTIONS|VITEST)/i.test(name)),
  )
  const { stdout } = await run('npm', ['config', 'get', 'registry'], { env: kept, cwd: '/' })
  return { ...kept, ONNXRUNTIME_NODE_INSTALL: 'skip', YARN_NPM_REGISTRY_SERVER: stdout.trim() }
}

/** Copies the sources of all packages, next to links to the packages of this checkout. */
const stage = (folder: string): void => {
  for (const each of PACKAGES) {
    const own = ['package.json', 'tsconfig.json', 'tsconfig.build.json', 'README.md', 'LICENSE', 'src']
    mkdirSync(join(folder, each.folder), { recursive: true })
    for (const name of [...own, ...each.manifest.files]) {
      const from = join(ROOT, each.folder, name)
      if (name !== 'dist' && existsSync(from)) cpSync(from, join(folder, each.folder, name), { recursive: true })
    }
  }
  const modules = join(folder, 'node_modules')
  mkdirSync(join(modules, '@tandem-rl'), { recursive: true })
  for (const name of readdirSync(join(ROOT, 'node_modules')))
    if (!['@tandem-rl', 'tandem-rl'].includes(name)) symlinkSync(join(ROOT, 'node_modules', name), join(modules, name))
  for (const each of PACKAGES) {
    const link = join(modules, each.manifest.name)
    symlinkSync(relative(dirname(link), join(folder, each.folder)), link)
  }
}

/** The tarballs of packages: name -> path. */
export type Tarballs = ReadonlyMap<string, string>

/** Compiles all packages and packs them as `npm publish` does. */
export const pack = async (folder: string): Promise<Tarballs> => {
  const staged = join(folder, 'staged')
  stage(staged)
  buildPackages(staged, ['--noCheck'])
  const command = ['pack', '--ignore-scripts', '--json', '--pack-destination', folder]
  const packed = await Promise.all(
    PACKAGES.map(async (each) => {
      const { stdout } = await run('npm', command, { cwd: join(staged, each.folder) })
      const [{ filename }] = JSON.parse(stdout) as [{ filename: string }] // cast: documented output of npm
      return [each.manifest.name, join(folder, filename)] as const
    }),
  )
  return new Map(packed)
}

/** A package manager: its command, and files that it needs in a new project. */
interface Manager {
  readonly add: (packages: readonly string[]) => readonly string[]
  readonly node: readonly string[]
  /** The command that runs commands of packages. */
  readonly exec: readonly string[]
  /** Runs TypeScript, where only a compiler of the project finds its packages. */
  readonly compiler?: readonly string[]
  readonly files: Readonly<Record<string, string>>
}

const YARN = ['npx', '--yes', '@yarnpkg/cli-dist@4']

/**
 * npm hoists packages into one folder; pnpm and yarn's Plug'n'Play let a package import its own
 * dependencies only.
 */
export const MANAGERS = {
  npm: {
    add: (packages) => ['npm', 'install', '--no-audit', '--no-fund', '--loglevel=error', ...packages],
    node: [process.execPath],
    exec: ['npx', '--no', '--'],
    files: {},
  },
  pnpm: {
    add: (packages) => ['npx', '--yes', 'pnpm@9', 'add', '--store-dir', '.store', ...packages],
    node: [process.execPath],
    exec: ['npx', '--no', '--'],
    files: {},
  },
  yarn: {
    add: (packages) => [...YARN, 'add', ...packages],
    node: [...YARN, 'node'],
    exec: YARN,
    compiler: [...YARN, 'tsc'],
    files: { 'yarn.lock': '', '.yarnrc.yml': 'nodeLinker: pnp\nenableGlobalCache: false\nenableTelemetry: false\n' },
  },
} satisfies Record<string, Manager>

/** A project of a user. */
export interface Project {
  readonly folder: string
  /** Installs packages of the registry, and tarballs by their names. */
  readonly add: (packages: readonly string[], tarballs?: Tarballs) => Promise<void>
  /** Runs the text of a module and returns its output. Rejects if it fails. */
  readonly run: (program: string) => Promise<string>
  /** Runs the command `tandem` and returns its output. Rejects if it fails. */
  readonly tandem: (args: readonly string[]) => Promise<string>
  /**
   * Compiles modules, given as their texts, without `skipLibCheck`. Returns the errors, one a line.
   * With yarn, the project needs TypeScript.
   */
  readonly compile: (
    programs: string | readonly string[],
    options?: object,
    version?: keyof typeof COMPILERS,
  ) => Promise<readonly string[]>
  /** Compiles and packs a package of a user. Rejects if it has errors. */
  readonly packOwn: (folder: string) => Promise<string>
  /**
   * Compiles the text of a module and returns TypeScript's own measurements, one a line, after the
   * errors.
   */
  readonly diagnostics: (program: string, options?: object) => Promise<readonly string[]>
}

/**
 * Lets packages that depend on packages of this repository have the tarballs, in the fields of pnpm
 * and yarn. npm takes those of the project by itself.
 */
const overrideBy = (folder: string, files: Readonly<Record<string, string>>): void => {
  const path = join(folder, 'package.json')
  const manifest = JSON.parse(readFileSync(path, 'utf8')) as object // cast: written below
  writeFileSync(path, JSON.stringify({ ...manifest, pnpm: { overrides: files }, resolutions: files }))
}

/** Makes an empty project that installs packages by a package manager. */
export const userProject = async (folder: string, name: keyof typeof MANAGERS): Promise<Project> => {
  const manager: Manager = MANAGERS[name]
  const env = await environment()
  const options = { cwd: folder, env, maxBuffer: 2 ** 26 }
  const command = ([file = '', ...args]: readonly string[]) => run(file, args, options)
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, type: 'module' }))
  for (const [path, text] of Object.entries(manager.files)) writeFileSync(join(folder, path), text)
  const typescript = async (
    programs: string | readonly string[],
    more: object,
    { version = 7, flags = [] }: { readonly version?: keyof typeof COMPILERS; readonly flags?: readonly string[] } = {},
  ): Promise<readonly string[]> => {
    const files = [programs].flat().map((text, i) => {
      writeFileSync(join(folder, `program${i}.ts`), text)
      return `program${i}.ts`
    })
    const config = {
      extends: 'tandem-rl/tsconfig.json',
      compilerOptions: { noEmit: true, skipLibCheck: false, ...more },
      files,
    }
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config))
    const compiler = manager.compiler ?? [process.execPath, COMPILERS[version], ...(version === 7 ? ONE_CHECKER : [])]
    const { stdout } = await command([...compiler, '-p', '.', '--pretty', 'false', ...flags]).catch(
      (error: { readonly stdout: string }) => error, // tsc exits with 2 if it finds errors
    )
    return stdout.trim().split('\n')
  }
  return {
    folder,
    add: async (packages, tarballs = new Map()) => {
      const files = [...tarballs].map(([each, path]) => [each, `file:${path}`] as const)
      if (files.length > 0) overrideBy(folder, Object.fromEntries(files))
      await command(manager.add([...packages, ...files.map(([each, path]) => `${each}@${path}`)]))
    },
    run: async (program) => {
      writeFileSync(join(folder, 'program.mjs'), program)
      return (await command([...manager.node, 'program.mjs'])).stdout
    },
    tandem: async (args) => (await command([...manager.exec, 'tandem', ...args])).stdout,
    compile: async (programs, more = {}, version = 7) => {
      const lines = await typescript(programs, more, { version })
      return lines.filter((line) => / error TS\d+: /.test(line))
    },
    packOwn: async (source) => {
      await command([process.execPath, COMPILERS[7], '-p', source, '--pretty', 'false'])
      const packed = await command(['npm', 'pack', source, '--json', '--pack-destination', folder])
      const [{ filename }] = JSON.parse(packed.stdout) as [{ filename: string }] // cast: documented output of npm
      return join(folder, filename)
    },
    diagnostics: (program, more = {}) => typescript(program, more, { flags: ['--extendedDiagnostics'] }),
  }
}

/** The text of a module that imports `doors` and prints the number of names of each. */
export const importing = (doors: readonly string[]): string =>
  [
    ...doors.map((door, i) => `import * as door${i} from '${door}'`),
    `console.log(JSON.stringify([${doors.map((_, i) => `Object.keys(door${i}).length`)}]))`,
  ].join('\n')
