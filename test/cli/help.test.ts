/** Help texts, and errors for mistyped flags. */
import { describe, expect, it } from 'vitest'
import { loadRecipe } from '../../src/cli/recipeFile.js'
import { recipeFlags } from '../../src/cli/recipeFlags.js'
import { settingLeaves } from '../../src/run/parts/recipe.js'
import { ALL_COMMANDS } from '../kit/commands.js'
import { tandem, tandemOk, useTemporaryFolder } from '../kit/runs.js'

const cwd = useTemporaryFolder()('.')

const helpTexts = new Map<string, Promise<string>>()

/** The help text of a command. Its process runs once. */
const helpOf = (...words: readonly string[]): Promise<string> => {
  const command = words.join(' ')
  const text = helpTexts.get(command) ?? tandemOk([...words, '--help'], { cwd }).then(({ stdout }) => stdout)
  helpTexts.set(command, text)
  return text
}

const { recipe } = await loadRecipe('wordProblems')
const leaves = settingLeaves(recipe.settings)

/** The flags of a recipe. */
const RECIPE_FLAGS = [
  ...recipeFlags(recipe).map(({ option }) => option.long!.slice(2)),
  ...['set', 'config', 'adapter', 'trust-recipe'],
]

const FLAGS: Readonly<Record<string, readonly string[]>> = {
  train: [
    ...RECIPE_FLAGS,
    ...['out', 'resume', 'print-config', 'dry-run', 'memory', 'queue', 'queue-name', 'tensorboard', 'mlflow'],
    ...['metrics-port', 'metrics-host', 'otel', 'track-samples', 'backend', 'threads', 'json', 'help'],
    ...['learner', 'url', 'base-model', 'checkpoint-ttl', 'calibrate', 'profile', 'trackio', 'wandb', 'prices'],
    ...['accept-changes', 'lease-seconds', 'wire'],
  ],
  eval: [...RECIPE_FLAGS, 'backend', 'threads', 'json', 'help'],
  arena: [
    ...['config', 'base-config', 'backend', 'model', 'max-tokens', 'temperature', 'log_level', 'override'],
    ...['out', 'resume', 'json', 'print-config', 'help'],
  ],
  replay: ['memory', 'trust-recipe', 'accept-changes', 'backend', 'threads', 'json', 'help'],
  worker: [
    ...RECIPE_FLAGS,
    ...['on', 'served-model', 'api-key', 'slots', 'name', 'queue', 'queue-name', 'backend', 'threads', 'help'],
    'wait-seconds',
  ],
  bench: [...RECIPE_FLAGS, 'measured', 'against', 'rounds', 'picture', 'memory', 'backend', 'threads', 'help'],
  merge: ['adapter', 'dtype', 'backend', 'threads', 'help'],
  init: ['with', 'help'],
  launch: ['url', 'out', 'entrypoint', 'resume', 'stop', 'help'],
  view: ['port', 'export', 'trust-recipe', 'backend', 'threads', 'help'],
  runs: ['json', 'help'],
  compare: ['names', 'json', 'help'],
  report: ['out', 'help'],
  sample: [
    ...[
      'model',
      'adapter',
      'recipe',
      'count',
      'temperature',
      'top-k',
      'top-p',
      'max-new-tokens',
      'seed',
      'backend',
      'threads',
    ],
    ...['json', 'help'],
  ],
  serve: [
    'thoughts',
    'tool-choice-required',
    ...[
      'host',
      'port',
      'allowed-hosts',
      'served-model-name',
      'api-key',
      'allowed-origins',
      'dev',
      'enable-lora',
      'max-model-len',
    ],
    ...[
      'max-num-seqs',
      'kv-cache-bytes',
      'no-enable-prefix-caching',
      'max-logprobs',
      'max-body-bytes',
      'logprobs-mode',
      'tool-call-parser',
      'tool-prompt',
    ],
    ...['seed', 'shutdown-seconds', 'backend', 'threads', 'help', 'tinker', 'tinker-checkpoints'],
    ...['env', 'set', 'adapter'],
  ],
  capture: [
    'thoughts',
    'tool-choice-required',
    ...['upstream', 'upstream-model', 'upstream-key', 'upstream-seconds', 'model-folder'],
    ...['served-model-name', 'host', 'port', 'allowed-hosts', 'api-key', 'out', 'unknown-sessions', 'continuation'],
    ...[
      'temperature',
      'tool-call-parser',
      'tool-prompt',
      'seed',
      'shutdown-seconds',
      'max-sessions',
      'max-bytes',
      'idle-seconds',
    ],
    ...['backend', 'threads', 'help'],
  ],
  complete: ['help'],
  doctor: ['model', 'backend', 'threads', 'json', 'help'],
  agent: ['help'], // its options are those of `tandem agent run`
  tinker: ['help'], // its options are those of `tandem tinker check`
}

/** The long options that a help text lists, each at the beginning of its line. */
const listed = (help: string): readonly string[] =>
  [...help.matchAll(/^ {2}(?:-\w, )?--([\w-]+)/gm)].map((match) => match[1]!)

/** Expects every setting with its path and its default. */
const expectDefaults = (help: string): void => {
  const text = help.replaceAll(/\s+/g, ' ')
  for (const { path, default: value } of leaves)
    expect(text).toContain(`[${path.join('.')}, default ${value === null ? 'off' : JSON.stringify(value)}]`)
}

describe('help', () => {
  it('of tandem lists every command', async () => {
    const text = await helpOf()
    for (const { name } of ALL_COMMANDS) expect(text).toMatch(new RegExp(`^ {2}${name} .*\\w`, 'm'))
  })

  it('by name is that of the flag', async () => {
    const { stdout } = await tandemOk(['help', 'doctor'], { cwd })
    expect(stdout).toBe(await helpOf('doctor'))
    expect(stdout).toContain(ALL_COMMANDS.find(({ name }) => name === 'doctor')!.summary.slice(0, 40))
  })

  it.each(ALL_COMMANDS.flatMap(({ name, examples }) => examples.map((line) => [name, line] as const)))(
    'of tandem %s has an example with existing options: %s',
    async (name, line) => {
      const [program, command, ...words] = line.split(' ')
      expect([program, command]).toEqual(['tandem', name])
      const options = words.filter((word) => word.startsWith('--')).map((word) => word.slice(2))
      const length = name === 'agent' || name === 'tinker' ? 4 : 2 // with the subcommand and its argument
      const known = listed(await helpOf(...line.split(' ').slice(1, length)))
      expect(options.filter((option) => !known.includes(option))).toEqual([])
    },
  )

  it('is tested for every command', () => {
    expect(Object.keys(FLAGS).sort()).toEqual(ALL_COMMANDS.map(({ name }) => name).sort())
  })

  it.each(Object.keys(FLAGS))('of tandem %s lists every option, each once', async (name) => {
    const text = await helpOf(name)
    expect([...listed(text)].sort()).toEqual([...FLAGS[name]!].sort())
    if (name === 'train') expectDefaults(text)
  })
})

describe('a mistake on the command line', () => {
  it.each([
    [['train', '--lerning-rate', '1'], '--lerning-rate'],
    [['train', '--steps', '1.5'], 'steps: expected int'],
  ])('%j is named, and nothing is run', async (args, culprit) => {
    const { code, stdout, stderr } = await tandem(args, { cwd })
    expect(code).toBe(1)
    expect(stderr).toContain(culprit)
    expect(stderr).not.toMatch(/^ +at /m) // no stack
    expect(stdout).toBe('')
  })
})
