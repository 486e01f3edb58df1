/**
 * Environments: the world that a policy writes into, as a record of functions over TensorDicts.
 *
 * This folder holds the types that all environments and tools share. It does not hold any
 * environment (`..`).
 *
 * All state of an environment is in the TensorDict that it returns, so that an episode can be
 * replayed, forked and stored. `step` takes the state and the policy's action and returns the next
 * state with the outcome of the step.
 */
import * as tf from '@tensorflow/tfjs-core'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { TemplateFailure } from '../../core/failure.js'
import type { Key } from '../../core/key.js'
import type { PolicyFailure } from '../../data/policy.js'
import { type Spec, type SpecMismatch, tensorSpec } from '../../data/spec.js'
import type { RowFailure } from '../../data/task.js'
import type { DeepMerge } from '../../data/tensorDict/merge.js'
import { find, TensorDict } from '../../data/tensorDict/tensorDict.js'
import { scope } from '../../engine/scope.js'
import type { ToolFailure } from './toolFailure.js'

/** An environment could not go on. */
export interface EnvFailure {
  readonly _tag: 'EnvFailure'
  readonly env: string
  /** The environment's name. */
  readonly where: string
  readonly reason: string
  readonly cause?: RowFailure | TemplateFailure | PolicyFailure | SpecMismatch | ToolFailure
}

/**
 * What a step adds to the state. `terminated`: the task came to its end; `truncated`: it was cut
 * off; `done`: one of the two. Tensors of shape `[B]`: reward float32 in reward units, the others
 * bool.
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

/** What a step came to, for each element. What is left out: reward 0, and not ended. */
export interface OutcomeRows {
  readonly reward?: readonly number[]
  readonly terminated?: readonly boolean[]
  readonly truncated?: readonly boolean[]
}

/** Which elements of a state have ended: none if it has no such entry, as after a reset. */
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
 * The outcome of a step from `state`. What had ended before stays ended, and gets no reward any
 * more.
 *
 * Shapes   every row list has one value for each element, `[B]`.
 * Effects  makes four tensors, of the enclosing scope.
 */
export const outcomeAfter = (state: TensorDict, rows: OutcomeRows = {}): TensorDict<Outcome> => {
  const over = endedRows(state, 'done')
  const flags = (key: 'terminated' | 'truncated'): readonly boolean[] =>
    endedRows(state, key).map((before, i) => before || (over[i] === false && rows[key]?.[i] === true))
  const [terminated, truncated] = [flags('terminated'), flags('truncated')]
  const done = terminated.map((ended, i) => ended || truncated[i] === true)
  const reward = over.map((ended, i) => (ended ? 0 : (rows.reward?.[i] ?? 0)))
  const bools = (values: readonly boolean[]): tf.Tensor => tf.tensor(values.map(Number), [...state.batchShape], 'bool')
  return scope(() =>
    TensorDict(
      {
        reward: tf.tensor(reward, [...state.batchShape], 'float32'),
        terminated: bools(terminated),
        truncated: bools(truncated),
        done: bools(done),
      },
      state.batchShape,
    ),
  )
}

/**
 * A step as a transform sees it: the state before, and the state that the environment inside made
 * of it.
 */
export interface StepBetween {
  readonly previous: TensorDict
  readonly next: TensorDict
}

/**
 * The reward of a step with what a transform pays for it. Elements that were done before the step
 * earn nothing.
 *
 * Shapes   one amount for each element; returns `[B]` float32, of the enclosing scope.
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
 * The ends of a step with those that a transform adds. An element that was done before the step
 * keeps the ends that it had.
 *
 * Shapes   one flag for each element; returns `[B]` bool, of the enclosing scope.
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

/** What an environment offers to a policy and expects from it. */
export interface EnvSpecs {
  readonly observation: Spec
  readonly action: Spec
}

export interface StepOptions {
  /**
   * Aborted when nobody waits for the step any more: what it began elsewhere is to end. An
   * environment in this process may ignore it.
   */
  readonly signal?: AbortSignal
  /**
   * Called with the action and what transforms have read out of it so far, such as the message in
   * the policy's tokens. The last call, before the environment steps, has all of it.
   */
  readonly onAction?: (action: TensorDict) => void
}

/** `O` is the schema of its states, `A` that of the actions it takes. */
export interface Env<O, in A> {
  readonly name: string
  /** Elements of every TensorDict it takes and returns: the batch shape is `[batchSize]`. */
  readonly batchSize: number
  readonly specs: EnvSpecs
  /**
   * Starts new episodes. `request` carries what the caller wants to choose (a query) and what the
   * last state remembered (a position in a dataset): the state before, or a TensorDict without
   * entries.
   */
  readonly reset: (request: TensorDict, key: Key) => TaskEither<EnvFailure, TensorDict<O>>
  /** Plays one turn. The state is not changed. */
  readonly step: (
    state: TensorDict<O>,
    action: TensorDict<A>,
    options?: StepOptions,
  ) => TaskEither<EnvFailure, TensorDict<DeepMerge<O, Outcome>>>
  /**
   * Gives back what is held for the episodes of a state, such as environments of tools. Whoever
   * plays episodes calls it once they are over: after the reward of the last step, or when they are
   * abandoned. It does not wait. Default: nothing is held.
   */
  readonly release?: (state: TensorDict) => void
}

export const envFailure = (env: string, reason: string, cause?: NonNullable<EnvFailure['cause']>): EnvFailure => ({
  _tag: 'EnvFailure',
  env,
  where: env,
  reason,
  ...(cause !== undefined && { cause }),
})

/** Throws unless the batch has a size. */
export const requireBatchSize = (name: string, batchSize: number): void => {
  if (!Number.isInteger(batchSize) || batchSize < 1) {
    throw new RangeError(`${name}: batchSize must be at least 1, got ${batchSize}`)
  }
}

/** Throws unless an action is for the elements of a state. */
export const requireSameBatch = (name: string, state: TensorDict, action: TensorDict): void => {
  if (state.batchShape.join() !== action.batchShape.join()) {
    const [acted, stands] = [action, state].map(({ batchShape }) => `[${batchShape.join(', ')}]`)
    throw new RangeError(`${name}: the action has batch shape ${acted}, the state ${stands}`)
  }
}

/** The entry under which composed environments keep what their transforms remember. */
export const REMEMBERED = 'transforms'

/**
 * The request for the next episodes: what a state remembers (such as a position in a dataset), and
 * nothing of its episode.
 */
export const nextRequest = (state: TensorDict): TensorDict => {
  const remembered = state.entries.get(REMEMBERED)
  return TensorDict(remembered === undefined ? {} : { [REMEMBERED]: remembered }, state.batchShape)
}
