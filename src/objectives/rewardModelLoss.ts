/** The loss of a reward model: learning from pairs of completions, one of which was preferred. */
import { checkOptions, notAWeight, refuse } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import { find, type TensorDict } from '../data/tensorDict/tensorDict.js'
import { defineLoss, type Loss, type LossMetrics, type LossOutput, type ModelOutputs } from './loss.js'
import { type LossRows, PAIRS, type PreferenceBatch, pairRows, sideOf } from './lossRows.js'
import { REWARD_MODEL_LOSS_OPTIONS } from './optionKinds.js'
import { countsOf, type LossCounts } from './tokenLosses/aggregation.js'
import { checkTokenShapes } from './tokenShapes.js'

export interface RewardModelLossOptions {
  /** Weight of the mean squared sum of both rewards, which keeps them around 0. Default 0: none. */
  readonly centerRewardsCoefficient?: number
}

/**
 * Interleaved pairs: each chosen completion, followed by the rejected one. Axes: B pairs, T tokens.
 * All float32, in units of the reward.
 */
export interface RewardModelLossInput {
  /** `[2 B, T]`: 1 at the place where the reward of a completion is read, else 0. */
  readonly mask: tf.Tensor
  /** `[2 B, 1]`: the required lead of the chosen completion, in both of its rows. Default 0. */
  readonly margins?: tf.Tensor
  /**
   * The divisors, so that micro-batches add up to the whole mini-batch. Default: the counts of this
   * input.
   */
  readonly counts?: LossCounts
}

/** Scalars, except for `losses`: shares of the means over the pairs of the whole mini-batch. */
export interface RewardModelLossOutput extends LossOutput {
  readonly lossRewardModel: tf.Tensor
  /** `[B]`: the loss of each pair, without the centering. */
  readonly losses: tf.Tensor
  /** The part that centers rewards; absent without a coefficient. */
  readonly lossCenter?: tf.Tensor
  readonly chosenReward: tf.Tensor
  readonly rejectedReward: tf.Tensor
  /** Share of the pairs whose chosen completion has the larger reward. */
  readonly accuracy: tf.Tensor
}

/** Means over the pairs, before the update. */
export interface RewardModelMetrics extends LossMetrics {
  readonly chosenReward: number
  readonly rejectedReward: number
  /** Difference of the two rewards. */
  readonly margin: number
  /** Share of pairs whose chosen completion has the higher reward. */
  readonly accuracy: number
}

/** A loss of reward models with validated settings. */
export interface RewardModelLoss extends Loss<PreferenceBatch, RewardModelMetrics, RewardModelLossInput> {
  readonly apply: (model: Pick<ModelOutputs, 'values'>, batch: RewardModelLossInput) => RewardModelLossOutput
}

/** Appends one token to a completion. The state that predicts it has processed all the others. */
const withEnd = (row: ArrayLike<number>): ArrayLike<number> => [...Array.from(row), 0]

const atEnd = (row: ArrayLike<number>): ArrayLike<number> => Array.from(row, (_, t) => (t === row.length - 1 ? 1 : 0))

/**
 * Reads pairs, and their optional margins from the entry `margin`, a tensor `[B]`. The reward of a
 * completion is the value after its last token, as in TRL's `RewardTrainer`.
 */
const rankedRows = <B>(batch: TensorDict<B>): LossRows => {
  const pairs = pairRows(batch)
  const completions = pairs.completions.map(withEnd)
  const margin = find(batch as TensorDict, ['margin']) // entries are found by name
  const margins = margin instanceof tf.Tensor && Array.from(margin.dataSync()).flatMap((lead) => [lead, lead])
  return { ...pairs, completions, masks: completions.map(atEnd), lists: margins ? { margins } : {} }
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
 * rewardModelLoss().apply({ values: tf.tensor2d([[2], [1]]) }, { mask: tf.ones([2, 1]) }).accuracy.dataSync() // [1]
 */
export const rewardModelLoss = (options: RewardModelLossOptions = {}): RewardModelLoss => {
  checkOptions('rewardModelLoss', options, REWARD_MODEL_LOSS_OPTIONS)
  const { centerRewardsCoefficient: center = 0 } = options
  refuse('rewardModelLoss', [notAWeight('centerRewardsCoefficient', center)])
  const apply: RewardModelLoss['apply'] = ({ values }, { mask, margins, counts = countsOf(mask) }) => {
    checkTokenShapes('rewardModelLoss', { values, mask })
    const rewardOf = (side: 'chosen' | 'rejected'): tf.Tensor =>
      tf.sum(tf.mul(sideOf(values, side), sideOf(mask, side)), -1)
    const [chosen, rejected] = [rewardOf('chosen'), rewardOf('rejected')]
    const lead = tf.sub(chosen, rejected)
    const margin = margins && tf.reshape(sideOf(margins, 'chosen'), [-1])
    const losses = tf.softplus(tf.neg(margin === undefined ? lead : tf.sub(lead, margin)))
    const pairs = tf.maximum(tf.div(counts.completions, 2), 1)
    const mean = (x: tf.Tensor): tf.Tensor => tf.div(tf.sum(x), pairs)
    return {
      lossRewardModel: mean(losses),
      losses,
      ...(center !== 0 && { lossCenter: tf.mul(mean(tf.square(tf.add(chosen, rejected))), center) }),
      chosenReward: mean(chosen),
      rejectedReward: mean(rejected),
      accuracy: mean(tf.cast(tf.greater(chosen, rejected), 'float32')),
    }
  }
  return {
    ...defineLoss<never, RewardModelMetrics, RewardModelLossInput, PreferenceBatch>({
      name: 'rewardModelLoss',
      options,
      module: import.meta.url,
      needs: { head: 'value' },
      rows: rankedRows,
      apply,
      measures: {
        metrics: ({ sums: { loss, chosenReward = 0, rejectedReward = 0, accuracy = 0 }, gradNorm }) => ({
          loss,
          gradNorm,
          chosenReward,
          rejectedReward,
          accuracy,
          margin: chosenReward - rejectedReward,
        }),
      },
    }),
    reads: PAIRS,
    apply,
  }
}
