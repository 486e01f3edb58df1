/** Batch sources: the interface between a run and the origin of its batches. */
import type { Failure, Json } from '@tandem-rl/base'
import type { Owned } from '@tandem-rl/tfjs-onnxruntime/scope'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { SamplingCounts } from '../../collectors/dynamicSampling.js'
import type { StaleRule } from '../../collectors/overlap/overlapState.js'
import type { WithInputs } from '../../data/inputs.js'
import type { IdentifiedRows } from '../../data/task.js'
import type { TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { OverlapRecord } from '../metrics/records.js'

/** A batch, and the position after it. */
export interface SourceBatch<out B = unknown> {
  readonly batch: Owned<TensorDict<B>>
  readonly position: Json
  readonly sampling: SamplingCounts | null
  readonly overlap: OverlapRecord | null
}

/** The start conditions of a source. */
export interface SourceStart {
  /** Number of steps done. */
  readonly step: number
  /** The last step of the run. Nothing is sampled for later steps. */
  readonly lastStep: number
  /** The position of the checkpoint to resume from, or `null` for a new run. */
  readonly position: Json | null
  /** Pushes the learner's weights to the policy, as a version. */
  readonly push: (version: number) => TaskEither<Failure, number>
  /**
   * Ends a wait for other processes when it aborts: `collect` then fails with the tag
   * `Interrupted`, and the run saves and can be resumed.
   */
  readonly signal?: AbortSignal
}

/** An open source. */
export interface OpenSource<out B = unknown> {
  /** The initial position, as JSON for a checkpoint. */
  readonly position: Json
  /**
   * Collects the batch of the next step. Equal positions and weights give equal batches, except
   * with asynchronous sampling.
   */
  readonly collect: (at: {
    readonly position: Json
    readonly klCoefficient: number
  }) => TaskEither<Failure, SourceBatch<B>>
  /** Called after a step is trained. The policy receives the weights now, or while it samples. */
  readonly trained: (version: number) => TaskEither<Failure, number>
  /** Called after a checkpoint with this position is saved. Default: does nothing. */
  readonly saved?: (position: Json) => TaskEither<Failure, void>
  readonly close: () => Promise<void>
}

/** The origin of a run's batches. `B` is the type of their entries. */
export interface BatchSource<out B = unknown> extends WithInputs {
  readonly description: Json
  /** The tasks of the batches, if they come from a data set. */
  readonly tasks?: IdentifiedRows
  /** The KL coefficient of the reward and its updates, or `null` without a KL term. */
  readonly kl: KLWeight | null
  readonly open: (start: SourceStart) => Promise<OpenSource<B>>
  readonly close: () => Promise<void>
}

/** The KL coefficient of the reward, step by step. */
export interface KLWeight {
  readonly coefficient: number
  /**
   * Returns the next step's coefficient, given this step's coefficient, the mean KL divergence of
   * its completions in nats, and their number.
   */
  readonly next: (coefficient: number, kl: number, completions: number) => number
}

/** The options of asynchronous sampling. */
export interface AheadOptions {
  /** Largest staleness of a completion's oldest token, in updates. At least 1. */
  readonly maxLag: number
  /**
   * The treatment of groups that would exceed `maxLag`. Default `wait`. With `correct`, the learner
   * reweights their tokens (`offPolicy.stale`).
   */
  readonly stale?: StaleRule
}
