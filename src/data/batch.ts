/** Entries of collected batches: types that collectors, advantages, losses and learners share. */
import type { Data, Ragged } from './tensorDict/leaf.js'
import type { TensorDict } from './tensorDict/tensorDict.js'

/**
 * The identity of a row, which is one turn of one trajectory.
 *
 * `trajectoryId` is unique over batches, workers, seeds and time: the key of the reset that the
 * trajectory began with, as `formatKey` writes it, and the element of the environment. Equal keys
 * give equal ids. Joining, splitting, sampling and storing batches keeps them.
 */
export type RowIdentity = {
  readonly trajectoryId: Data<string>
  /** The place of the turn in its trajectory, counted from 0. */
  readonly turn: Data<number>
}

/**
 * The group of a row: trajectories that are compared with one another.
 *
 * The collector puts the key of the reset in front of the environment's own id, so that the id is
 * as unique as `trajectoryId`.
 */
export type GroupEntry = { readonly groupId: Data<string> }

/** The masks of a row of tokens, over `tokens.full`. */
export type TokenMasks = {
  readonly masks: TensorDict<{
    /** 1 for every token. */
    readonly attention: Ragged<'bool'>
    /** 1 for the tokens that the policy sampled in this turn. */
    readonly assistant: Ragged<'bool'>
  }>
}

/** Advantages of the tokens of `tokens.response`; 0 where the policy did not sample. */
export type AdvantageEntry = { readonly advantage: Ragged<'float32'> }

/** Returns of the tokens of `tokens.response`, written by estimators with a value function. */
export type ReturnsEntry = { readonly returns: Ragged<'float32'> }
