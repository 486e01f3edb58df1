/**
 * Runs for tests: temporary folders, a small model that answers word problems, and the real
 * command.
 */
import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { createInterface } from 'node:readline'
import { child, type HostArray, keyFromSeed, normals } from '@tandem-rl/base'
import { afterAll, expect } from 'vitest'
import { loadRecipe } from '../../src/cli/recipeFile.js'
import { settingOfFlag } from '../../src/cli/recipeFlags.js'
import { EMBEDDED_MODEL } from '../../src/live/embeddedModel.js'
import { loadPretrained, type ModelText, type Pretrained } from '../../src/modules/pretrained/pretrained.js'
import { pretrainedFiles } from '../../src/modules/pretrained/saveModel.js'
import type { DecoderConfig } from '../../src/modules/transformer/config.js'
import { parameterShapes } from '../../src/modules/transformer/params.js'
import { withSetting } from '../../src/run/parts/recipe.js'
import type { PolicySettings } from '../../src/run/parts/settings.js'
import { compiled } from './compiled.js'
import { tinyConfig } from './models.js'
import { rightOf } from './results.js'

/** Makes paths in a folder that is removed after the tests of the file. */
export const useTemporaryFolder = (): ((name: string) => string) => {
  const folder = mkdtempSync(join(tmpdir(), 'tandem-'))
  afterAll(() => {
    rmSync(folder, { recursive: true, force: true })
  })
  return (name) => join(folder, name)
}

/**
 * Transitions between tokens: mostly `<answer>`, one or two digits, `</answer>`. Several successors
 * are about equally probable.
 */
const successors = (text: ModelText): ReadonlyMap<number, readonly number[]> => {
  const ids = (part: string): readonly number[] => [...text.tokenizer.encode(part)]
  const [open, name, close] = ids('<answer>')
  const [end] = ids('</answer>')
  const digits = [...'1234'].flatMap(ids)
  const stop = text.tokenizer.idOf(text.endOfTurn)!
  const start = ids('<|im_start|>assistant\n').at(-1)!
  return new Map<number, readonly number[]>([
    [start, [open!]],
    [open!, [name!]],
    [end!, [name!]],
    [name!, [close!]],
    [close!, [...digits, stop]],
    ...digits.map((digit) => [digit, [end!]] as const),
  ])
}

const HIDDEN = 16

/** Numbers by parameter: noise, and on top of it one feature for each token that has successors. */
const bigramArrays = (config: DecoderConfig, text: ModelText): ReadonlyMap<string, HostArray> => {
  const key = keyFromSeed(7)
  const arrays = new Map(
    [...parameterShapes(config)].map(([name, shape]) => {
      const data = normals(
        child(key, name),
        shape.reduce((n, m) => n * m, 1),
      )
      const isNorm = name.endsWith('norm.weight')
      return [name, { shape, data: isNorm ? data.fill(1) : data.map((x) => x * 0.02) }] as const
    }),
  )
  const [embedding, head] = [arrays.get('model.embed_tokens.weight')!.data, arrays.get('lm_head.weight')!.data]
  for (const [feature, [token, next]] of [...successors(text)].entries()) {
    embedding[token * HIDDEN + feature] = 4
    for (const id of next) head[id * HIDDEN + feature] = 3
  }
  return arrays
}

/**
 * Makes a model that answers with random small numbers in the right format, which is fast and gives
 * varying rewards.
 */
export const answeringModel = async (): Promise<Pretrained> => {
  const { config: embedded, text } = await rightOf(loadPretrained(EMBEDDED_MODEL))
  const { vocabularySize, endTokens, padToken } = embedded
  const config = tinyConfig({
    ...{ vocabularySize, endTokens, padToken, hiddenSize: HIDDEN },
    ...{ layers: 1, heads: 2, keyValueHeads: 1, tiedEmbeddings: false, maxPositions: 2048 },
  })
  return { config, text, arrays: bigramArrays(config, text) }
}

/** Writes `answeringModel` to a folder. */
export const writeAnsweringModel = async (folder: string): Promise<string> => {
  mkdirSync(folder, { recursive: true })
  for (const [name, contents] of Object.entries(pretrainedFiles(await answeringModel())))
    writeFileSync(join(folder, name), contents)
  return folder
}

const { recipe } = await loadRecipe('wordProblems')

