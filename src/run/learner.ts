/** The part of a run that samples and learns, without its files. */
import type * as E from 'fp-ts/lib/Either.js'
import type { SampledBatch } from '../collectors/dynamicSampling.js'
import { restoredState } from '../collectors/learners/optimizerState.js'
import { policyStepCase } from '../collectors/parallel/policyStepCase.js'
import { type Replicas, startReplicas } from '../collectors/parallel/replicas.js'
import type { CollectorPosition } from '../collectors/rollouts/lockstep.js'
import type { StepMetrics } from '../collectors/stepMetrics.js'
import type { TrainingRows } from '../collectors/stepRows.js'
import type { TrainerState } from '../collectors/steps/lossStep.js'
import { inProcessUpdater } from '../collectors/weightSync.js'
import { type Failure, orThrow } from '../core/failure.js'
import type { TaskSource } from '../data/task.js'
import type { NamedTensors } from '../data/weights.js'
import { type Owned, own, scope } from '../engine/scope.js'
import type { DecoderConfig } from '../modules/transformer/config.js'
import { TransformersWrapper } from '../modules/transformersWrapper.js'
import type { Checkpoint } from './checkpoint.js'
import { namedLossOf } from './choices.js'
import { makePipeline, type Pipeline, type TrainingState } from './pipeline.js'
import { type OverlappedBatch, openRunSampler, type RunSampler, type SamplerEngine } from './runSampler.js'
import type { RunSettings } from './settings.js'
import { type RunWeights, startWeights, type Trainable } from './weights.js'

/** Where a run stands between two steps. */
export interface Progress {
  /** Steps done. */
  readonly step: number
  /** Weight of the divergence in the step that comes. */
  readonly klCoefficient: number
  readonly position: CollectorPosition
}

export interface LearnerOptions extends Trainable {
  readonly settings: RunSettings
  readonly tasks: TaskSource
  /** Where to go on. Default: at the beginning. */
  readonly checkpoint?: Checkpoint
  /** What samples beside the run, where `maxLag` is not 0. */
  readonly sampler?: SamplerEngine
}

/** A policy, a trainer, and the weights that they share. */
export interface Learner {
  readonly options: LearnerOptions
  readonly pipeline: Pipeline
  readonly weights: RunWeights
  readonly start: Progress
  /** The batch of the step that comes. */
  readonly collect: (before: Progress) => Promise<E.Either<Failure, RunBatch>>
  /** What the last update left. */
  readonly trainer: () => TrainerState<object>
  /** One update for each mini-batch. After a failure the weights are those of the last update that was done. */
  readonly learn: (batches: readonly TrainingRows[], learningRate: number) => Promise<readonly StepMetrics[]>
  /** Gives the policy what was trained, with what it needs besides. Throws FailureError. */
  readonly push: (version: number) => Promise<void>
  /** Ends what samples beside it, and frees everything. */
  readonly close: () => Promise<void>
}

/** A batch, and how it came about if it was sampled while the run was learning. */
type RunBatch = SampledBatch<TrainingState> & Partial<Pick<OverlappedBatch, 'overlap'>>

const startTrainer = (
  { step, optimizer }: Pick<Pipeline, 'step' | 'optimizer'>,
  { trained }: RunWeights,
  checkpoint: Checkpoint | undefined,
): Owned<TrainerState<object>> =>
  own(
    scope(() =>
      checkpoint === undefined
        ? step.init(trained)
        : { params: trained, optimizer: restoredState(optimizer, trained, checkpoint.optimizer) },
    ),
  )

/** The threads beside this one that settings ask for. Throws FailureError. */
const openReplicas = async (settings: RunSettings, config: DecoderConfig): Promise<Replicas | undefined> => {
  const { workers, recompute } = settings
  if (workers === 1) return undefined
  const stepCase = policyStepCase({ config, ...namedLossOf(settings) })
  return orThrow(await startReplicas({ config, stepCase, workers, recompute })())
}

/** The learner, with threads that whoever started them closes if this fails. */
const wireLearner = async (options: LearnerOptions, replicas: Replicas | undefined): Promise<Learner> => {
  const { settings, model, tasks, checkpoint } = options
  using held = startWeights(options, checkpoint?.trained)
  const weights = held.value
  const reference = TransformersWrapper({ config: model.config, params: weights.first })
  const state = checkpoint?.state
  const pipeline = makePipeline(settings, model, {
    params: { ...weights.frozen, ...weights.trained },
    frozen: weights.frozen,
    reference,
    tasks,
    ...(state && { start: state.position }),
    ...(replicas && { replicas }),
  })
  let last = startTrainer(pipeline, weights, checkpoint)
  const updater = inProcessUpdater(pipeline.policy)
  const current = (): NamedTensors => ({ ...weights.frozen, ...last.value.params })
  const push = async (version: number): Promise<void> => {
    orThrow(await updater.push(current(), version)())
  }
  const { step = 0, klCoefficient = settings.klCoefficient, policyVersion = 0 } = state ?? {}
  const start: Progress = { step, klCoefficient, position: pipeline.start }
  let sampler: RunSampler | null = null
  const close = async (): Promise<void> => {
    await sampler?.close()
    await replicas?.close()
    last.release()
    pipeline.release()
    reference.release()
  }
  try {
    if (policyVersion > 0) await push(policyVersion)
    if (settings.maxLag > 0)
      sampler = await openRunSampler({
        ...{ settings, config: model.config, groupEnv: pipeline.groupEnv, weights: current, start },
        ...(options.sampler && { engine: options.sampler }),
      })
  } catch (error) {
    await close()
    throw error
  }
  return {
    ...{ options, pipeline, weights, start, close },
    collect: (before) =>
      sampler === null
        ? pipeline.collect(before.position, before.klCoefficient)()
        : sampler.collect(before.klCoefficient),
    trainer: () => last.value,
    learn: async (batches, learningRate) => {
      const all: StepMetrics[] = []
      for (const rows of batches) {
        const { state: next, metrics } = orThrow(await pipeline.step.update(last.value, rows, learningRate)())
        last.release()
        last = next
        all.push(metrics)
      }
      return all
    },
    push: async (version) => {
      await push(version)
      sampler?.trained()
    },
  }
}

/**
 * Loads weights, and wires all that samples and learns from them. A policy that had been given weights has them again.
 *
 * Effects  holds the tensors of policy, reference and trainer until `close`; with `maxLag` a thread besides, and `workers - 1` more.
 */
export const openLearner = async (options: LearnerOptions): Promise<Learner> => {
  const replicas = await openReplicas(options.settings, options.model.config)
  try {
    return await wireLearner(options, replicas)
  } catch (error) {
    await replicas?.close() // threads would keep the process alive
    throw error
  }
}
