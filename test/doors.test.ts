/** The doors of the package: what they export, and what importing them loads. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { DOORS } from '../scripts/kit/doors.js'
import { optionKindsFiles } from '../scripts/kit/optionKinds.js'
import { publicProgram, publicSurface, REPORT, reportFile, reportOf } from '../scripts/kit/publicSurface.js'
import { SOURCE_FOLDERS } from '../scripts/kit/workspace.js'
import { runProgram, withPackages } from './kit/packages.js'

interface TorchRLNames {
  readonly names: Readonly<Record<string, readonly string[]>>
}

const program = publicProgram()
const surface = publicSurface(program)

/** Doors that run where nothing computes. `tensordict` needs tfjs-core: tensors are its leaves. */
const LIGHT = {
  './src/doors/datasets.js': [],
  './src/doors/tensordict.js': ['@tensorflow/tfjs-core'],
  '@tandem-rl/base': [],
  '@tandem-rl/base/host': [],
  '@tandem-rl/host': [],
  '@tandem-rl/serve': [],
  '@tandem-rl/text': [],
  '@tandem-rl/games/rules': [],
  '@tandem-rl/tracking': [],
  '@tandem-rl/tfjs-onnxruntime/scope': ['@tensorflow/tfjs-core'],
} as const

/**
 * Prints the packages of CommonJS that an import loads: tfjs, its backends and onnxruntime are
 * among them.
 */
const LOADED = `
import { createRequire } from 'node:module'
await import('DOOR')
const names = Object.keys(createRequire(import.meta.url).cache).map((file) => file.split('node_modules/').at(-1))
const heavy = names.filter((name) => name.startsWith('@tensorflow/') || name.startsWith('onnxruntime'))
console.log(JSON.stringify([...new Set(heavy.map((name) => name.split('/').slice(0, name[0] === '@' ? 2 : 1).join('/')))]))
`

/**
 * Returns true if the package of a door declares a name, and not a package that it depends on. Each
 * package with commands calls them `commands`.
 */
const isHome = (door: string, file: string): boolean =>
  !door.endsWith('/commands') &&
  /^packages\/[^/]+/.exec(file)?.[0].replace('packages', '@tandem-rl') === /^@tandem-rl\/[^/]+/.exec(door)?.[0] &&
  (door !== '@tandem-rl/tfjs-onnxruntime' || !file.endsWith('/src/scope.ts'))

const folder = mkdtempSync(join(tmpdir(), 'tandem-doors-'))
beforeAll(() => void withPackages(folder, {}))
afterAll(() => rmSync(folder, { recursive: true }))

/** Imports a module of the sources in a process of its own, and prints what it loads. */
const loadedBy = (module: string) =>
  runProgram(folder, ['--input-type=module', '--eval', LOADED.replace('DOOR', module)])

/**
 * Functions in PascalCase that are not in TorchRL's stack for language models, and the library that
 * has the name.
 */
const FIELD_NAMES: Readonly<Record<string, string>> = {
  ...{ TensorDict: 'tensordict', ReplayBuffer: 'torchrl', RandomSampler: 'torchrl', PrioritizedSampler: 'torchrl' },
  ...{ SamplerWithoutReplacement: 'torchrl', RoundRobinWriter: 'torchrl', GAE: 'torchrl', VTrace: 'torchrl' },
  ...{ RewardSum: 'torchrl', Tokenizer: 'torchrl', MultiTurnEnv: 'verifiers' },
  SingleTurnEnv: 'verifiers',
  ...{ Agent: 'AgentFly', HFAgent: 'AgentFly', ReactAgent: 'AgentFly', CodeAgent: 'AgentFly', AutoAgent: 'AgentFly' },
  ...{ ActionAgent: 'AgentFly', SearchR1Agent: 'AgentFly', BashSWEAgent: 'AgentFly', Qwen3CoderSWEAgent: 'AgentFly' },
  ...{ FunctionCallSWEAgent: 'AgentFly', AsyncVLLMBackend: 'AgentFly', AsyncVLLMConfig: 'AgentFly' },
  ...{ ClientBackend: 'AgentFly', ClientConfig: 'AgentFly', AsyncVerlBackend: 'AgentFly', AsyncVerlConfig: 'AgentFly' },
  ...{ OpenAIWrapper: 'named like vLLMWrapper', MultiAgentEnv: 'named like MultiTurnEnv' },
  GameEnv: 'named like MultiTurnEnv',
  ...{ Argument: 'commander', Command: 'commander', Option: 'commander', InvalidArgumentError: 'commander' },
}

