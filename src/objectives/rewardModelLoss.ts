/** The loss of a reward model: learning from pairs of completions, one of which was preferred. */
import * as tf from '@tensorflow/tfjs-core'
import { aNumber, checkOptions, notAWeight, refuse } from '../core/options.js'

export interface RewardModelLossOptions {
  /** Weight of the mean squared sum of both rewards, which keeps them around 0. Default 0: none. */
  readonly centerRewardsCoefficient?: number
}

/** Axes: B pairs. All float32, in units of the reward. */
export interface RewardModelLossInput {
  /** `[B]`; receives the gradient. */
  readonly chosen: tf.Tensor
  readonly rejected: tf.Tensor
  /** `[B]`: the required lead of the chosen completion. Default 0. */
  readonly margin?: tf.Tensor
  /**
   * The number of pairs of the whole mini-batch, a scalar, so that micro-batches add up to it.
   * Default: the number in this input.
   */
  readonly pairs?: tf.Tensor
}

/** Scalars, except for `losses`. */
export interface RewardModelLossOutput {
  /** The total: the mean over pairs, and the centering. */
  readonly lossRewardModel: tf.Tensor
  /** `[B]`: the loss of each pair, without the centering. */
  readonly losses: tf.Tensor
  /** The part that centers rewards; absent without a coefficient. */
  readonly lossCenter?: tf.Tensor
  /** Share of the pairs whose chosen completion has the larger reward. */
  readonly accuracy: tf.Tensor
}

/** A loss of reward models with validated settings. */
export interface RewardModelLoss {
  readonly kind: 'rewardModel'
  readonly name: 'rewardModelLoss'
  readonly options: RewardModelLossOptions
  readonly apply: (input: RewardModelLossInput) => RewardModelLossOutput
}

const checkInput = ({ chosen, rejected, margin }: RewardModelLossInput): void => {
  const shapes = [chosen, rejected, ...(margin === undefined ? [] : [margin])].map(({ shape }) => `[${shape.join()}]`)
  if (chosen.rank !== 1 || new Set(shapes).size > 1)
    throw new RangeError(
      `rewardModelLoss: expected one shape [B] for chosen, rejected and margin, got ${shapes.join(', ')}`,
    )
}

/**
 * Implements the Bradley-Terry loss of a reward model, with a margin and centered rewards.
 *
 * Equation $L = \frac{1}{B} \sum_i -\log \sigma(r^+_i - r^-_i - m_i) + \frac{c}{B} \sum_i (r^+_i +
 *          r^-_i)^2$
 * Gradient of a pair with respect to $r^+$: $-\sigma(m - r^+ + r^-) + 2 c (r^+ + r^-)$; to $r^-$:
 * $\sigma(m - r^+ + r^-) + 2 c (r^+ + r^-)$
 * When     for pairs of preferences, to learn a reward for training a policy. The margin expresses
 *          how clear a preference is.
 * Used by  Llama 2 (arXiv:2307.09288), with a margin; TRL `RewardTrainer`, with
 *          `center_rewards_coefficient`
 * Shapes   see `RewardModelLossInput` and `RewardModelLossOutput`.
 * Errors   throws RangeError for a coefficient that is negative or not finite, and for shapes that
 *          do not fit (all named).
 * Edges    without pairs the loss is 0.
 * Source   Bradley and Terry 1952; Ouyang et al. 2022, arXiv:2203.02155, equation 1; margin:
 *          Touvron et al. 2023, arXiv:2307.09288, equation 2; centering: Eisenstein et al. 2023,
 *          arXiv:2312.09244, section 5.1; TRL `RewardTrainer.compute_loss`.
 *
 * @example
 * rewardModelLoss().apply({ chosen: tf.tensor1d([0]), rejected: tf.tensor1d([0]) }).accuracy.dataSync() // [0]
 */
export const rewardModelLoss = (options: RewardModelLossOptions = {}): RewardModelLoss => {
  checkOptions('rewardModelLoss', options, { centerRewardsCoefficient: aNumber })
  const { centerRewardsCoefficient: center = 0 } = options
  refuse('rewardModelLoss', [notAWeight('centerRewardsCoefficient', center)])
  return {
    kind: 'rewardModel',
    name: 'rewardModelLoss',
    options,
    apply: (input) => {
      checkInput(input)
      const { chosen, rejected, margin } = input
      const lead = tf.sub(chosen, rejected)
      const losses = tf.softplus(tf.neg(margin === undefined ? lead : tf.sub(lead, margin)))
      const pairs = tf.maximum(input.pairs ?? tf.scalar(losses.shape[0]!), 1)
      const lossPairs = tf.div(tf.sum(losses), pairs)
      const accuracy = tf.div(tf.sum(tf.cast(tf.greater(chosen, rejected), 'float32')), pairs)
      if (center === 0) return { lossRewardModel: lossPairs, losses, accuracy }
      const lossCenter = tf.mul(tf.div(tf.sum(tf.square(tf.add(chosen, rejected))), pairs), center)
      return { lossRewardModel: tf.add(lossPairs, lossCenter), losses, lossCenter, accuracy }
    },
  }
}
