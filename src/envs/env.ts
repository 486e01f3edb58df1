/**
 * Environments: the world that a policy writes into, as a record of functions over TensorDicts.
 *
 * All state of an environment is in the TensorDict that it returns, so that an episode can be replayed, forked and stored. `step`
 * takes the state and the policy's action and returns the next state with the outcome of the step.
 */
import type * as tf from '@tensorflow/tfjs'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { TemplateFailure } from '../core/failure.js'
import type { Key } from '../core/key.js'
import type { PolicyFailure } from '../data/policy.js'
import { type Spec, type SpecMismatch, tensorSpec } from '../data/spec.js'
import type { RowFailure } from '../data/task.js'
import type { DeepMerge } from '../data/tensorDict/merge.js'
import { TensorDict } from '../data/tensorDict/tensorDict.js'

/** An environment could not go on. */
export interface EnvFailure {
  readonly _tag: 'EnvFailure'
  readonly env: string
  readonly reason: string
  readonly cause?: RowFailure | TemplateFailure | PolicyFailure | SpecMismatch
}

/**
 * What a step adds to the state. `terminated`: the task came to its end; `truncated`: it was cut off; `done`: one of the two.
 * Tensors of shape `[B]`: reward float32 in reward units, the others bool.
 */
export type Outcome = {
  readonly reward: tf.Tensor
  readonly terminated: tf.Tensor
  readonly truncated: tf.Tensor
  readonly done: tf.Tensor
}

export const outcomeSpec = {
  reward: tensorSpec('float32'),
  terminated: tensorSpec('bool'),
  truncated: tensorSpec('bool'),
  done: tensorSpec('bool'),
} as const

/** What an environment offers to a policy and expects from it. */
export interface EnvSpecs {
  readonly observation: Spec
  readonly action: Spec
}

/** `O` is the schema of its states, `A` that of the actions it takes. */
export interface Env<O, in A> {
  readonly name: string
  /** Elements of every TensorDict it takes and returns: the batch shape is `[batchSize]`. */
  readonly batchSize: number
  readonly specs: EnvSpecs
  /**
   * Starts new episodes. `request` carries what the caller wants to choose (a query) and what the last state remembered (a
   * position in a dataset): the state before, or a TensorDict without entries.
   */
  readonly reset: (request: TensorDict, key: Key) => TaskEither<EnvFailure, TensorDict<O>>
  /** Plays one turn. The state is not changed. */
  readonly step: (
    state: TensorDict<O>,
    action: TensorDict<A>,
  ) => TaskEither<EnvFailure, TensorDict<DeepMerge<O, Outcome>>>
}

export const envFailure = (env: string, reason: string, cause?: NonNullable<EnvFailure['cause']>): EnvFailure => ({
  _tag: 'EnvFailure',
  env,
  reason,
  ...(cause !== undefined && { cause }),
})

/** The entry under which composed environments keep what their transforms remember. */
export const REMEMBERED = 'transforms'

/** The request for the next episodes: what a state remembers (such as a position in a dataset), and nothing of its episode. */
export const nextRequest = (state: TensorDict): TensorDict => {
  const remembered = state.entries.get(REMEMBERED)
  return TensorDict(remembered === undefined ? {} : { [REMEMBERED]: remembered }, state.batchShape)
}
