/** Replays one step of a run from the state before it, without changing the run folder. */
import { type Clock, countOf, FailureError, type FileFailure, type Files, orThrow } from '@tandem-rl/base'
import { liveClock } from '@tandem-rl/base/host'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { stepName } from '../../data/runLayout.js'
import type { TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { StepRecord, UpdateMetrics } from '../metrics/records.js'
import type { AnyRun } from '../parts/run.js'
import { BATCH_FILE, type BatchFailure, type ReadBatch, readBatch } from '../store/batchFolder.js'
import { type CheckpointState, checkpointDigests, checkpointsIn, readCheckpoint } from '../store/checkpoint.js'
import { openRun, type RunPaths, readSteps } from '../store/runFolder.js'
import { acceptedChanges, type RunStore } from '../store/store.js'
import { learnStep, type OpenRun, type Progress, sampleStep } from './step.js'

/**
 * A difference between the recorded and the replayed step. Missing values are shown as `absent`.
 */
interface Difference {
  /** A field of the step's record, `weights`, or `end`. */
  readonly what: string
  readonly was: string
  readonly is: string
}

export type ReplayEvent =
  /** The replay starts from a checkpoint. */
  | { readonly type: 'from'; readonly step: number; readonly checkpointStep: number; readonly folder: string | null }
  /** A step between the checkpoint and the requested step was repeated. */
  | { readonly type: 'caught-up'; readonly step: number; readonly differences: readonly Difference[] }
  | {
      readonly type: 'replayed'
      readonly step: number
      /** The origin of the batch: saved by the run (`kept`), or sampled again. */
      readonly batch: 'kept' | 'sampled'
      /** Metrics of each optimizer step. */
      readonly updates: readonly UpdateMetrics[]
      /** The error if the replayed step failed with a loss that is not finite, else `null`. */
      readonly end: string | null
      /** Fields compared with the run's record, and `weights` if a checkpoint follows the step. */
      readonly compared: readonly string[]
      readonly differences: readonly Difference[]
    }

export interface ReplayOptions {
  /** The run's folder. */
  readonly store: RunStore
  /** The number of a step, or the folder of its saved batch. */
  readonly batch: string
  readonly clock?: Clock
}

const shown = (value: unknown): string => (value === undefined ? 'absent' : JSON.stringify(value))

/** Returns the comparable fields of a record: all but times and memory. */
const compared = (record: object): ReadonlyMap<string, string> =>
  new Map(
    Object.entries(record)
      .filter(([name]) => name !== 'seconds' && name !== 'memory')
      .map(([name, value]) => [name, shown(value)]),
  )

/** Lists the fields of `is` that differ from `was`. */
const differences = (was: object, is: object): readonly Difference[] => {
  const before = compared(was)
  return [...compared(is)].flatMap(([what, now]) => {
    const then = before.get(what) ?? shown(undefined)
    return then === now ? [] : [{ what, was: then, is: now }]
  })
}

/** Compares files of weights and optimizer. Returns at most one difference, for all of them. */
const weightDifferences = (
  was: Readonly<Record<string, string>>,
  is: Readonly<Record<string, string>>,
): readonly Difference[] => {
  const other = Object.keys(was).filter((name) => was[name] !== is[name])
  return other.length === 0
    ? []
    : [
        {
          what: 'weights',
          was: countOf(Object.keys(was).length, 'file'),
          is: `${other.length} others, ${other[0]} first`,
        },
      ]
}

/** Compares the end of a step: an error, or `null` if the step succeeded. */
const endDifferences = (
  recorded: string | null,
  was: StepRecord | undefined,
  is: string | null,
): readonly Difference[] => {
  const end = (why: string | null): string => why ?? 'the step was done'
  if (recorded === null && was === undefined) return [] // the run has no record of the step
  return recorded === is ? [] : [{ what: 'end', was: end(recorded), is: end(is) }]
}

/** Returns the first folder that holds a batch, or `undefined`. */
const batchAmong = (files: Files, folders: readonly string[]): TE.TaskEither<FileFailure, string | undefined> =>
  pipe(
    folders,
    TE.traverseSeqArray((folder) =>
      pipe(
        files.exists(`${folder}/${BATCH_FILE}`),
        TE.map((exists) => (exists ? [folder] : [])),
      ),
    ),
    TE.map((found) => found.flat()[0]),
  )

/** The step to replay, and its batch if it was saved. */
interface RequestedBatch {
  readonly step: number
  readonly kept: ReadBatch | null
  readonly folder: string | null
}

const requestedBatch = async (files: Files, paths: RunPaths, wanted: string): Promise<RequestedBatch> => {
  const step = Number(wanted)
  const isStep = Number.isSafeInteger(step) && step > 0
  const places = isStep
    ? [paths.batches, paths.alarms].map((folder) => `${folder}/${stepName(step)}`)
    : [`${paths.folder}/${wanted}`, wanted]
  const folder = orThrow(await batchAmong(files, places)())
  if (folder === undefined && isStep) return { step, kept: null, folder: null }
  const kept = orThrow(await readBatch(files, folder ?? wanted)())
  return { step: kept.step, kept, folder: folder ?? wanted }
}

/** Returns `true` for a run whose batches cannot be sampled again, because it samples ahead. */
export const samplesAhead = ({ source: { description } }: AnyRun): boolean =>
  typeof description === 'object' && description !== null && 'ahead' in description && description.ahead !== null

const refuse = (folder: string, reason: string): never => {
  const failure: BatchFailure = { _tag: 'BatchFailure', where: folder, reason }
  throw new FailureError(failure)
}

/** The records and checkpoints of the run around the step. */
interface Around {
  readonly request: RequestedBatch
  readonly records: readonly StepRecord[]
  readonly before: { readonly folder: string; readonly state: CheckpointState } | null
  /** Digests of the checkpoint after the step, or `null`. */
  readonly after: Readonly<Record<string, string>> | null
}

const lookAround = async (run: AnyRun, { store, batch }: ReplayOptions): Promise<Around> => {
  const { files, digest, folder } = store
  const { paths, config } = orThrow(await openRun(files, folder)())
  orThrow(acceptedChanges(store, config, { ...config.inputs, ...run.inputs() }))
  const request = await requestedBatch(files, paths, batch)
  const release = (): void => request.kept?.batch.release()
  try {
    const records = orThrow(await readSteps(files, paths)())
    const last = records.at(-1)?.step ?? 0
    if (request.kept === null && request.step > last)
      refuse(folder, `the run has ${countOf(last, 'step')}: there is no step ${request.step} to replay`)
    const [newest] = orThrow(await checkpointsIn(files, paths.checkpoints, request.step - 1)())
    const before =
      newest === undefined ? null : { folder: newest, state: orThrow(await readCheckpoint(files, newest, digest)()) }
    if (samplesAhead(run) && (request.kept === null || before?.state.step !== request.step - 1))
      refuse(
        folder,
        `a run that samples ahead cannot be sampled again: replaying step ${request.step} needs its batch and the checkpoint before it (keep.batchEvery 1 and every.checkpoint 1)`,
      )
    const place = `${paths.checkpoints}/${stepName(request.step)}`
    const after = orThrow(await files.exists(place)()) ? orThrow(await checkpointDigests(files, place, digest)()) : null
    return { request, records, before, after }
  } catch (error) {
    release()
    throw error
  }
}

/** Repeats the steps before the requested one, and compares each with the run's record. */
async function* catchUp(
  open: OpenRun,
  from: Progress,
  { step, records }: { readonly step: number; readonly records: readonly StepRecord[] },
): AsyncGenerator<ReplayEvent, Progress> {
  let progress = from
  while (progress.step + 1 < step) {
    using sampled = await sampleStep(open, progress)
    const { record, progress: next } = await learnStep(open, sampled)
    const known = records.find((each) => each.step === record.step)
    yield {
      type: 'caught-up',
      step: record.step,
      differences: known === undefined ? [] : differences(known, record),
    }
    progress = next
  }
  return progress
}

/** Repeats the step on its saved batch, or on a batch that is sampled again. */
const again = async (open: OpenRun, before: Progress, { kept }: RequestedBatch): Promise<Partial<StepRecord>> => {
  if (kept === null) {
    using sampled = await sampleStep(open, before)
    return (await learnStep(open, sampled)).record
  }
  const batch = kept.batch.value as TensorDict<never> // one of the learner's own
  const { learningRate, metrics, steps } = orThrow(await open.run.learner.update(batch)())
  return { learningRate, update: metrics, updates: steps }
}

const nonFinite = (error: unknown): string | undefined =>
  error instanceof FailureError && 'kind' in error.failure && error.failure.kind === 'non-finite'
    ? error.message
    : undefined

/** Repeats the requested step and compares it with the run's record. */
const compareStep = async (
  open: OpenRun,
  before: Progress,
  { request, records, after, digest }: Around & { readonly digest: RunStore['digest'] },
): Promise<ReplayEvent> => {
  const { step, kept } = request
  const event = { type: 'replayed', step, batch: kept === null ? 'sampled' : 'kept' } as const
  const was = records.find((each) => each.step === step)
  const end = kept?.end ?? null
  try {
    const is = await again(open, before, request)
    const now = Object.fromEntries(
      Object.entries(open.run.learner.files()).map(([name, contents]) => [name, digest(contents)]),
    )
    return {
      ...event,
      updates: is.updates ?? [],
      end: null,
      compared: [
        ...(was === undefined ? (end ? ['end'] : []) : compared(is).keys()),
        ...(after === null ? [] : ['weights']),
      ],
      differences: [
        ...(was === undefined ? endDifferences(end, was, null) : differences(was, is)),
        ...(after === null ? [] : weightDifferences(after, now)),
      ],
    }
  } catch (error) {
    const reason = nonFinite(error)
    if (reason === undefined) throw error
    const differs = endDifferences(end, was, reason)
    return { ...event, updates: [], end: reason, compared: ['end'], differences: differs }
  }
}

/**
 * Replays one step of a run. The steps between the checkpoint before it and the step are repeated
 * first.
 *
 * The result is compared with the run's record. On a saved batch, the metrics of the update are
 * compared: loss, gradient norm and others. On a batch that is sampled again, the whole record is
 * compared. If a checkpoint follows the step, weights and optimizer state are compared bit for bit.
 *
 * Errors   throws FailureError if the run has no such step, the folder has no batch, or environment
 *          or policy fails. A loss that is not finite is a result, in `end`.
 * Effects  none on the run folder. Closes the run at the end.
 */
export async function* replay(run: AnyRun, options: ReplayOptions): AsyncGenerator<ReplayEvent> {
  const { store, clock = liveClock } = options
  try {
    const around = await lookAround(run, options)
    const { request, before, records } = around
    try {
      await run.begin?.()
      if (before !== null) {
        orThrow(await run.learner.restore(before.folder, store.files)())
        if (before.state.step > 0) orThrow(await run.push(before.state.step)())
      }
      yield { type: 'from', step: request.step, checkpointStep: before?.state.step ?? 0, folder: request.folder }
      const source = await run.source.open({
        step: before?.state.step ?? 0,
        lastStep: request.step,
        push: run.push,
        position: before?.state.position ?? null,
      })
      const open: OpenRun = { run, source, clock }
      const from: Progress = before?.state ?? {
        step: 0,
        position: source.position,
        klCoefficient: run.source.kl?.coefficient ?? 0,
      }
      try {
        const progress = yield* catchUp(open, from, { step: request.step, records })
        yield await compareStep(open, progress, { ...around, digest: store.digest })
      } finally {
        await source.close()
      }
    } finally {
      request.kept?.batch.release()
    }
  } finally {
    await run.close()
  }
}
