/** Readers of run folders, also of runs that are training. */
import { type Files, orThrow, parseJsonAs, sizeProblem } from '@tandem-rl/base'
import { filesBelow, fileTimes, lockState } from '@tandem-rl/host'
import type { Owned } from '@tandem-rl/tfjs-onnxruntime/scope'
import { z } from 'zod'
import { bestEvaluation, inOrder, stepName, stepOf } from '../../data/runLayout.js'
import type { TensorDict } from '../../data/tensorDict/tensorDict.js'
import { type Alarm, recordedLimits, watchSteps } from '../metrics/alarms.js'
import type { EvaluationRecord, StepRecord } from '../metrics/records.js'
import { readBatch } from './batchFolder.js'
import { configSchema, type RunConfig, type RunPaths, runLock, runPaths } from './runFolder.js'

/**
 * The state of a run. `running`: a process holds the folder's lock. Without a lock file, the log
 * changed within the last minute. `finished`: the run has a summary with that status. `stopped`:
 * neither.
 */
type RunState = 'running' | 'finished' | 'stopped'

/** The small files of a run folder, as they are when they are read. */
export interface RunRecords {
  /** The name of the recipe, or `null` for a run of a program. */
  readonly recipe: string | null
  readonly settings: RunConfig['settings']
  /** Descriptions of the run's parts. */
  readonly parts: RunConfig['run']
  /** The program of the first session with its arguments, or `null` in older folders. */
  readonly command: string | null
  /** The version of Tandem that started it, or `null` in older folders. */
  readonly version: string | null
  /** The machine of the last session and the version of Node, or `null` if unknown. */
  readonly machine: string | null
  readonly state: RunState
  readonly steps: readonly StepRecord[]
  readonly evaluations: readonly EvaluationRecord[]
  /** The best evaluation after training, or `null`. */
  readonly best: EvaluationRecord | null
  /** Steps with a checkpoint, in order. */
  readonly checkpoints: readonly number[]
  /** Steps with a batch that was saved for replay, in order. */
  readonly batches: readonly number[]
  /** Bytes of the log of trajectories. */
  readonly trajectoryBytes: number
  /** Times in ISO format, or `null` if unknown. */
  readonly startedAt: string | null
  readonly updatedAt: string | null
}

/** A raised alarm, and the folder of its batch below the run folder; `null` if none was saved. */
interface SavedAlarm extends Alarm {
  readonly batch: string | null
}

/** A reader of a run folder. It changes nothing in the folder. */
export interface RunReader {
  readonly folder: string
  readonly files: Files
  /** The log of trajectories: JSON lines of `TrajectoryRecord`. It only grows. */
  readonly trajectories: string
  /**
   * Reads the small files. Lines that an earlier call has read are not parsed again.
   *
   * Errors   rejects if the folder no longer holds a run or a line is not JSON.
   */
  readonly records: () => Promise<RunRecords>
  /** Returns the alarms of the recorded steps at the limits of the run. */
  readonly alarms: () => Promise<readonly SavedAlarm[]>
  /** Returns the folder of a step's checkpoint, from which a learner restores. */
  readonly checkpoint: (step: number) => string
  /** Reads the batch of a step that was saved for replay. Returns `null` if it was not. */
  readonly savedBatch: (step: number) => Promise<Owned<TensorDict> | null>
}

const { settings, run, start } = configSchema.shape

/** The fields of config.json that are read. Folders of any version have them. */
const readSchema = z.object({ recipe: z.object({ name: z.string() }).nullable(), settings, run, start })

const machineSchema = z.record(z.string(), z.string())
const statusSchema = z.object({ status: z.string() })

const readAs = async <T>(files: Files, path: string, schema: z.ZodType<T>): Promise<T | null> => {
  const text = await files.readText(path)()
  if (text._tag === 'Left' && text.left.code === 'ENOENT') return null
  const parsed = parseJsonAs(schema, orThrow(text))
  return parsed._tag === 'Right' ? parsed.right : null
}

const decoder = new TextDecoder()

/**
 * JSON lines of a file that only grows: each call parses what was added since the last one. Calls
 * wait for each other, so that two at once do not both add the same lines.
 */
const growingLines = <T>(files: Files, path: string) => {
  let records: readonly T[] = []
  let bytes = 0
  const readAdded = async (): Promise<readonly T[]> => {
    if (!orThrow(await files.exists(path)())) return []
    const file = orThrow(await files.open(path)())
    try {
      if (file.size === bytes) return records
      if (file.size < bytes) {
        records = []
        bytes = 0
      }
      const problem = sizeProblem(path, { bytes: file.size, as: 'text' })
      if (problem !== null) throw new Error(`${path}: ${problem}`)
      const added = new Uint8Array(file.size - bytes)
      orThrow(await file.read(added, bytes)())
      const end = added.lastIndexOf(10) + 1
      const lines = decoder.decode(added.subarray(0, end)).split('\n')
      records = [...records, ...lines.filter((line) => line !== '').map((line) => JSON.parse(line) as T)] // written by Tandem
      bytes += end
      return records
    } finally {
      orThrow(await file.close())
    }
  }
  let last: Promise<readonly T[]> = Promise.resolve(records)
  return (): Promise<readonly T[]> => {
    last = last.then(readAdded, readAdded)
    return last
  }
}

