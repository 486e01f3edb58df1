/** Saves what a run leaves behind: checkpoints and exported weights. */
import { orThrow } from '../core/failure.js'
import { bestEvaluation, inOrder, stepName, stepOf } from '../data/runLayout.js'
import { type CheckpointState, checkpointFiles, writeCheckpoint } from './checkpoint.js'
import type { RunEvent } from './events.js'
import { type Session, secondsTotal } from './session.js'
import type { Progress } from './step.js'
import type { OpenStore } from './store.js'

/**
 * Returns the step with the best evaluation so far, or `undefined` if none was made after training.
 */
export const bestStep = ({ records }: Session): number | undefined =>
  bestEvaluation(records.filter((record) => record.type === 'evaluation'))?.step

/** Returns the step of the checkpoint before the newest alarm's batch, which its replay needs. */
const beforeAlarm = async ({ files, paths }: OpenStore): Promise<readonly number[]> => {
  const [alarms, checkpoints] = [await files.list(paths.alarms)(), await files.list(paths.checkpoints)()]
  const steps = (names: readonly string[]): readonly number[] => inOrder(names).map(stepOf)
  const alarm = steps(orThrow(alarms)).at(-1)
  const found = alarm === undefined ? undefined : steps(orThrow(checkpoints)).findLast((step) => step < alarm)
  return found === undefined ? [] : [found]
}

/**
 * Saves a checkpoint. Retained are the last two checkpoints, the best one, and the one before the
 * newest alarm.
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
    metricsBytes: metrics.bytes(),
    trajectoriesBytes: trajectories.bytes(),
  }
  const best = bestStep(session)
  const also = [...(best === undefined ? [] : [best]), ...(await beforeAlarm(store))]
  const place = { folder: store.paths.checkpoints, step: progress.step, keep: 2, also }
  const contents = checkpointFiles(open.run.learner, state, store.digest)
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
