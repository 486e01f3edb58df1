/** Environments made of the parts that differ: what their states hold and what a step pays. */
import type { Key } from '@tandem-rl/base'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { type DeepMerge, merge } from '../../data/tensorDict/merge.js'
import { TensorDict } from '../../data/tensorDict/tensorDict.js'
import {
  type Env,
  type EnvFailure,
  type EnvSpecs,
  endedRows,
  type Outcome,
  type OutcomeRows,
  type StepOptions,
} from './env.js'

/** The parts of an environment. */
export interface EnvParts<O, in A> {
  readonly name: string
  readonly batchSize: number
  readonly specs: EnvSpecs
  /** Returns the entries of the first state. Those of the request stay beside them. */
  readonly reset: (request: TensorDict, key: Key) => TE.TaskEither<EnvFailure, TensorDict<O>>
  /**
   * Plays one turn: returns the entries that change, and the rewards and ends. Elements that have
   * ended before stay ended and get no reward.
   */
  readonly step: (
    state: TensorDict<O>,
    action: TensorDict<A>,
    options: StepOptions,
  ) => TE.TaskEither<EnvFailure, OutcomeRows & { readonly next: TensorDict }>
}

/**
 * Returns the outcome of a step from `state`. Elements that had ended before stay ended and get no
 * reward.
 *
 * Shapes   every list has one value for each element, `[B]`.
 * Effects  makes four tensors, which belong to the enclosing scope.
 */
const outcomeAfter = (state: TensorDict, rows: OutcomeRows): TensorDict<Outcome> => {
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

/** Throws unless an action has the batch shape of a state. */
const requireSameBatch = (name: string, state: TensorDict, action: TensorDict): void => {
  if (state.batchShape.join() !== action.batchShape.join()) {
    const [acted, stands] = [action, state].map(({ batchShape }) => `[${batchShape.join(', ')}]`)
    throw new RangeError(`${name}: the action has batch shape ${acted}, the state ${stands}`)
  }
}

/**
 * Makes an environment of a function for its first states and one for its turns, whose rewards and
 * ends are plain numbers and flags. States keep the entries that a turn does not change.
 *
 * Shapes   all entries `[B]`.
 * Errors   those of the parts. Throws RangeError for a batch size below 1, and for an action whose
 *          batch shape is not that of the state.
 *
 * @example
 * makeEnv({ name: 'coin', batchSize: 1, specs: { observation: {}, action: {} }, reset: () => TE.right(TensorDict({}, [1])), step: () => TE.right({ next: TensorDict({}, [1]), reward: [1] }) }).name // 'coin'
 */
export const makeEnv = <O, A>({ name, batchSize, specs, reset, step }: EnvParts<O, A>): Env<O, A> => {
  if (!Number.isInteger(batchSize) || batchSize < 1)
    throw new RangeError(`${name}: batchSize must be at least 1, got ${batchSize}`)
  return {
    name,
    batchSize,
    specs,
    reset: (request, key) =>
      pipe(
        reset(request, key),
        TE.map((first) => merge(request, first) as TensorDict<O>), // the state's own entries take precedence
      ),
    step: (state, action, options = {}) => {
      requireSameBatch(name, state, action)
      return pipe(
        step(state, action, options),
        TE.map(
          ({ next, ...rows }) =>
            merge(merge(state, next), outcomeAfter(state, rows)) as TensorDict<DeepMerge<O, Outcome>>,
        ), // both are merged in
      )
    },
  }
}
