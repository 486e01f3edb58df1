/** The entries that all transforms with rewards add. */
import * as tf from '@tensorflow/tfjs-core'
import { type Spec, tensorSpec } from '../../data/spec.js'
import { TensorDict } from '../../data/tensorDict/tensorDict.js'
import { addEnds, addReward, endedRows, type StepBetween } from '../base/env.js'
import type { Scored } from '../rewards/reward.js'

/** The effect of an answer on the episode. */
export type OnAnswer = 'terminate' | 'continue'

/**
 * The entry `success`, `[B]` bool: true if the task is solved. The parts of the reward have their
 * own entries, each `[B]` float32.
 */
export type RewardEntries = { readonly success: tf.Tensor }

/**
 * Returns the entry of a part of a reward: `reward` and the part's words, capitalized.
 *
 * @example
 * rewardKey('math.answer') // 'rewardMathAnswer'
 */
export const rewardKey = (part: string): string =>
  `reward${part
    .split(/[^\p{L}\p{N}]+/u)
    .map((word) => `${word.slice(0, 1).toUpperCase()}${word.slice(1)}`)
    .join('')}`

type Camel<P extends string, By extends string> = P extends `${infer A}${By}${infer B}`
  ? `${A}${Capitalize<Camel<B, By>>}`
  : P

/** The type of `rewardKey`, for names with words separated by `.`, `_`, `-` or `:`. */
export type RewardKey<P extends string> = `reward${Capitalize<Camel<Camel<Camel<Camel<P, '.'>, '_'>, '-'>, ':'>>}`

/** One float32 entry `[B]` for each part of a reward, if the names are known at compile time. */
export type PartEntries<P extends string> = string extends P
  ? unknown
  : { readonly [K in P as RewardKey<K>]: tf.Tensor }

/** Throws RangeError for parts that share an entry. */
export const rewardKeys = (where: string, partNames: readonly string[]): ReadonlyMap<string, string> => {
  const keys = partNames.map((name) => [name, rewardKey(name)] as const)
  const problems = keys
    .filter(([, key], i) => keys.findIndex(([, other]) => other === key) < i)
    .map(([name, key]) => `the part '${name}' is not the only one under '${key}'`)
  if (problems.length > 0) throw new RangeError(`${where}: ${problems.join('; ')}`)
  return new Map(keys)
}

export const rewardSpec = (keys: ReadonlyMap<string, string>): Spec => ({
  ...Object.fromEntries([...keys.values()].map((key) => [key, tensorSpec('float32')])),
  success: tensorSpec('bool'),
})

/** Returns the scores before the first step. The tensors belong to the enclosing scope. */
export const unscored = (keys: ReadonlyMap<string, string>, { batchShape }: TensorDict): TensorDict<RewardEntries> =>
  TensorDict(
    {
      ...Object.fromEntries([...keys.values()].map((key) => [key, tf.zeros([...batchShape])])),
      success: tf.zeros([...batchShape], 'bool'),
    },
    batchShape,
  )

/** Returns `true` if an answer ends its episode: its part `answer` is above 0 or absent. */
export const isAnswer = ({ parts }: Scored): boolean => (parts.answer ?? 1) > 0

/** The options for converting scores to entries. */
export interface RewardedOptions {
  readonly keys: ReadonlyMap<string, string>
  /** `true` for elements whose episode the step terminates. */
  readonly ends: readonly boolean[]
}

/**
 * Makes the entries of a step from the scores of a batch (`null` for elements that are not scored
 * in this step). The reward is added to the existing one. Elements that were done before the step
 * get no reward, parts of 0, and keep their `success`. The tensors belong to the enclosing scope.
 */
export const rewarded = (
  step: StepBetween,
  scores: readonly (Scored | null)[],
  { keys, ends }: RewardedOptions,
): TensorDict<RewardEntries> => {
  const { previous, next } = step
  const over = endedRows(previous, 'done')
  const due = scores.map((score, i) => (over[i] === true ? null : score))
  const numbers = (f: (score: Scored) => number): tf.Tensor =>
    tf.tensor1d(
      due.map((score) => (score === null ? 0 : f(score))),
      'float32',
    )
  const solved = endedRows(previous, 'success')
  const success = due.map((score, i) => (over[i] === true ? solved[i] === true : score?.success === true))
  return TensorDict(
    {
      ...Object.fromEntries([...keys].map(([name, key]) => [key, numbers(({ parts }) => parts[name] ?? Number.NaN)])),
      reward: addReward(
        step,
        due.map((score) => score?.reward ?? 0),
      ),
      success: tf.tensor1d(success, 'bool'),
      ...addEnds(step, { terminated: ends }),
    },
    next.batchShape,
  )
}