const stepsIn = async (files: Files, folder: string): Promise<readonly number[]> =>
  inOrder(orThrow(await files.list(folder)())).map(stepOf)

/** Describes the machine of the last session, and Node. */
const machineOf = async (
  files: Files,
  paths: RunPaths,
  { start }: z.infer<typeof readSchema>,
): Promise<string | null> => {
  const machine = await readAs(files, paths.machine, machineSchema)
  const known = machine === null ? [start?.processor ?? []].flat() : Object.values(machine)
  const parts = [...known, ...(start === undefined ? [] : [`Node ${start.node}`])]
  return parts.length === 0 ? null : parts.join(', ')
}

/** A log that changed within this time belongs to an active run, in milliseconds. */
const ACTIVE = 60_000

const stateOf = async (files: Files, paths: RunPaths, updatedAt: string | null): Promise<RunState> => {
  const lock = await lockState(runLock(paths.folder))
  const status = (await readAs(files, paths.summary, statusSchema))?.status
  if (lock === 'held') return 'running'
  if (status === 'finished') return 'finished'
  if (lock === 'stale') return 'stopped'
  const isNew = updatedAt !== null && Date.now() - Date.parse(updatedAt) < ACTIVE
  return isNew && status === undefined ? 'running' : 'stopped'
}

const recordsOf = async (
  files: Files,
  paths: RunPaths,
  lines: () => Promise<readonly (StepRecord | EvaluationRecord)[]>,
): Promise<RunRecords> => {
  const config = await readAs(files, paths.config, readSchema)
  if (config === null) throw new RangeError(`${paths.folder}: expected a run folder with config.json`)
  const records = await lines()
  const evaluations = records.filter((record) => record.type === 'evaluation')
  const times = { config: await fileTimes(paths.config), metrics: await fileTimes(paths.metrics) }
  const updatedAt = times.metrics?.modified ?? times.config?.modified ?? null
  return {
    recipe: config.recipe?.name ?? null,
    settings: config.settings,
    parts: config.run,
    command: config.start?.command ?? null,
    version: config.start?.version ?? null,
    machine: await machineOf(files, paths, config),
    state: await stateOf(files, paths, updatedAt),
    steps: records.filter((record) => record.type === 'step'),
    evaluations,
    best: bestEvaluation(evaluations) ?? null,
    checkpoints: await stepsIn(files, paths.checkpoints),
    batches: await stepsIn(files, paths.batches),
    trajectoryBytes: (await fileTimes(paths.trajectories))?.bytes ?? 0,
    startedAt: config.start?.at ?? times.config?.created ?? null,
    updatedAt,
  }
}

const alarmsOf = async (
  { files, records }: Pick<RunReader, 'files' | 'records'>,
  folder: string,
): Promise<readonly SavedAlarm[]> => {
  const { steps, settings } = await records()
  if (steps.length === 0) return []
  const saved = orThrow(await files.list(folder)()).map((name) => `alarms/${name}`)
  const batchOf = (step: number): string | undefined => saved.find((each) => each === `alarms/${stepName(step)}`)
  return watchSteps(steps, recordedLimits(settings)).alarms.map((alarm) => ({
    ...alarm,
    batch: batchOf(alarm.since) ?? batchOf(alarm.step) ?? null,
  }))
}

/**
 * Opens the folder of a run for reading. The run may be training, or be of an older version.
 *
 * Returns  `null` if the folder holds no run: no config.json, or one of another program.
 */
export const readRun = async (folder: string, files: Files = filesBelow(folder)): Promise<RunReader | null> => {
  const paths = runPaths(folder)
  const config = await files.readText(paths.config)()
  if (config._tag === 'Left' || parseJsonAs(readSchema, config.right)._tag === 'Left') return null
  const lines = growingLines<StepRecord | EvaluationRecord>(files, paths.metrics)
  const records = (): Promise<RunRecords> => recordsOf(files, paths, lines)
  return {
    folder,
    files,
    trajectories: paths.trajectories,
    records,
    alarms: () => alarmsOf({ files, records }, paths.alarms),
    checkpoint: (step) => `${paths.checkpoints}/${stepName(step)}`,
    savedBatch: async (step) => {
      const place = `${paths.batches}/${stepName(step)}`
      return orThrow(await files.exists(place)()) ? orThrow(await readBatch(files, place)()).batch : null
    },
  }
}
