/** One step of a run: collect, learn, give the policy the new weights, and put down what happened. */

import type { SampledBatch } from '../collectors/dynamicSampling.js'
import type { GroupedRows } from '../collectors/groups.js'
import type { CollectedBatch } from '../collectors/rollouts/turnRows.js'
import { combineUpdates } from '../collectors/stepMetrics.js'
import type { TrainingRows } from '../collectors/stepRows.js'
import type { Clock } from '../core/capabilities.js'
import { orThrow } from '../core/failure.js'
import { get } from '../data/tensorDict/tensorDict.js'
import type { CorrectionMetrics } from '../objectives/rolloutCorrection.js'
import { klControllerOf, scheduleOf } from './choices.js'
import { describeBatch, sampleTrajectories } from './describeBatch.js'
import type { Learner, Progress } from './learner.js'
import type { TrainingState } from './pipeline.js'
import type { OverlapRecord, PhaseSeconds, StepRecord, TrajectoryRecord } from './records.js'

/** A batch that was sampled for a step, and what is learned from it. Disposing of it frees the batch. */
export interface SampledStep extends Disposable {
  readonly step: number
  readonly learningRate: number
  readonly batch: CollectedBatch<TrainingState>
  readonly sampling: SampledBatch<TrainingState>['sampling']
  readonly grouped: GroupedRows
  readonly rows: TrainingRows
  readonly correction: CorrectionMetrics | null
  /** Null where sampling and learning take turns. */
  readonly overlap: OverlapRecord | null
  readonly before: Progress
  readonly next: Pick<Progress, 'position'>
  readonly seconds: Pick<PhaseSeconds, 'generation' | 'environment'>
  /** Of the clock, when the batch was there. */
  readonly collectedAt: number
}

/** Collects the batch of the next step. Errors: throws FailureError where environment or policy fail. */
export const sampleStep = async (
  { pipeline, options, collect }: Learner,
  before: Progress,
  clock: Clock,
): Promise<SampledStep> => {
  const started = clock.now()
  const collected = orThrow(await collect(before))
  const collectedAt = clock.now()
  try {
    const batch = collected.batch.value
    const generation = get(batch, 'generationMs').items.reduce((sum, ms) => sum + ms, 0) / 1000
    const grouped = pipeline.group(batch)
    const { rows, correction } = orThrow(await pipeline.rows(batch, grouped)())
    return {
      step: before.step + 1,
      learningRate: scheduleOf(options.settings)(before.step),
      ...{ batch, sampling: collected.sampling, grouped, rows, correction, before },
      next: { position: collected.position },
      overlap: collected.overlap ?? null,
      seconds: { generation, environment: (collectedAt - started) / 1000 - generation },
      collectedAt,
      [Symbol.dispose]: collected.batch.release,
    }
  } catch (error) {
    collected.batch.release()
    throw error
  }
}

/**
 * Learns from a batch and gives the policy the weights. Errors: throws NonFiniteLoss, with the weights as they were before that update, and
 * FailureError where the policy refuses the weights.
 */
export const learnStep = async (
  learner: Learner,
  sampled: SampledStep,
  clock: Clock,
): Promise<{ readonly record: StepRecord; readonly progress: Progress }> => {
  const { pipeline, options } = learner
  const { step, batch, grouped, rows, learningRate, before } = sampled
  const updates = await learner.learn(pipeline.miniBatches(rows, grouped, step), learningRate)
  const trainedAt = clock.now()
  await learner.push(step)
  const described = describeBatch(batch, options.settings)
  const record: StepRecord = {
    type: 'step',
    step,
    ...described,
    klCoefficient: before.klCoefficient,
    sampling: sampled.sampling,
    correction: sampled.correction,
    groupsUsed: grouped.groups,
    groupsDropped: grouped.dropped.length,
    learningRate,
    ...combineUpdates(updates),
    updates,
    overlap: sampled.overlap,
    seconds: {
      ...sampled.seconds,
      training: (trainedAt - sampled.collectedAt) / 1000,
      weightSync: (clock.now() - trainedAt) / 1000,
    },
  }
  const controller = klControllerOf(options.settings, before.klCoefficient)
  const klCoefficient = controller.update(described.completionKL, batch.batchShape[0]!).coefficient
  return { record, progress: { step, ...sampled.next, klCoefficient } }
}

/** Completions of the batch to be looked at: all, or some rows. */
export const trajectoriesOf = (
  { options: { model } }: Learner,
  { step, batch, grouped }: SampledStep,
  rows?: readonly number[],
): readonly TrajectoryRecord[] =>
  sampleTrajectories(batch, grouped, {
    step,
    decode: (id) => model.text.tokenizer.decode([id], 'keep'),
    ...(rows && { rows }),
  })
