/** Packs the package and installs it in projects of its users. Needs the npm registry. */
import { execFile } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** The compilers that users have: version 6 is written in JavaScript, version 7 is native. */
const COMPILERS = {
  6: join(ROOT, 'node_modules/typescript/bin/tsc'),
  7: join(ROOT, 'node_modules/typescript-7/bin/tsc'),
}

/** Of several, each would compute the types of the libraries for itself. */
const ONE_CHECKER = ['--checkers', '1']

const run = promisify(execFile)

interface Manifest {
  readonly files: readonly string[]
  readonly exports: Readonly<Record<string, unknown>>
}

const manifestOf = (root: string): Manifest => JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest // cast: a package.json of this project

/** The import paths of the doors: `tandem-rl`, `tandem-rl/engine` and so on. */
export const DOORS: readonly string[] = Object.keys(manifestOf(ROOT).exports)
  .filter((path) => !path.endsWith('.json'))
  .map((path) => `tandem-rl${path.slice(1)}`)

/**
 * The environment of this process, without what npm and vitest add and without the download of
 * CUDA.
 */
const environment = async (): Promise<NodeJS.ProcessEnv> => {
  const { CI: _, ...kept } = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(npm_|NODE_OPTIONS|VITEST)/i.test(name)),
  )
  const { stdout } = await run('npm', ['config', 'get', 'registry'], { env: kept, cwd: '/' })
  return { ...kept, ONNXRUNTIME_NODE_INSTALL: 'skip', YARN_NPM_REGISTRY_SERVER: stdout.trim() }
}

/**
 * Compiles the sources of `root` and packs them as `npm publish` does. Returns the path of the
 * tarball.
 */
export const pack = async (folder: string, root: string = ROOT): Promise<string> => {
  const staged = join(folder, 'package')
  mkdirSync(staged, { recursive: true })
  for (const name of ['package.json', 'README.md', 'LICENSE', ...manifestOf(root).files]) {
    const from = join(root, name)
    if (name !== 'dist' && existsSync(from)) cpSync(from, join(staged, name), { recursive: true })
  }
  const options = ['-p', join(root, 'tsconfig.build.json'), '--noCheck', '--outDir', join(staged, 'dist')]
  await run(process.execPath, [COMPILERS[7], ...options])
  const packed = await run('npm', ['pack', '--ignore-scripts', '--json', '--pack-destination', folder], { cwd: staged })
  const [{ filename }] = JSON.parse(packed.stdout) as [{ filename: string }] // cast: documented output of npm
  return join(folder, filename)
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
    add: (packages) => [
      ...YARN,
      'add',
      ...packages.map((each) => (each.startsWith('/') ? `tandem-rl@file:${each}` : each)),
    ],
    node: [...YARN, 'node'],
    exec: YARN,
    compiler: [...YARN, 'tsc'],
    files: { 'yarn.lock': '', '.yarnrc.yml': 'nodeLinker: pnp\nenableGlobalCache: false\nenableTelemetry: false\n' },
  },
} satisfies Record<string, Manager>

/** A project of a user. */
export interface Project {
  readonly folder: string
  readonly add: (packages: readonly string[]) => Promise<void>
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
  /**
   * Compiles the text of a module and returns TypeScript's own measurements, one a line, after the
   * errors.
   */
  readonly diagnostics: (program: string, options?: object) => Promise<readonly string[]>
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
    add: async (packages) => {
      await command(manager.add(packages))
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
    diagnostics: (program, more = {}) => typescript(program, more, { flags: ['--extendedDiagnostics'] }),
  }
}

/** The text of a module that imports `doors` and prints the number of names of each. */
export const importing = (doors: readonly string[]): string =>
  [
    ...doors.map((door, i) => `import * as door${i} from '${door}'`),
    `console.log(JSON.stringify([${doors.map((_, i) => `Object.keys(door${i}).length`)}]))`,
  ].join('\n')
