/** The demonstration: its runs by name, their settings, and the files of their results. */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export const TASKS = ['jsonReply', 'shortSentence'] as const
export const KINDS = ['lora', 'all'] as const
export const SIDES = ['tandem', 'trl'] as const

export type Task = (typeof TASKS)[number]

/** A run by name. */
export interface RunName {
  readonly task: Task
  readonly side: (typeof SIDES)[number]
  /** The trained weights: an adapter, or all. */
  readonly kind: (typeof KINDS)[number]
  readonly seed: number
}

/** The settings of all runs. Everything else has Tandem's defaults. */
export const SHARED = {
  steps: 10,
  prompts: 4,
  group: 8,
  maxNewTokens: 48,
  threads: 1,
  evaluated: 200,
  lora: { rank: 16, alpha: 16 },
} as const

/** An evaluation by greedy replies to held-out tasks. */
export interface HeldOut {
  /** Share of solved tasks. */
  readonly accuracy: number
  /** Mean length of a reply. */
  readonly tokens: number
}

/** The measured numbers of a step. */
export interface Step {
  readonly reward: number
  /** Mean length of a completion. */
  readonly tokens: number
  /** Processor time of all threads, and wall time. */
  readonly cpuSeconds: number
  readonly wallSeconds: number
}

/** The results of a run. */
export interface RunResult extends RunName {
  readonly learningRate: number
  readonly steps: readonly Step[]
  readonly heldOut: HeldOut
  /** Largest resident memory of the process up to the end of the last step. */
  readonly peakMiB: number
  readonly versions: Readonly<Record<string, string>>
  readonly processor: string
  /** The message of the alarm that ended the run before its last step. */
  readonly ended?: string
}

const FOLDER = 'docs/data/demonstration'

export const nameOf = ({ task, side, kind, seed }: RunName): string => [task, side, kind, seed].join('-')

const pathOf = (name: string): string => join(FOLDER, `${name}.json`)

export const hasResult = (name: string): boolean => existsSync(pathOf(name))

/** Writes a file of results, atomically. */
export const writeResult = (name: string, result: object): void => {
  mkdirSync(FOLDER, { recursive: true })
  const text = JSON.stringify(result, undefined, 2).replaceAll(
    /\{\s+("reward"[^{}]+?)\s+\}/g,
    (_, fields: string) => `{ ${fields.replaceAll(/\s+/g, ' ')} }`,
  )
  writeFileSync(`${pathOf(name)}.part`, `${text}\n`)
  renameSync(`${pathOf(name)}.part`, pathOf(name))
}

/** Reads the evaluation of the untrained model. */
export const untrained = (task: Task): HeldOut =>
  JSON.parse(readFileSync(pathOf(`${task}-untrained`), 'utf8')) as HeldOut // written by `writeResult`

/** Reads the results of all runs that have been made. */
export const readResults = (): readonly RunResult[] =>
  readdirSync(FOLDER)
    .filter((file) => /-\d+\.json$/.test(file))
    .sort()
    .map((file) => JSON.parse(readFileSync(join(FOLDER, file), 'utf8')) as RunResult) // written by `writeResult`
