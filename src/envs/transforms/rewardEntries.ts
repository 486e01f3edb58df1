/** Scores as entries of a state: what every transform that rewards adds. */
import * as tf from '@tensorflow/tfjs'
import { type Spec, tensorSpec } from '../../data/spec.js'
import { find, TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { Scored } from '../rewards/reward.js'

/** Whether an answer ends the episode. */
export type OnAnswer = 'terminate' | 'continue'

/** Whether the task is solved, `[B]` bool. Beside it the parts of the reward, each `[B]` float32. */
export type RewardEntries = { readonly success: tf.Tensor }

/**
 * The entry under which a part of a reward is: `reward` and its words, each with a capital letter.
 *
 * @example
 * rewardKey('math.answer') // 'rewardMathAnswer'
 */
export const rewardKey = (part: string): string =>
  `reward${part
    .split(/[^\p{L}\p{N}]+/u)
    .map((word) => `${word.slice(0, 1).toUpperCase()}${word.slice(1)}`)
    .join('')}`

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

const flagsAt = (td: TensorDict, key: string): tf.Tensor => {
  const entry = find(td, [key])
  return entry instanceof tf.Tensor ? entry : tf.zeros([...td.batchShape], 'bool')
}

/** Before the first step nothing is scored. Tensors of the enclosing scope. */
export const unscored = (keys: ReadonlyMap<string, string>, { batchShape }: TensorDict): TensorDict<RewardEntries> =>
  TensorDict(
    {
      ...Object.fromEntries([...keys.values()].map((key) => [key, tf.zeros([...batchShape])])),
      success: tf.zeros([...batchShape], 'bool'),
    },
    batchShape,
  )

/**
 * The scores of a batch, one for each element: the reward is added to what is there, and with `terminate` the episodes end in which an answer
 * was given: where the part `answer` is above 0, or everywhere if the reward has no such part. Tensors of the enclosing scope.
 */
export const rewarded = (
  next: TensorDict,
  scores: readonly Scored[],
  { keys, onAnswer }: { readonly keys: ReadonlyMap<string, string>; readonly onAnswer: OnAnswer },
): TensorDict<RewardEntries> => {
  const numbers = (f: (score: Scored) => number): tf.Tensor => tf.tensor1d(scores.map(f), 'float32')
  const flags = (f: (score: Scored) => boolean): tf.Tensor => tf.tensor1d(scores.map(f), 'bool')
  const given = find(next, ['reward'])
  const reward = numbers((score) => score.reward)
  const answered = flags(({ parts }) => onAnswer === 'terminate' && (parts.answer ?? 1) > 0)
  return TensorDict(
    {
      ...Object.fromEntries([...keys].map(([name, key]) => [key, numbers(({ parts }) => parts[name] ?? Number.NaN)])),
      reward: given instanceof tf.Tensor ? tf.add(given, reward) : reward,
      success: flags(({ success }) => success),
      terminated: tf.logicalOr(flagsAt(next, 'terminated'), answered),
      done: tf.logicalOr(flagsAt(next, 'done'), answered),
    },
    next.batchShape,
  )
}
