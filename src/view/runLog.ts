/** The records of a run folder, read again when the files have grown. */
import { type Files, orThrow, parseJsonAs, sizeProblem } from '@tandem-rl/base'
import { z } from 'zod'
import type { Json } from '../data/codecs/plainValues.js'
import { inOrder, stepOf } from '../data/runLayout.js'
import { fileTimes } from '../live/fileTimes.js'
import { type LockState, lockState } from '../live/lock.js'
import type { EvaluationRecord, StepRecord } from '../run/metrics/records.js'
import { type RunPaths, type RunStart, runLock, runPaths, startSchema } from '../run/store/runFolder.js'
import type { MetricsAnswer } from './protocol.js'

/** The parts of config.json that the viewer shows. */
interface LogConfig {
  readonly recipe: { readonly name: string } | null
  readonly settings: Readonly<Record<string, Json>>
  readonly run: Readonly<Record<string, Json>>
  readonly start?: RunStart
}

/** Everything that is known about a run, from its files. */
export interface RunLog {
  readonly paths: RunPaths
  readonly config: LogConfig
  readonly steps: readonly StepRecord[]
  readonly evaluations: readonly EvaluationRecord[]
  /** Bytes of trajectories.jsonl. */
  readonly trajectoryBytes: number
  readonly machine: string | null
  readonly lock: LockState
  /** `finished` or `interrupted`, or `null` before the end. */
  readonly status: string | null
  readonly checkpoints: readonly number[]
  readonly batches: readonly number[]
  readonly startedAt: string | null
  readonly updatedAt: string | null
  /** The curves of a log of another program. Default: those of the steps. */
  readonly columns?: MetricsAnswer
}

const json: z.ZodType<Json> = z.json()

/** Checks config.json of a run. */
export const logConfigSchema = z.object({
  recipe: z.object({ name: z.string() }).nullable(),
  settings: z.record(z.string(), json),
  run: z.record(z.string(), json),
  start: startSchema.exactOptional(),
})

const machineSchema = z.record(z.string(), z.string())
const statusSchema = z.object({ status: z.string() })

/** Describes the machine of the last session, and Node. */
const machineOf = (machine: Readonly<Record<string, string>> | null, { start }: LogConfig): string | null => {
  const known = machine === null ? [start?.processor ?? []].flat() : Object.values(machine)
  const parts = [...known, ...(start === undefined ? [] : [`Node ${start.node}`])]
  return parts.length === 0 ? null : parts.join(', ')
}

const read = async <T>(files: Files, path: string, schema: z.ZodType<T>): Promise<T | null> => {
  if (!orThrow(await files.exists(path)())) return null
  const parsed = parseJsonAs(schema, orThrow(await files.readText(path)()))
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

/**
 * Makes a reader of a run folder's small records. Each call returns them as they are now; nothing
 * that was read is parsed again.
 *
 * Errors   rejects if the folder holds no run or a line is not JSON.
 */
export const runLog = (files: Files, folder: string): (() => Promise<RunLog>) => {
  const paths = runPaths(folder)
  const metrics = growingLines<StepRecord | EvaluationRecord>(files, paths.metrics)
  return async () => {
    const config = await read(files, paths.config, logConfigSchema)
    if (config === null) throw new RangeError(`${folder}: expected a run folder with config.json`)
    const records = await metrics()
    const machine = await read(files, paths.machine, machineSchema)
    const times = { config: await fileTimes(paths.config), metrics: await fileTimes(paths.metrics) }
    return {
      paths,
      config,
      steps: records.filter((record) => record.type === 'step'),
      evaluations: records.filter((record) => record.type === 'evaluation'),
      trajectoryBytes: (await fileTimes(paths.trajectories))?.bytes ?? 0,
      machine: machineOf(machine, config),
      lock: await lockState(runLock(folder)),
      status: (await read(files, paths.summary, statusSchema))?.status ?? null,
      checkpoints: await stepsIn(files, paths.checkpoints),
      batches: await stepsIn(files, paths.batches),
      startedAt: config.start?.at ?? times.config?.created ?? null,
      updatedAt: times.metrics?.modified ?? times.config?.modified ?? null,
    }
  }
}
