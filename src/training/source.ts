/** Where the batches of a run come from. */
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { SamplingCounts } from '../collectors/dynamicSampling.js'
import type { StaleRule } from '../collectors/overlap/overlapState.js'
import type { Failure } from '../core/failure.js'
import type { Json } from '../data/codecs/plainValues.js'
import type { TensorDict } from '../data/tensorDict/tensorDict.js'
import type { Owned } from '../engine/scope.js'
import type { OverlapRecord } from './records.js'

/** A batch, and where to go on. */
export interface SourceBatch<out B = unknown> {
  readonly batch: Owned<TensorDict<B>>
  readonly position: Json
  readonly sampling: SamplingCounts | null
  readonly overlap: OverlapRecord | null
}

/** Where a source begins. */
export interface SourceStart {
  /** Steps done. */
  readonly step: number
  /** The last step of the run: nothing is sampled for steps after it. */
  readonly lastStep: number
  /** Where an earlier session stopped; null at the beginning of a run. */
  readonly position: Json | null
  /** Gives the policy the learner's weights as a version. */
  readonly push: (version: number) => TaskEither<Failure, number>
}

/** A source that is giving batches. */
export interface OpenSource<out B = unknown> {
  /** Where it stands: JSON for a checkpoint. */
  readonly position: Json
  /** The batch of the next step. Equal positions and weights give equal batches, unless sampling goes on beside learning. */
  readonly collect: (at: {
    readonly position: Json
    readonly klCoefficient: number
  }) => TaskEither<Failure, SourceBatch<B>>
  /** A step was learned from: the policy gets the weights, at once or beside what it samples. */
  readonly trained: (version: number) => TaskEither<Failure, number>
  /** A checkpoint holds a position for good. Default: nothing is done. */
  readonly saved?: (position: Json) => TaskEither<Failure, void>
  readonly close: () => Promise<void>
}

/** Where batches come from. `B` are their entries. */
export interface BatchSource<out B = unknown> {
  readonly description: Json
  /** The weight of the divergence in the reward, and how it changes; null where there is none. */
  readonly kl: KLWeight | null
  readonly open: (start: SourceStart) => Promise<OpenSource<B>>
  readonly close: () => Promise<void>
}

/** The weight of a divergence in the reward, step by step. */
export interface KLWeight {
  readonly coefficient: number
  /** The weight of the next step, from that of this one, the mean divergence of its completions in nats, and their number. */
  readonly next: (coefficient: number, kl: number, completions: number) => number
}

/** Sampling beside learning. */
export interface AheadOptions {
  /** Updates that the weights of a completion's oldest token may be behind those that learn from it. At least 1. */
  readonly maxLag: number
  /** What happens to groups that would be older. Default `wait`. With `correct` the learner weighs their tokens (`offPolicy.stale`). */
  readonly stale?: StaleRule
}
