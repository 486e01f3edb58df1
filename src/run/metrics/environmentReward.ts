/** The reward of an environment, before a run subtracts length and KL penalties from it. */
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { tensorSpec } from '../../data/spec.js'
import { find, TensorDict } from '../../data/tensorDict/tensorDict.js'
import { addReward } from '../../envs/base/env.js'
import { type Transform, transform } from '../../envs/transforms/transform.js'

/** The reward of the environment, `[B]` float32. */
export type EnvironmentRewardEntries = { readonly environmentReward: tf.Tensor }

/** Keeps the reward of each step under `environmentReward`. Penalties are appended after it. */
export const EnvironmentReward = (): Transform<null, unknown, EnvironmentRewardEntries> =>
  transform<null, unknown, EnvironmentRewardEntries>({
    name: 'EnvironmentReward',
    initial: null,
    adds: { environmentReward: tensorSpec('float32') },
    reset: (td) =>
      TE.right([scope(() => TensorDict({ environmentReward: tf.zeros([...td.batchShape]) }, td.batchShape)), null]),
    step: (next, { previous }) => {
      const none = new Array<number>(next.batchShape[0] ?? 1).fill(0)
      const added = scope(() => TensorDict({ environmentReward: addReward({ previous, next }, none) }, next.batchShape))
      return TE.right([added, null])
    },
  })

/** Returns the reward of each row before length and KL penalties. */
export const plainRewards = (batch: TensorDict): ArrayLike<number> => {
  const rewards = find(batch, ['next', 'environmentReward']) ?? find(batch, ['next', 'reward'])
  return rewards instanceof tf.Tensor ? rewards.dataSync() : new Array<number>(batch.batchShape[0] ?? 0).fill(0)
}
