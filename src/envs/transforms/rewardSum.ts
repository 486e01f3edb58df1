import { checkOptions } from '@tandem-rl/base'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { tensorSpec } from '../../data/spec.js'
import { find, TensorDict } from '../../data/tensorDict/tensorDict.js'
import { envFailure } from '../base/env.js'
import { REWARD_SUM_OPTIONS } from '../optionKinds.js'
import { type Transform, transform } from './transform.js'

/** A sum for each entry, `[B]` float32: `episodeReward` for `reward`. */
export type EpisodeSums<K extends string> = { readonly [P in K as `episode${Capitalize<P>}`]: tf.Tensor }

export interface RewardSumOptions<K extends string> {
  /** The entries to sum: tensors of shape `[B]` from a step. Default: the reward only. */
  readonly entries?: readonly K[]
}

const sumName = (entry: string): string => `episode${entry.charAt(0).toUpperCase()}${entry.slice(1)}`

const tensorAt = (td: TensorDict, key: string): tf.Tensor | undefined => {
  const entry = find(td, [key])
  return entry instanceof tf.Tensor ? entry : undefined
}

/**
 * The reward of the episode so far, and of its parts if they are named: 0 after a reset, and with
 * each step what the step gave. Put it behind what changes the reward.
 *
 * Equation $R_t = R_{t-1} + r_t$, $R_0 = 0$
 * Shapes   `[B]`.
 * Errors   `Left(EnvFailure)` with all entries that a step does not give; throws RangeError for
 *          entries that are named twice, or for none.
 * Source   TorchRL `RewardSum`.
 *
 * @example
 * RewardSum().name // 'RewardSum'
 */
export const RewardSum = <const K extends string = 'reward'>(
  options: RewardSumOptions<K> = {},
): Transform<null, unknown, EpisodeSums<K>> => {
  checkOptions('RewardSum', options, REWARD_SUM_OPTIONS)
  const entries: readonly string[] = options.entries ?? ['reward']
  if (entries.length === 0 || new Set(entries).size !== entries.length) {
    throw new RangeError(`RewardSum: entries must be different names, at least one, got [${entries.join(', ')}]`)
  }
  // Casts in this function: the names of EpisodeSums are made of those in `entries`, as `sumName`
  // makes them.
  return transform<null, unknown, EpisodeSums<K>>({
    name: 'RewardSum',
    initial: null,
    adds: Object.fromEntries(entries.map((name) => [sumName(name), tensorSpec('float32')])),
    reset: ({ batchShape }) => {
      const zeros = (): TensorDict =>
        TensorDict(Object.fromEntries(entries.map((name) => [sumName(name), tf.zeros([...batchShape])])), batchShape)
      return TE.right([scope(zeros) as TensorDict<EpisodeSums<K>>, null])
    },
    step: (next, { previous }) => {
      const missing = entries.filter((name) => tensorAt(next, name) === undefined)
      if (missing.length > 0) return TE.left(envFailure('RewardSum', `the step gave no tensor ${missing.join(', ')}`))
      const sums = (): TensorDict => {
        const each = entries.map((name) => {
          const given = tf.cast(tensorAt(next, name)!, 'float32') // checked: it is there
          const before = tensorAt(previous, sumName(name))
          return [sumName(name), before === undefined ? tf.clone(given) : tf.add(before, given)] as const
        })
        return TensorDict(Object.fromEntries(each), next.batchShape)
      }
      return TE.right([scope(sums) as TensorDict<EpisodeSums<K>>, null])
    },
  })
}