/** The settings of the recipe `wordProblems`. */
export type RunSettings = PolicySettings & { readonly dataset: string | null; readonly evalDataset: string | null }

/** Settings by flag name in camel case: `klCoefficient` for `kl.coefficient`. */
export type Flags = Readonly<Record<string, unknown>>

/** Overrides settings by flag name. Throws for unknown flags and invalid settings. */
export const withFlags = (settings: Flags, flags: Flags): RunSettings => {
  const all = Object.entries(flags).reduce(
    (before, [name, value]) => withSetting(before, settingOfFlag(recipe, name).path, value),
    settings,
  )
  return recipe.settings.parse(all) as RunSettings // the output of its schema
}

/** Settings of a run with four steps, each of a fraction of a second. */
export const smallSettings = (model: string, flags: Flags = {}): RunSettings =>
  withFlags(
    {},
    {
      ...{ model, steps: 4, prompts: 2, group: 2, maxNewTokens: 8 },
      ...{ learningRate: 1e-2, evalTasks: 4, checkpointEvery: 2, keepMegabytes: 0, trajectories: 4, ...flags },
    },
  )

/** `smallSettings` for the command. */
export const SMALL_FLAGS: readonly string[] = Object.entries({
  ...{ steps: 4, prompts: 2, group: 2, 'max-new-tokens': 8, 'learning-rate': 0.01, 'eval-tasks': 4 },
  ...{ 'checkpoint-every': 2, trajectories: 4, threads: 1 },
}).flatMap(([name, value]) => [`--${name}`, String(value)])

/**
 * For runs of the shipped model. In the short form, two files run at a time, and a thread for each
 * core would wait for those of the other file.
 */
export const THREADS: readonly string[] = process.env.LEARNING === 'short' ? ['--threads', '1'] : []

/** GSM8K rows as lines. */
export const gsm8kLines = (count: number): string =>
  Array.from({ length: count }, (_, i) => ({ question: `What is ${i} + 1?`, answer: `It is one more.\n#### ${i + 1}` }))
    .map((row) => `${JSON.stringify(row)}\n`)
    .join('')

/** Every file below a folder and its contents. */
export const contentsOf = (folder: string): Readonly<Record<string, string>> =>
  Object.fromEntries(
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name))
      .sort()
      .map((path) => [relative(folder, path), readFileSync(path, 'base64')]),
  )

/** Lines of JSON as records. */
export const parseJsonLines = (text: string): Readonly<Record<string, unknown>>[] =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>) // every line of ours is an object

/** Removes times and memory from records, which differ between equal runs. */
export const withoutSeconds = (records: readonly object[]): readonly object[] =>
  records.map((record) =>
    Object.fromEntries(Object.entries(record).filter(([name]) => !/seconds|^memory$/i.test(name))),
  )

export interface CommandResult {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

/**
 * Runs the real `tandem` in a child process. `onLine` may send a signal after a line of output.
 * `onSaid` receives the growing text of standard error, and may also send one.
 */
export const tandem = (
  args: readonly string[],
  options: {
    readonly cwd: string
    readonly onLine?: (line: string) => NodeJS.Signals | undefined
    readonly onSaid?: (stderr: string) => NodeJS.Signals | undefined
  },
): Promise<CommandResult> =>
  new Promise((resolve, reject) => {
    const { TANDEM_BACKEND: _, ...inherited } = process.env
    const env = { ...inherited, XDG_STATE_HOME: join(options.cwd, '.state') }
    const command = [compiled('src/cli/main.ts'), ...args]
    const running = spawn(process.execPath, command, { cwd: options.cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
    let [stdout, stderr] = ['', '']
    createInterface(running.stdout).on('line', (line) => {
      stdout += `${line}\n`
      const signal = options.onLine?.(line)
      if (signal !== undefined) running.kill(signal)
    })
    running.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text
      const signal = options.onSaid?.(stderr)
      if (signal) running.kill(signal)
    })
    running.on('error', reject)
    running.on('close', (code, signal) => resolve({ code, signal, stdout, stderr }))
  })

/** Runs `tandem`, which should succeed. */
export const tandemOk = async (
  args: readonly string[],
  options: Parameters<typeof tandem>[1],
): Promise<CommandResult> => {
  const result = await tandem(args, options)
  expect(result, result.stderr).toMatchObject({ code: 0, signal: null })
  return result
}
