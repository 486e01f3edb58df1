/** Advantages as functions of batches. */
import type { Json } from '@tandem-rl/base'
import type * as tf from '@tensorflow/tfjs-core'
import type { AdvantageEntry, GroupEntry, ReturnsEntry, RowIdentity } from '../../data/batch.js'
import type { Absent, Needs } from '../../data/needs.js'
import { type LeafSpec, raggedSpec } from '../../data/spec.js'
import type { Merge, TensorDict } from '../../data/tensorDict/tensorDict.js'

/**
 * The entries of a batch `[B]` of turns that every advantage reads. Optional entries:
 * `tokens.response`; `next.tokenRewards` instead of `next.reward`; and `masks.loss` or
 * `masks.assistant` for the trained tokens (default: the whole response). Without `tokens.response`
 * a turn counts as one token.
 */
export type RewardedTurns = RowIdentity &
  GroupEntry & {
    /** `[B]`: the reward of each turn. */
    readonly next: TensorDict<{ readonly reward: tf.Tensor }>
  }

/** The entries written by an estimator with targets for a value function. */
export type EstimatedEntries = AdvantageEntry & ReturnsEntry

/** A dropped group: its mean return is outside the bounds, or a return is NaN or infinite. */
export interface DroppedGroup {
  readonly groupId: string
  readonly reason: 'out-of-bounds' | 'not-finite'
}

/**
 * Adds advantages to batches: a pure function of the batch.
 *
 * Rows of dropped groups are removed from the result. A row that occurs twice counts once and gets
 * the same advantage each time. The order of rows does not matter.
 */
export interface Advantage<In = RewardedTurns, Added = AdvantageEntry> {
  <S extends Needs<Absent<In, S>, In>>(batch: TensorDict<S>): TensorDict<Merge<S, Added>>
  readonly name: string
  /** Its settings, for run folders. */
  readonly description: Json
  /** The number of trajectories in a group; undefined if any number is allowed. */
  readonly groupSize?: number
  /**
   * `group`: each group is independent, so batches can be split by groups. `batch`: values are
   * normalized over all rows.
   */
  readonly over: 'group' | 'batch'
  /** Dotted names of the entries that it reads. */
  readonly reads: readonly string[]
  /** The entries that it writes. */
  readonly writes: { readonly [K in keyof Added & string]: LeafSpec }
  /** Returns the groups of a batch whose rows are removed. */
  readonly dropped: (batch: TensorDict<In>) => readonly DroppedGroup[]
}

/** The specs of the entries that advantages write. */
export const ADVANTAGE_SPEC = { advantage: raggedSpec('float32') } as const
export const RETURNS_SPEC = { ...ADVANTAGE_SPEC, returns: raggedSpec('float32') } as const
