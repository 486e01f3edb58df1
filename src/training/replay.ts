/** One step of a run done again, alone: on its own batch, from the state before it. Nothing of the run is changed. */
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { Learner } from '../collectors/learners/learner.js'
import type { Clock, Files } from '../core/capabilities.js'
import { FailureError, type FileFailure, orThrow } from '../core/failure.js'
import { stepName } from '../data/runLayout.js'
import { liveClock } from '../live/clock.js'
import { BATCH_FILE, type BatchFailure, type ReadBatch, readBatch } from './batchFolder.js'
import { type CheckpointState, checkpointDigests, checkpointsIn, readCheckpoint } from './checkpoint.js'
import type { StepRecord, UpdateMetrics } from './records.js'
import type { AnyRun } from './run.js'
import { openRun, type RunPaths, readSteps } from './runFolder.js'
import { learnStep, type OpenRun, type Progress, sampleStep } from './step.js'
import type { RunStore } from './store.js'

/** Something that is not what it was. Undefined is shown as absent. */
interface Difference {
  /** A field of the step's record, `weights`, or `end`. */
  readonly what: string
  readonly was: string
  readonly is: string
}

export type ReplayEvent =
  /** Where the replay begins. */
  | { readonly type: 'from'; readonly step: number; readonly checkpointStep: number; readonly folder: string | null }
  /** A step between the checkpoint and the one that is asked for. */
  | { readonly type: 'caught-up'; readonly step: number; readonly differences: readonly Difference[] }
  | {
      readonly type: 'replayed'
      readonly step: number
      /** Where its batch came from: it was kept, or sampled again. */
      readonly batch: 'kept' | 'sampled'
      /** Of each optimizer step that was done. */
      readonly updates: readonly UpdateMetrics[]
      /** Why the step was not done, as for a loss that is no number; null if it was. */
      readonly end: string | null
      /** What the run recorded of the step: fields that were compared, and weights if there is a checkpoint after it. */
      readonly compared: readonly string[]
      readonly differences: readonly Difference[]
    }

export interface ReplayOptions {
  /** The run's folder. */
  readonly store: RunStore
  /** The number of the step, or the folder of its batch. */
  readonly batch: string
  readonly clock?: Clock
}

const shown = (value: unknown): string => (value === undefined ? 'absent' : JSON.stringify(value))

/** What a record holds of a step, without how long it took. */
const compared = (record: object): ReadonlyMap<string, string> =>
  new Map(
    Object.entries(record)
      .filter(([name]) => name !== 'seconds' && name !== 'memory')
      .map(([name, value]) => [name, shown(value)]),
  )

/** Fields of `is` that differ in a record. */
const differences = (was: object, is: object): readonly Difference[] => {
  const before = compared(was)
  return [...compared(is)].flatMap(([what, now]) => {
    const then = before.get(what) ?? shown(undefined)
    return then === now ? [] : [{ what, was: then, is: now }]
  })
}

/** Files of weights and optimizer whose bytes are others, as one difference. */
const weightDifferences = (
  was: Readonly<Record<string, string>>,
  is: Readonly<Record<string, string>>,
): readonly Difference[] => {
  const other = Object.keys(was).filter((name) => was[name] !== is[name])
  return other.length === 0
    ? []
    : [{ what: 'weights', was: `${Object.keys(was).length} files`, is: `${other.length} others, ${other[0]} first` }]
}

/** How a step ended that was done, or was not: null if it was. */
const endDifferences = (said: string | null, was: StepRecord | undefined, is: string | null): readonly Difference[] => {
  const end = (why: string | null): string => why ?? 'the step was done'
  if (said === null && was === undefined) return [] // the run says nothing of the step
  return said === is ? [] : [{ what: 'end', was: end(said), is: end(is) }]
}

/** The first of some folders that holds a batch; undefined if none does. */
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

/** The step to do again, and its batch if that is kept. */
interface AskedBatch {
  readonly step: number
  readonly kept: ReadBatch | null
  readonly folder: string | null
}

const askedBatch = async (files: Files, paths: RunPaths, asked: string): Promise<AskedBatch> => {
  const step = Number(asked)
  const isStep = Number.isSafeInteger(step) && step > 0
  const places = isStep
    ? [paths.batches, paths.alarms].map((folder) => `${folder}/${stepName(step)}`)
    : [`${paths.folder}/${asked}`, asked]
  const folder = orThrow(await batchAmong(files, places)())
  if (folder === undefined && isStep) return { step, kept: null, folder: null }
  const kept = orThrow(await readBatch(files, folder ?? asked)())
  return { step: kept.step, kept, folder: folder ?? asked }
}

const refuse = (folder: string, reason: string): never => {
  const failure: BatchFailure = { _tag: 'BatchFailure', folder, reason }
  throw new FailureError(failure)
}

/** What is known of the run around the step. */
interface Around {
  readonly asked: AskedBatch
  readonly records: readonly StepRecord[]
  readonly before: { readonly folder: string; readonly state: CheckpointState } | null
  /** Digests of the checkpoint after the step; null where it was not kept. */
  readonly after: Readonly<Record<string, string>> | null
}

