/** Saves what a run leaves behind: checkpoints and exported weights. */
import { type FileFailure, orThrow } from '@tandem-rl/base'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { bestEvaluation, inOrder, stepName, stepOf } from '../../data/runLayout.js'
import { type CheckpointState, checkpointFiles, writeCheckpoint } from '../store/checkpoint.js'
import type { OpenStore } from '../store/store.js'
import type { RunEvent } from './events.js'
import { type Session, secondsTotal } from './session.js'
import type { Progress } from './step.js'

/**
 * Returns the step with the best evaluation so far, or `undefined` if none was made after training.
 */
export const bestStep = ({ records }: Session): number | undefined =>
  bestEvaluation(records.filter((record) => record.type === 'evaluation'))?.step

/** Lists the steps of a folder of steps, in order. */
const stepsIn = ({ files }: OpenStore, folder: string): TE.TaskEither<FileFailure, readonly number[]> =>
  pipe(
    files.list(folder),
    TE.map((names) => inOrder(names).map(stepOf)),
  )

/** Lists the steps of the checkpoints, in order. */
export const checkpointSteps = (store: OpenStore): TE.TaskEither<FileFailure, readonly number[]> =>
  stepsIn(store, store.paths.checkpoints)

/** Returns the step of the checkpoint before the newest alarm's batch, which its replay needs. */
const beforeAlarm = async (store: OpenStore): Promise<readonly number[]> => {
  const alarm = orThrow(await stepsIn(store, store.paths.alarms)()).at(-1)
  const checkpoints = orThrow(await checkpointSteps(store)())
  const found = alarm === undefined ? undefined : checkpoints.findLast((step) => step < alarm)
  return found === undefined ? [] : [found]
}

/** The newest checkpoints, which are always retained. */
const NEWEST = 2

/** Most older checkpoints that are retained for comparisons. */
const MOST_OLDER = 16

/**
 * Selects at most `count` steps that are spread evenly from 0 to `end`: the step whose neighbors
 * are closest together is left out, again and again.
 *
 * @example
 * spreadSteps([10, 20, 30, 40], { count: 2, end: 50 }) // [20, 40]
 */
export const spreadSteps = (
  steps: readonly number[],
  { count, end }: { readonly count: number; readonly end: number },
): readonly number[] => {
  if (steps.length <= count) return steps
  const gaps = steps.map((_, i) => (steps[i + 1] ?? end) - (steps[i - 1] ?? 0))
  const closest = gaps.indexOf(Math.min(...gaps))
  return spreadSteps(steps.toSpliced(closest, 1), { count, end })
}

/** Returns the steps of older checkpoints that fit into the bytes for them. */
const olderSteps = async (
  store: OpenStore,
  { step, size, bytes }: { readonly step: number; readonly size: number; readonly bytes: number },
): Promise<readonly number[]> => {
  const saved = orThrow(await checkpointSteps(store)())
  const all = [...saved.filter((each) => each < step), step]
  const count = Math.min(MOST_OLDER, Math.floor(bytes / Math.max(1, size)))
  return spreadSteps(all.slice(0, -NEWEST), { count, end: all.at(-NEWEST) ?? step })
}

/**
 * Saves a checkpoint. Retained are the last two checkpoints, the best one, the one before the
 * newest alarm, and older ones within `keep.historyBytes`.
 */
export const saveProgress = async (
  session: Session,
  store: OpenStore,
  progress: Progress,
): Promise<Extract<RunEvent, { readonly type: 'checkpoint' }>> => {
  const { clock, metrics, trajectories, open } = session
  const started = clock.now()
  const state: CheckpointState = {
    ...progress,
    secondsTotal: secondsTotal(session),
    checkpointSeconds: session.state.checkpointSeconds,
    metrics: metrics.mark(),
    trajectories: trajectories.mark(),
  }
  const best = bestStep(session)
  const contents = checkpointFiles(open.run.learner, state, store.digest)
  const size = Object.values(contents).reduce((sum, each) => sum + each.length, 0)
  const older = await olderSteps(store, {
    step: progress.step,
    size,
    bytes: session.options.keep?.historyBytes ?? 0,
  })
  const also = [...(best === undefined ? [] : [best]), ...(await beforeAlarm(store)), ...older]
  const place = { folder: store.paths.checkpoints, step: progress.step, keep: NEWEST, also }
  const path = orThrow(await writeCheckpoint(store.files, contents, place)())
  const { saved } = open.source
  if (saved !== undefined) orThrow(await saved(progress.position)())
  session.state.checkpointSeconds += (clock.now() - started) / 1000
  return { type: 'checkpoint', step: progress.step, path }
}

/**
 * Exports the last weights and the best weights. Afterwards the learner holds the best weights.
 *
 * Errors   throws FailureError if a file cannot be written or the best checkpoint cannot be read.
 */
export const exportTrained = async (session: Session, store: OpenStore, { step }: Progress): Promise<void> => {
  const { learner, record } = session.open.run
  if (record.exports === undefined) return
  const write = async (folder: string): Promise<void> => {
    for (const [name, contents] of Object.entries(record.exports?.() ?? {}))
      orThrow(await store.files.writeFolder(`${folder}/${name}`, contents)())
  }
  await write(store.paths.folder)
  const best = bestStep(session)
  if (best === undefined || Object.keys(record.exports()).length === 0) return
  if (best !== step) orThrow(await learner.restore(`${store.paths.checkpoints}/${stepName(best)}`, store.files)())
  orThrow(await store.files.makeFolder(store.paths.best)())
  await write(store.paths.best)
}
