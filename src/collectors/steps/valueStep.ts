/** The optimizer step of a value function with its own backbone. */
import * as tf from '@tensorflow/tfjs-core'
import { masked, maskedSum } from '../../engine/masked.js'
import type { Readout } from '../../modules/transformer/layerwise.js'
import { groupPrompts } from '../../modules/transformer/pack.js'
import { stateValues } from '../../modules/valueHead.js'
import type { ValueLoss } from '../../objectives/valueLoss.js'
import type { MeasuredLoss, StepCase } from './lossStep.js'
import { summed } from './readout.js'
import type { RowTensors, StepTokenRows } from './tokenRows.js'

/** The training rows of a value function. All lists have one element per row. */
export interface ValueRows {
  readonly prompts: readonly ArrayLike<number>[]
  readonly completions: readonly ArrayLike<number>[]
  /** Per token: its target value. */
  readonly returns: readonly ArrayLike<number>[]
  /** Per token: its value at the time of sampling. */
  readonly oldValues?: readonly ArrayLike<number>[]
  /** Per token: 1 for trained tokens. Default: all tokens. */
  readonly masks?: readonly ArrayLike<number>[]
}

/** The lists of a value function. */
export type ValueList = 'returns' | 'oldValues'

/** Means over the trained tokens, before the update. */
export interface ValueMetrics {
  readonly valueLoss: number
  /** Share of tokens without a gradient because of the value clip range. */
  readonly valueCutFraction: number
  /**
   * `1 - Var(R - V) / Var(R)`: 1 for a perfect value function, 0 for a constant one, `null` if all
   * returns are equal.
   */
  readonly explainedVariance: number | null
}

/** Shares of the means of the whole mini-batch. */
export type ValueMeasures = Readonly<
  Record<'valueLoss' | 'valueCutFraction' | 'error' | 'squaredError' | 'target' | 'squaredTarget', tf.Tensor>
>

/** Computes the value loss of a micro-batch, and its measures. */
export const valueTerms = (
  { states, weights }: Readout,
  { mask, lists, counts }: RowTensors<ValueList>,
  loss: ValueLoss,
): ValueMeasures => {
  const values = tf.reshape(stateValues(weights, states), mask.shape)
  const { oldValues } = lists
  const returns = lists.returns! // rows have them
  const { lossValue, pgClipFraction } = loss.apply({ values, returns, mask, counts, ...(oldValues && { oldValues }) })
  const mean = (x: tf.Tensor): tf.Tensor => tf.div(maskedSum(x, mask), tf.maximum(counts.tokens, 1))
  const [target, error] = [masked(returns, mask), masked(tf.sub(returns, values), mask)]
  return {
    valueLoss: lossValue,
    valueCutFraction: pgClipFraction,
    error: mean(error),
    squaredError: mean(tf.square(error)),
    target: mean(target),
    squaredTarget: mean(tf.square(target)),
  }
}

/** A variance below this share of the mean square is treated as rounding. */
const ROUNDING = 1e-6

/** Computes metrics from summed measures. */
export const valueMetrics = (sums: { readonly [N in keyof ValueMeasures]: number }): ValueMetrics => {
  const { error, squaredError, target, squaredTarget } = sums
  const variance = squaredTarget - target ** 2
  return {
    valueLoss: sums.valueLoss,
    valueCutFraction: sums.valueCutFraction,
    explainedVariance: variance > ROUNDING * squaredTarget ? 1 - (squaredError - error ** 2) / variance : null,
  }
}

const tokenRows = ({ prompts, completions, masks, ...lists }: ValueRows): StepTokenRows<ValueList> => ({
  groups: groupPrompts(prompts),
  completions,
  ...(masks && { masks }),
  temperature: 1,
  lists,
})

/** Returns the step case of a value loss. */
export const valueCase = (
  loss: ValueLoss,
): StepCase<ValueRows, ValueList, ValueMeasures, ValueMetrics & MeasuredLoss> => ({
  name: 'valueStep',
  rows: tokenRows,
  loss: (readout, rows) => {
    const aux = valueTerms(readout, rows, loss)
    return { value: aux.valueLoss, aux }
  },
  metrics: (parts, gradNorm) => {
    const sums = summed(parts)
    return { ...valueMetrics(sums), loss: sums.loss, gradNorm }
  },
})