const lookAround = async (run: AnyRun, { store, batch }: ReplayOptions): Promise<Around> => {
  const { files, digest, folder } = store
  const { paths } = orThrow(await openRun(files, folder)())
  const asked = await askedBatch(files, paths, batch)
  const release = (): void => asked.kept?.batch.release()
  try {
    const records = orThrow(await readSteps(files, paths)())
    const last = records.at(-1)?.step ?? 0
    if (asked.kept === null && asked.step > last)
      refuse(folder, `the run has ${last} steps: there is no step ${asked.step} to do again`)
    const [newest] = orThrow(await checkpointsIn(files, paths.checkpoints, asked.step - 1)())
    const before =
      newest === undefined ? null : { folder: newest, state: orThrow(await readCheckpoint(files, newest, digest)()) }
    const ahead = run.source.description
    const isAhead = typeof ahead === 'object' && ahead !== null && 'ahead' in ahead && ahead.ahead !== null
    if (isAhead && (asked.kept === null || before?.state.step !== asked.step - 1))
      refuse(
        folder,
        `a run that samples ahead cannot be sampled again: step ${asked.step} needs its batch and the checkpoint before it (keep.batchEvery 1 and every.checkpoint 1)`,
      )
    const place = `${paths.checkpoints}/${stepName(asked.step)}`
    const after = orThrow(await files.exists(place)()) ? orThrow(await checkpointDigests(files, place)()) : null
    return { asked, records, before, after }
  } catch (error) {
    release()
    throw error
  }
}

/** Steps up to the one that is asked for, each compared with what the run wrote down. */
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
      ...{ type: 'caught-up', step: record.step },
      differences: known === undefined ? [] : differences(known, record),
    }
    progress = next
  }
  return progress
}

/** What a step measures, on the batch that was kept or on one that is sampled again. */
const again = async (open: OpenRun, before: Progress, { kept }: AskedBatch): Promise<Partial<StepRecord>> => {
  if (kept === null) {
    using sampled = await sampleStep(open, before)
    return (await learnStep(open, sampled)).record
  }
  const learner = open.run.learner as unknown as Learner<unknown, UpdateMetrics> // the batch is one of its own
  const { learningRate, metrics, steps } = orThrow(await learner.update(kept.batch.value)())
  return { learningRate, update: metrics, updates: steps }
}

const nonFinite = (error: unknown): string | undefined =>
  error instanceof FailureError && 'kind' in error.failure && error.failure.kind === 'non-finite'
    ? error.message
    : undefined

/** The end of a replay: what the step is now, against what it was. */
const compareStep = async (
  open: OpenRun,
  before: Progress,
  { asked, records, after, digest }: Around & { readonly digest: RunStore['digest'] },
): Promise<ReplayEvent> => {
  const { step, kept } = asked
  const event = { type: 'replayed', step, batch: kept === null ? 'sampled' : 'kept' } as const
  const was = records.find((each) => each.step === step)
  const end = kept?.end ?? null
  try {
    const is = await again(open, before, asked)
    const now = Object.fromEntries(
      Object.entries(open.run.learner.files()).map(([name, contents]) => [name, digest(contents)]),
    )
    return {
      ...{ ...event, updates: is.updates ?? [], end: null },
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
 * Does one step of a run again. The steps between the checkpoint before it and the step are done again first.
 *
 * What the run wrote down of the step is compared: on a batch that was kept, loss, gradient norm and what else its updates measured; on
 * one that is sampled again all of its record; and weights and optimizer after it, bit for bit, where they were kept.
 *
 * Errors   throws FailureError for a step that the run does not have, a folder without a batch, and where environment or policy fail. A loss
 *          that is no number is a result: `end`.
 * Effects  none on the run folder; closes the run at the end.
 */
export async function* replay(run: AnyRun, options: ReplayOptions): AsyncGenerator<ReplayEvent> {
  const { store, clock = liveClock } = options
  try {
    const around = await lookAround(run, options)
    const { asked, before, records } = around
    try {
      await run.begin?.()
      if (before !== null) {
        orThrow(await run.learner.restore(before.folder, store.files)())
        if (before.state.step > 0) orThrow(await run.push(before.state.step)())
      }
      yield { type: 'from', step: asked.step, checkpointStep: before?.state.step ?? 0, folder: asked.folder }
      const source = await run.source.open({
        ...{ step: before?.state.step ?? 0, lastStep: asked.step, push: run.push },
        position: before?.state.position ?? null,
      })
      const open: OpenRun = { run, source, clock }
      const from: Progress = before?.state ?? {
        ...{ step: 0, position: source.position, klCoefficient: run.source.kl?.coefficient ?? 0 },
      }
      try {
        const progress = yield* catchUp(open, from, { step: asked.step, records })
        yield await compareStep(open, progress, { ...around, digest: store.digest })
      } finally {
        await source.close()
      }
    } finally {
      asked.kept?.batch.release()
    }
  } finally {
    await run.close()
  }
}
