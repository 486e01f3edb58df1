/** The step of a run after a checkpoint, collected again. */
import { type Files, orThrow } from '@tandem-rl/base'
import { liveClock, liveDigest } from '@tandem-rl/base/host'
import { stepName } from '../data/runLayout.js'
import { readCheckpoint } from '../run/store/checkpoint.js'
import { runPaths } from '../run/store/runFolder.js'
import { samplesAhead } from '../run/train/replay.js'
import { type OpenRun, type Progress, type SampledStep, sampleStep } from '../run/train/step.js'
import type { OpenModel } from './openModel.js'

/** The place of a checkpoint. */
export interface CheckpointPlace {
  readonly files: Files
  readonly folder: string
  /** 0 is the initial model. */
  readonly checkpoint: number
}

/**
 * Opens a run at a checkpoint, as training would go on from it.
 *
 * Errors   throws RangeError for a run that samples ahead, because its batches cannot be repeated,
 *          and FailureError if there is no such checkpoint.
 */
const openAt = async (
  model: OpenModel,
  { files, folder, checkpoint }: CheckpointPlace,
): Promise<{ readonly open: OpenRun; readonly before: Progress }> => {
  await model.learnerAt(checkpoint)
  const run = model.run()
  if (samplesAhead(run)) throw new RangeError('a run that samples ahead cannot be sampled again')
  const path = `${runPaths(folder).checkpoints}/${stepName(checkpoint)}`
  const state = checkpoint === 0 ? null : orThrow(await readCheckpoint(files, path, liveDigest)())
  const source = await run.source.open({
    step: checkpoint,
    lastStep: checkpoint + 1,
    push: run.push,
    position: state?.position ?? null,
  })
  const klCoefficient = run.source.kl?.coefficient ?? 0
  return {
    open: { run, source, clock: liveClock },
    before: state ?? { step: 0, position: source.position, klCoefficient },
  }
}

/** Samples the step after a checkpoint and uses its batch. */
export const withStepAfter = async <T>(
  model: OpenModel,
  place: CheckpointPlace,
  use: (sampled: SampledStep, open: OpenRun) => Promise<T>,
): Promise<T> => {
  const { open, before } = await openAt(model, place)
  try {
    using sampled = await sampleStep(open, before)
    return await use(sampled, open)
  } finally {
    await open.source.close()
  }
}
