/** Short training runs of many algorithms with the same settings, and the file of their results. */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { AlgorithmName } from '../../src/objectives/algorithms.js'
import type { EvaluationRecord, StepRecord } from '../../src/run/metrics/records.js'
import type { RunEvent } from '../../src/run/train/events.js'
import { followRecipe } from './recipeRuns.js'

/** The recorded metrics of each update. */
export type Kept = 'accuracy' | 'reward' | 'gradNorm' | 'clipFraction' | 'pgClipFraction' | 'entropy' | 'klToRef'

/** A run by name. */
export interface RunName {
  readonly setup: string
  readonly algorithm: AlgorithmName
  readonly seed: number
}

/** The results of a run, per evaluation (one more than updates) and per update. */
export interface LearningRun extends RunName, Readonly<Record<Kept, readonly number[]>> {
  /** Share of right greedy answers to held-out problems, before the first update and after each. */
  readonly heldOut: readonly number[]
  /** Median processor time of an update, all threads together, without evaluations. */
  readonly cpuSeconds: number
}

/**
 * Settings shared by all runs of a picture, by flag name. Others have `tandem train`'s defaults.
 */
export type SharedSettings = Readonly<Record<string, number>> & { readonly steps: number; readonly evalEvery: number }

/** The file: settings by the name of their setup, and runs. */
export interface LearningData {
  readonly settings: Readonly<Record<string, SharedSettings>>
  readonly runs: readonly LearningRun[]
}

const rounded = (value: number): number => Number(value.toPrecision(4))

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!

const sameRun = (a: RunName, b: RunName): boolean =>
  a.setup === b.setup && a.algorithm === b.algorithm && a.seed === b.seed

/** The file's contents; nothing if there is no file. */
export const readLearningData = (path: string): LearningData =>
  existsSync(path)
    ? (JSON.parse(readFileSync(path, 'utf8')) as LearningData) // written by `addRun`
    : { settings: {}, runs: [] }

/**
 * Returns `true` if the run is in the file. Throws Error if runs of its setup have other settings.
 */
export const isDone = (data: LearningData, name: RunName, settings: SharedSettings): boolean => {
  const stored = data.settings[name.setup]
  if (stored !== undefined && JSON.stringify(stored) !== JSON.stringify(settings))
    throw new Error(
      `the runs of ${name.setup} were made with ${JSON.stringify(stored)}, not ${JSON.stringify(settings)}: remove them from the file first`,
    )
  return data.runs.some((run) => sameRun(run, name))
}

/**
 * Adds a run to the file, one line per list of numbers, ordered by name. The file is replaced
 * atomically. If two programs write at the same time, one of them must repeat its run.
 */
export const addRun = (path: string, run: LearningRun, settings: SharedSettings): LearningData => {
  const data = readLearningData(path)
  const order = ({ setup, algorithm, seed }: RunName): string => `${setup} ${algorithm} ${seed}`
  const added: LearningData = {
    settings: { ...data.settings, [run.setup]: settings },
    runs: [...data.runs.filter((each) => !sameRun(each, run)), run].sort((a, b) => (order(a) < order(b) ? -1 : 1)),
  }
  const lines = JSON.stringify(added, undefined, 2).replaceAll(
    /\[\s+([-\d.,e\s]+?)\s+\]/g,
    (_, numbers: string) => `[${numbers.replaceAll(/\s+/g, ' ')}]`,
  )
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(`${path}.part`, `${lines}\n`)
  renameSync(`${path}.part`, path)
  return added
}

/** Processor time of this process so far, in seconds. */
const cpuNow = (): number => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1e6
}

/** Returns the recorded numbers of a step. */
const keptOf = ({ reward, parts, update }: StepRecord): Readonly<Record<string, number | null | undefined>> => ({
  ...update,
  reward,
  accuracy: parts.success,
})

/**
 * Trains as `tandem train` does, in a subfolder of `parent` that is kept.
 *
 * Errors   throws what `train` throws.
 * Effects  writes the run folder, and calls `say` with one line after each update.
 */
export const learn = async (
  name: RunName,
  shared: SharedSettings,
  { parent, say }: { readonly parent: string; readonly say: (line: string) => void },
): Promise<LearningRun> => {
  const folder = join(parent, `${name.setup}-${name.algorithm}-${name.seed}`)
  rmSync(folder, { recursive: true, force: true }) // a run that was stopped: it takes a minute to make again
  const { algorithm, seed } = name
  const flags = { ...shared, algorithm, seed, checkpointEvery: shared.steps, trajectories: 0 }
  const steps: StepRecord[] = []
  const evaluations: EvaluationRecord[] = []
  const seconds: number[] = []
  let before = cpuNow()
  const see = (event: RunEvent): void => {
    const now = cpuNow()
    if (event.type === 'step') {
      steps.push(event)
      seconds.push(now - before)
    }
    if (event.type === 'evaluation') {
      evaluations.push(event)
      say(
        `${algorithm}, seed ${seed}: ${(100 * (event.scores.accuracy ?? 0)).toFixed(1)} % after ${event.step} of ${shared.steps} updates`,
      )
    }
    before = cpuNow()
  }
  await followRecipe('wordProblems', { folder, flags, onEvent: see })
  const curve = (key: Kept): readonly number[] => steps.map((step) => rounded(keptOf(step)[key] ?? Number.NaN))
  return {
    ...name,
    heldOut: evaluations.map(({ scores }) => rounded(scores.accuracy ?? Number.NaN)),
    accuracy: curve('accuracy'),
    reward: curve('reward'),
    gradNorm: curve('gradNorm'),
    clipFraction: curve('clipFraction'),
    pgClipFraction: curve('pgClipFraction'),
    entropy: curve('entropy'),
    klToRef: curve('klToRef'),
    cpuSeconds: rounded(median(seconds)),
  }
}
