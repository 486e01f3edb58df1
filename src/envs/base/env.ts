/**
 * Environments: the world that a policy writes into, as a record of functions over TensorDicts.
 *
 * All state of an environment is in the TensorDict that it returns, so that an episode can be
 * replayed, forked and stored. `step` takes the state and the policy's action and returns the next
 * state with the outcome of the step.
 */
import type { Key, RowFailure, TemplateFailure } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { WithInputs } from '../../data/inputs.js'
import type { PolicyFailure } from '../../data/policy.js'
import { type Spec, type SpecMismatch, tensorSpec } from '../../data/spec.js'
import type { IdentifiedRows } from '../../data/task.js'
import type { DeepMerge } from '../../data/tensorDict/merge.js'
import { find, TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { ToolFailure } from './toolFailure.js'

/** The failure of an environment. */
export interface EnvFailure {
  readonly _tag: 'EnvFailure'
  readonly env: string
  /** The environment's name. */
  readonly where: string
  readonly reason: string
  readonly cause?: RowFailure | TemplateFailure | PolicyFailure | SpecMismatch | ToolFailure
}

/**
 * The entries that a step adds to the state. `terminated`: the task has ended; `truncated`: it was
 * cut off; `done`: either of the two. Tensors of shape `[B]`: the reward is float32, in units of
 * reward, and the others are bool.
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

/** The outcome of a step for each element. Default: reward 0, and not ended. */
export interface OutcomeRows {
  readonly reward?: readonly number[]
  readonly terminated?: readonly boolean[]
  readonly truncated?: readonly boolean[]
}

/**
 * Returns which elements of a state have ended. Without the entry, as after a reset, none has.
 *
 * @example
 * endedRows(TensorDict({}, [2]), 'done') // [false, false]
 */
export const endedRows = (
  state: TensorDict,
  key: 'terminated' | 'truncated' | 'done' | 'success',
): readonly boolean[] => {
  const entry = find(state, [key])
  const [size = 0] = state.batchShape
  return entry instanceof tf.Tensor
    ? Array.from(entry.dataSync(), (ended) => ended === 1)
    : new Array<boolean>(size).fill(false)
}

/**
 * A step as a transform sees it: the state before, and the state that the inner environment
 * returned.
 */
export interface StepBetween {
  readonly previous: TensorDict
  readonly next: TensorDict
}

/**
 * Returns the reward of a step plus the amounts that a transform adds. Elements that were done
 * before the step get nothing.
 *
 * Shapes   one amount for each element; returns `[B]` float32, which belongs to the enclosing
 *          scope.
 *
 * @example
 * scope(() => addReward({ previous: TensorDict({}, [2]), next: TensorDict({}, [2]) }, [1, 0.5]).arraySync()) // [1, 0.5]
 */
export const addReward = ({ previous, next }: StepBetween, amounts: readonly number[]): tf.Tensor => {
  const over = endedRows(previous, 'done')
  const given = find(next, ['reward'])
  const paid = tf.tensor(
    amounts.map((amount, i) => (over[i] === true ? 0 : amount)),
    [...next.batchShape],
    'float32',
  )
  return given instanceof tf.Tensor ? tf.add(given, paid) : paid
}

/**
 * Returns the ends of a step with those that a transform adds. Elements that were done before the
 * step keep their ends.
 *
 * Shapes   one flag for each element; returns `[B]` bool, which belongs to the enclosing scope.
 *
 * @example
 * scope(() => addEnds({ previous: TensorDict({}, [2]), next: TensorDict({}, [2]) }, { truncated: [true, false] }).done.arraySync()) // [1, 0]
 */
export const addEnds = (
  { previous, next }: StepBetween,
  ends: Omit<OutcomeRows, 'reward'>,
): Omit<Outcome, 'reward'> => {
  const over = endedRows(previous, 'done')
  const flags = (key: 'terminated' | 'truncated'): readonly boolean[] =>
    endedRows(next, key).map((ended, i) => ended || (over[i] === false && ends[key]?.[i] === true))
  const [terminated, truncated] = [flags('terminated'), flags('truncated')]
  const before = endedRows(next, 'done')
  const bools = (values: readonly boolean[]): tf.Tensor => tf.tensor(values.map(Number), [...next.batchShape], 'bool')
  return {
    terminated: bools(terminated),
    truncated: bools(truncated),
    done: bools(before.map((ended, i) => ended || terminated[i] === true || truncated[i] === true)),
  }
}

/** The specs of the states that an environment returns and of the actions that it takes. */
export interface EnvSpecs {
  readonly observation: Spec
  readonly action: Spec
}

export interface StepOptions {
  /**
   * Aborts when the step is no longer needed, so that work elsewhere can stop. An environment in
   * this process may ignore it.
   */
  readonly signal?: AbortSignal
  /**
   * Called with the action and the entries that transforms have added so far, such as the message
   * parsed from the policy's tokens. The last call, before the environment steps, has all entries.
   */
  readonly onAction?: (action: TensorDict) => void
}

/** An environment. `O` is the schema of its states, `A` that of its actions. */
export interface Env<O, in A> extends WithInputs {
  readonly name: string
  /** Number of elements of every TensorDict; the batch shape is `[batchSize]`. */
  readonly batchSize: number
  readonly specs: EnvSpecs
  /** The rows that resets draw in order, if the tasks come from a data set. */
  readonly source?: IdentifiedRows | undefined
  /**
   * Starts new episodes. `request` contains choices of the caller (a query) and data that the last
   * state remembered (a position in a dataset): the previous state, or an empty TensorDict.
   */
  readonly reset: (request: TensorDict, key: Key) => TaskEither<EnvFailure, TensorDict<O>>
  /** Plays one turn. The state is not changed. */
  readonly step: (
    state: TensorDict<O>,
    action: TensorDict<A>,
    options?: StepOptions,
  ) => TaskEither<EnvFailure, TensorDict<DeepMerge<O, Outcome>>>
  /**
   * Releases resources of the episodes of a state, such as environments of tools. The caller that
   * plays episodes calls it once they are over: after the reward of the last step, or when they are
   * abandoned. It returns at once. Default: nothing to release.
   */
  readonly release?: ((state: TensorDict) => void) | undefined
}

export const envFailure = (env: string, reason: string, cause?: NonNullable<EnvFailure['cause']>): EnvFailure => ({
  _tag: 'EnvFailure',
  env,
  where: env,
  reason,
  ...(cause !== undefined && { cause }),
})

/** The entry in which composed environments keep the data of their transforms. */
export const REMEMBERED = 'transforms'

/**
 * Returns the request for the next episodes: the data that a state remembers (such as a position in
 * a dataset), without the entries of its episode.
 */
export const nextRequest = (state: TensorDict): TensorDict => {
  const remembered = state.entries.get(REMEMBERED)
  return TensorDict(remembered === undefined ? {} : { [REMEMBERED]: remembered }, state.batchShape)
}