const torchrl = new Set(
  Object.values((JSON.parse(readFileSync('test/golden/torchrlNames.json', 'utf8')) as TorchRLNames).names)
    .flat()
    .flatMap((name) => name.split('.')),
)

describe('tables of option kinds', () => {
  it('are those of the types: `npm run make -- options` writes them', () => {
    const files = optionKindsFiles(program)
    expect(files.size).toBeGreaterThan(0)
    for (const [path, text] of files) expect(readFileSync(path, 'utf8'), path).toBe(text)
  })
})

describe('names of the public surface', () => {
  const named = [...surface.values()].flat()

  it('are camelCase for functions, unless TorchRL or another library has the name', () => {
    const isFree = (name: string): boolean => torchrl.has(name) || FIELD_NAMES[name] !== undefined
    const wrong = named.filter(({ kind, name }) => kind === 'value' && /^[A-Z].*[a-z]/.test(name) && !isFree(name))
    // Classes are types as well: errors.
    expect(wrong.filter(({ declaration }) => !declaration.startsWith('class ')).map(({ name }) => name)).toEqual([])
    expect(Object.keys(FIELD_NAMES).filter((name) => !named.some((each) => each.name === name))).toEqual([])
  })

  it('are PascalCase for types, unless TorchRL has the name', () => {
    const wrong = named.filter(({ kind, name }) => kind === 'type' && !/^[A-Z]/.test(name) && !torchrl.has(name))
    expect(wrong.map(({ name }) => name)).toEqual([])
  })
})

describe('doors', () => {
  it('are the index of each package, the files of src/doors, and other parts of packages', () => {
    const files = readdirSync('src/doors').map((file) => join('src/doors', file))
    const parts = [
      ...['packages/base/src/host/index.ts', 'packages/tfjs-onnxruntime/src/scope.ts'],
      'packages/tfjs-onnxruntime/src/profile/index.ts',
      ...['rules', 'testing', 'commands'].map((name) => `packages/games/src/${name}.ts`),
      ...['cluster', 'tinker', 'tracking'].map((name) => `packages/${name}/src/command.ts`),
      ...['agents', 'bench', 'cluster', 'serve', 'tinker', 'view'].map((name) => `packages/${name}/src/commands.ts`),
      'packages/serve/src/environments.ts',
      ...['learner', 'server'].map((name) => `packages/tinker/src/${name}.ts`),
    ]
    const indexes = SOURCE_FOLDERS.map((folder) => `${folder}/index.ts`)
    expect([...DOORS.values()].sort()).toEqual([...indexes, ...files, ...parts].sort())
  })

  it('begin with a paragraph that names their audience', () => {
    for (const file of DOORS.values()) {
      const [comment = ''] = /\/\*\*[\s\S]*?\*\//.exec(readFileSync(file, 'utf8')) ?? []
      expect(comment, file).toMatch(/\bfor (those|everybody)\b/i)
    }
  })

  it('export at most 300 names from the root', () => {
    expect(surface.get('tandem-rl')!.length).toBeLessThanOrEqual(300)
  })

  it('export every name once: no two doors of the kernel have the same, and no two packages', () => {
    const names = [...surface].flatMap(([door, each]) =>
      each.filter(({ file }) => isHome(door, file)).map(({ name }) => name),
    )
    expect(names.length).toBeGreaterThan(1000)
    expect(names.filter((name, i) => names.indexOf(name) < i)).toEqual([])
  })

  it.each([...surface])('%s is as docs/api has it; npm run make -- api writes it', (door, names) => {
    expect(readFileSync(reportFile(door), 'utf8')).toBe(reportOf(door, names))
  })

  it('have a report each, and no other report is left', () => {
    expect(
      readdirSync(REPORT)
        .map((file) => join(REPORT, file))
        .sort(),
    ).toEqual([...DOORS.keys()].map(reportFile).sort())
  })

  it.each(Object.entries(LIGHT))('%s loads no onnxruntime and no backend', async (door, loaded) => {
    const { stdout, stderr } = await loadedBy(door)
    expect(stderr).toBe('')
    expect(JSON.parse(stdout)).toEqual(loaded)
  })

  it('and the list of commands load no onnxruntime and no backend: tandem --help starts at once', async () => {
    const { stdout, stderr } = await loadedBy('./src/cli/commands.js')
    expect(stderr).toBe('')
    expect(JSON.parse(stdout)).toEqual([])
  })
})
