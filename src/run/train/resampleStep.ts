/** The step of a run after a checkpoint, collected again. */
import { orThrow } from '@tandem-rl/base'
import { liveClock, liveDigest } from '@tandem-rl/base/host'
import type { AnyRun } from '../parts/run.js'
import { readCheckpoint } from '../store/checkpoint.js'
import type { RunReader } from '../store/runReader.js'
import { samplesAhead } from './replay.js'
import { type SampledStep, sampleStep } from './step.js'

/** A checkpoint of a run folder; 0 is the initial model. */
interface CheckpointPlace {
  readonly reader: Pick<RunReader, 'files' | 'checkpoint'>
  readonly checkpoint: number
}

/**
 * Samples the step after a checkpoint again, as training continued from it, and uses its batch:
 * `batch` as it was collected, and `rated` with advantages and without dropped groups. The learner
 * and the policies of the run must have the weights of the checkpoint. Both batches are freed when
 * `use` has ended.
 *
 * Errors   throws RangeError for a run that samples ahead, because its batches cannot be repeated,
 *          and FailureError if there is no such checkpoint, or if environment or policy fails.
 */
export const resampleStep = async <T>(
  run: AnyRun,
  { reader, checkpoint }: CheckpointPlace,
  use: (sampled: Pick<SampledStep, 'batch' | 'rated'>) => Promise<T>,
): Promise<T> => {
  if (samplesAhead(run)) throw new RangeError('a run that samples ahead cannot be sampled again')
  const path = reader.checkpoint(checkpoint)
  const state = checkpoint === 0 ? null : orThrow(await readCheckpoint(reader.files, path, liveDigest)())
  const source = await run.source.open({
    step: checkpoint,
    lastStep: checkpoint + 1,
    push: run.push,
    position: state?.position ?? null,
  })
  const klCoefficient = run.source.kl?.coefficient ?? 0
  try {
    using sampled = await sampleStep(
      { run, source, clock: liveClock },
      state ?? { step: 0, position: source.position, klCoefficient },
    )
    return await use(sampled)
  } finally {
    await source.close()
  }
}
