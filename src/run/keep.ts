/** What a run keeps: checkpoints, the best of them, and what was trained in the forms that others read. */
import { orThrow } from '../core/failure.js'
import type { NamedTensors } from '../data/weights.js'
import { own, scope } from '../engine/scope.js'
import { makeParams } from '../modules/pretrained.js'
import {
  adapterCheckpointFiles,
  type CheckpointState,
  checkpointFiles,
  loadAdapterCheckpoint,
  loadCheckpoint,
  saveCheckpoint,
} from './checkpoint.js'
import type { RunEvent } from './events.js'
import type { Progress } from './learner.js'
import { bestEvaluation } from './records.js'
import { type Session, secondsTotal } from './session.js'
import { inOrder, stepName, stepOf } from './stepName.js'
import { originOf, trainedFolders } from './weights.js'

/** The step with the best weights so far; undefined before an evaluation of trained weights. */
export const bestStep = ({ records }: Session): number | undefined =>
  bestEvaluation(records.filter((record) => record.type === 'evaluation'))?.step

/** The checkpoint before the batch of the newest alarm: what a replay of it begins with. */
const beforeAlarm = async ({ files, options: { paths } }: Session): Promise<readonly number[]> => {
  const [alarms, checkpoints] = [await files.list(paths.alarms)(), await files.list(paths.checkpoints)()]
  const steps = (names: readonly string[]): readonly number[] => inOrder(names).map(stepOf)
  const alarm = steps(orThrow(alarms)).at(-1)
  const found = alarm === undefined ? undefined : steps(orThrow(checkpoints)).findLast((step) => step < alarm)
  return found === undefined ? [] : [found]
}

/** Saves all that the run needs to go on. The last two checkpoints stay, the best one, and that before the newest alarm. */
export const saveProgress = async (session: Session, progress: Progress): Promise<RunEvent> => {
  const { options, files, clock, metrics, trajectories } = session
  const started = clock.now()
  const state: CheckpointState = {
    format: 1,
    step: progress.step,
    policyVersion: session.learner.pipeline.policy.version(),
    klCoefficient: progress.klCoefficient,
    position: { batch: progress.position.batch, remembered: { ...progress.position.remembered } },
    secondsTotal: secondsTotal(session),
    checkpointSeconds: session.state.checkpointSeconds,
    metricsBytes: metrics.bytes(),
    trajectoriesBytes: trajectories.bytes(),
  }
  const trainer = session.learner.trainer()
  const contents =
    options.adapter === null
      ? checkpointFiles(options.model, trainer, state)
      : adapterCheckpointFiles({ config: options.adapter.config, ...originOf(options) }, trainer, state)
  const best = bestStep(session)
  const also = [...(best === undefined ? [] : [best]), ...(await beforeAlarm(session))]
  const place = { folder: options.paths.checkpoints, step: progress.step, keep: 2, also }
  const path = orThrow(await saveCheckpoint(files, contents, place)())
  session.state.checkpointSeconds += (clock.now() - started) / 1000
  return { type: 'checkpoint', step: progress.step, path }
}

/** Writes weights in the forms that the settings ask for. */
async function* writeTrained(
  { options, files, learner }: Session,
  params: NamedTensors,
  paths: Parameters<typeof trainedFolders>[0]['paths'],
): AsyncGenerator<RunEvent> {
  for (const [path, contents] of trainedFolders({ ...options, paths }, learner.weights, params)) {
    orThrow(await files.writeFolder(path, contents)())
    yield { type: 'export', path }
  }
}

/** Writes what was trained, and what was best, in the forms that the settings ask for: none if they ask for none. */
export async function* exportTrained(session: Session, { step }: Progress): AsyncGenerator<RunEvent> {
  const { options, files, learner } = session
  const { paths, settings, adapter, model } = options
  yield* writeTrained(session, learner.trainer().params, paths)
  const best = bestStep(session)
  if (best === undefined || (adapter === null && settings.dtype === null)) return
  const places = { adapter: paths.bestAdapter, model: paths.bestModel }
  if (best === step) return yield* writeTrained(session, learner.trainer().params, places)
  const folder = `${paths.checkpoints}/${stepName(best)}`
  if (!orThrow(await files.exists(folder)())) return // of a run of an earlier version, which did not keep it
  const { optimizer } = learner.pipeline
  const { trained } = orThrow(
    adapter === null
      ? await loadCheckpoint(files, folder, optimizer)()
      : await loadAdapterCheckpoint(files, folder, { config: model.config, optimizer })(),
  )
  using params = own(scope(() => makeParams(trained)))
  yield* writeTrained(session, params.value, places)
}
