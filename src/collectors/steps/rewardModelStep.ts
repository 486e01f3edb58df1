/** The training step of a reward model: a value head, read at the end of each completion. */
import * as tf from '@tensorflow/tfjs-core'
import { stateValues } from '../../modules/valueHead.js'
import type { RewardModelLoss } from '../../objectives/rewardModelLoss.js'
import { interleaved, type Preference, sideOf } from './dpoStep.js'
import type { MeasuredLoss, StepCase } from './lossStep.js'
import { summed } from './readout.js'

/** Pairs of completions. All lists have one element for each pair. */
export interface RankedRows extends Preference<readonly ArrayLike<number>[]> {
  readonly prompts: readonly ArrayLike<number>[]
  /** The lead that the chosen completion should have. Default 0. */
  readonly margins?: readonly number[]
}

/** Means over the pairs, before the update. */
export interface RewardModelMetrics extends MeasuredLoss {
  readonly chosenReward: number
  readonly rejectedReward: number
  /** Difference of the two rewards. */
  readonly margin: number
  /** Share of pairs whose chosen completion has the higher reward. */
  readonly accuracy: number
}

type Measure = 'chosenReward' | 'rejectedReward' | 'accuracy'

/** Appends one token to a completion. The state that predicts it has processed all the others. */
const withEnd = (row: ArrayLike<number>): ArrayLike<number> => [...Array.from(row), 0]

const atEnd = (row: ArrayLike<number>): ArrayLike<number> => Array.from(row, (_, t) => (t === row.length - 1 ? 1 : 0))

/**
 * Returns the step case of a reward model. The reward of a completion is the value at its last
 * token, as in TRL's `RewardTrainer`.
 */
export const rewardModelCase = (
  loss: RewardModelLoss,
): StepCase<RankedRows, 'margins', Readonly<Record<Measure, tf.Tensor>>, RewardModelMetrics> => ({
  name: 'rewardModelStep',
  rows: ({ prompts, chosen, rejected, margins }) => {
    const completions = interleaved({ chosen, rejected }).map(withEnd)
    return {
      groups: { prompts, group: 2 },
      completions,
      masks: completions.map(atEnd),
      temperature: 1,
      lists: margins === undefined ? {} : { margins: margins.flatMap((margin) => [margin, margin]) },
    }
  },
  loss: ({ states, weights }, { mask, lists, counts }) => {
    const values = tf.reshape(stateValues(weights, states), mask.shape)
    const rewardOf = (side: 'chosen' | 'rejected'): tf.Tensor =>
      tf.sum(tf.mul(sideOf(values, side), sideOf(mask, side)), -1)
    const [chosen, rejected] = [rewardOf('chosen'), rewardOf('rejected')]
    const pairs = tf.div(counts.completions, 2)
    const margin = lists.margins && tf.reshape(sideOf(lists.margins, 'chosen'), [-1])
    const output = loss.apply({ chosen, rejected, pairs, ...(margin && { margin }) })
    const mean = (x: tf.Tensor): tf.Tensor => tf.div(tf.sum(x), pairs)
    return {
      value: output.lossRewardModel,
      aux: { chosenReward: mean(chosen), rejectedReward: mean(rejected), accuracy: output.accuracy },
    }
  },
  metrics: (parts, gradNorm) => {
    const means = summed(parts)
    return { ...means, margin: means.chosenReward - means.rejectedReward, gradNorm }
  },
})
