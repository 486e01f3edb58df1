/** The loss of a value function. */
import { checkOptions } from '@tandem-rl/base'
import { stopGradient } from '@tandem-rl/tfjs-onnxruntime'
import * as tf from '@tensorflow/tfjs-core'
import { masked } from '../data/tensorDict/masked.js'
import { defineLoss, type Loss, type LossMetrics, type LossOutput, type ModelOutputs, meanMetrics } from './loss.js'
import { completionRows, type EntriesOf } from './lossRows.js'
import { VALUE_LOSS_OPTIONS } from './optionKinds.js'
import {
  type Aggregation,
  aggregate,
  checkAggregation,
  countsOf,
  type LossCounts,
  tokenMean,
} from './tokenLosses/aggregation.js'
import { checkTokenShapes } from './tokenShapes.js'

export interface ValueLossOptions {
  /**
   * The distance from the old value beyond which moving further is not rewarded. Default: no limit.
   */
  readonly clipEpsilon?: number
  /** Default `token-mean`. */
  readonly aggregation?: Aggregation
}

/** Axes: B completions, T tokens. All float32. */
export interface ValueLossInput {
  /** `[B, T]`: the values at sampling time; required with `clipEpsilon`. */
  readonly oldValues?: tf.Tensor
  /** `[B, T]`: the targets of the values, such as the returns of `gae`. */
  readonly returns: tf.Tensor
  /** `[B, T]`: 1 for a token to learn from. */
  readonly mask: tf.Tensor
  /**
   * The divisors, so that micro-batches add up to the whole mini-batch. Default: the counts of this
   * input.
   */
  readonly counts?: LossCounts
}

/** Scalars. Means are shares of those of the whole mini-batch. */
export interface ValueLossOutput extends LossOutput {
  readonly lossValue: tf.Tensor
  /** Share of tokens whose gradient was clipped to 0. */
  readonly valueCutFraction: tf.Tensor
  /** Means of `R - V`, of its square, of `R`, and of its square, for `explainedVariance`. */
  readonly error: tf.Tensor
  readonly squaredError: tf.Tensor
  readonly target: tf.Tensor
  readonly squaredTarget: tf.Tensor
}

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

/** Combines the metrics of several steps. */
export const combineValues = (steps: readonly (ValueMetrics & LossMetrics)[]): ValueMetrics => {
  if (steps.length === 0) return { valueLoss: 0, valueCutFraction: 0, explainedVariance: null }
  const { valueLoss, valueCutFraction, explainedVariance } = meanMetrics(steps)
  return { valueLoss, valueCutFraction, explainedVariance }
}

/** The batch of a value loss. Losses with a clip range also read `values` of the sampled batch. */
export type ValueBatch = EntriesOf<'returns'>

/** A value loss with validated settings. */
export interface ValueLoss extends Loss<ValueBatch, ValueMetrics & LossMetrics, ValueLossInput> {
  readonly apply: (model: Pick<ModelOutputs, 'values'>, batch: ValueLossInput) => ValueLossOutput
}

/** A variance below this share of the mean square is treated as rounding. */
const ROUNDING = 1e-6

/** Computes metrics from summed scalars. */
export const valueMetrics = (sums: Readonly<Record<string, number>>, valueLoss: number): ValueMetrics => {
  const { error = 0, squaredError = 0, target = 0, squaredTarget = 0, valueCutFraction = 0 } = sums // all are there
  const variance = squaredTarget - target ** 2
  return {
    valueLoss,
    valueCutFraction,
    explainedVariance: variance > ROUNDING * squaredTarget ? 1 - (squaredError - error ** 2) / variance : null,
  }
}

/**
 * Implements the loss of PPO's value function.
 *
 * Per token `l = (V - R)^2 / 2`; with `clipEpsilon` e: `l = max((V - R)^2, (clip(V, V_old - e,
 * V_old + e) - R)^2) / 2`. The gradient is `V - R`, and 0 where the clipped term is the larger one.
 *
 * Equation $\ell_t = \frac{1}{2} \max((V_t - R_t)^2, (\operatorname{clip}(V_t, V_t^{old} -
 *          \epsilon, V_t^{old} + \epsilon) - R_t)^2)$
 * Gradient $\partial \ell_t / \partial V_t = V_t - R_t$, and 0 where the clipped term is the larger
 * one
 * When     with `gae`. Without `clipEpsilon` the maximum is its first term.
 * Used by  PPO for InstructGPT (arXiv:2203.02155); verl `cliprange_value`; TorchRL `ClipPPOLoss`
 *          with `clip_value`
 * Shapes   see `ValueLossInput` and `ValueLossOutput`.
 * Errors   throws RangeError for invalid settings, for shapes that do not fit (all named), and for
 *          a missing `oldValues`.
 * Edges    without unmasked tokens the loss and its gradient are 0; masked values have no effect.
 * Source   Schulman et al. 2017, arXiv:1707.06347, equation 9; the clip is that of OpenAI baselines
 *          `ppo2` and of verl `compute_value_loss`.
 *
 * @example
 * valueLoss({ clipEpsilon: 0.5 }).name // 'valueLoss'
 */
export const valueLoss = (options: ValueLossOptions = {}): ValueLoss => {
  checkOptions('valueLoss', options, VALUE_LOSS_OPTIONS)
  const { clipEpsilon, aggregation = 'token-mean' } = options
  checkAggregation('valueLoss', aggregation)
  if (clipEpsilon !== undefined && !(clipEpsilon > 0 && Number.isFinite(clipEpsilon)))
    throw new RangeError(`valueLoss: clipEpsilon must be positive, got ${clipEpsilon}`)

  const errors = (values: tf.Tensor, { oldValues, returns, mask }: ValueLossInput): readonly [tf.Tensor, tf.Tensor] => {
    const [value, target] = [masked(values, mask), masked(returns, mask)]
    const free = tf.square(tf.sub(value, target))
    if (clipEpsilon === undefined) return [free, tf.zerosLike(free)]
    if (oldValues === undefined) throw new RangeError('valueLoss: clipEpsilon needs `oldValues`')
    const old = masked(oldValues, mask)
    const moved = tf.sub(value, old)
    const near = tf.add(old, tf.clipByValue(moved, -clipEpsilon, clipEpsilon))
    const clipped = tf.square(tf.sub(near, target))
    // Inside the range both terms are equal except for rounding, which may make either the larger
    // one.
    const isCut = tf.logicalAnd(tf.greater(tf.abs(moved), clipEpsilon), tf.greater(clipped, free))
    return [tf.maximum(free, clipped), stopGradient(tf.cast(isCut, 'float32'))]
  }

  const apply: ValueLoss['apply'] = ({ values }, input) => {
    const { oldValues, returns, mask } = input
    checkTokenShapes('valueLoss', { values, returns, mask, oldValues })
    const counted = { mask, counts: input.counts ?? countsOf(mask) }
    const [each, cut] = errors(values, input)
    const error = tf.sub(returns, values)
    return {
      lossValue: aggregate(tf.mul(each, 0.5), { ...counted, aggregation }),
      valueCutFraction: tokenMean(cut, counted),
      error: tokenMean(error, counted),
      squaredError: tokenMean(tf.square(error), counted),
      target: tokenMean(returns, counted),
      squaredTarget: tokenMean(tf.square(returns), counted),
    }
  }

  return {
    ...defineLoss<'returns' | 'oldValues', ValueMetrics & LossMetrics, ValueLossInput, ValueBatch>({
      name: 'valueLoss',
      options,
      module: import.meta.url,
      reads: clipEpsilon === undefined ? ['returns'] : ['returns', 'oldValues'],
      needs: { head: 'value' },
      rows: completionRows(['returns', 'oldValues'], 1),
      apply,
      measures: {
        metrics: ({ sums, gradNorm }) => ({ ...valueMetrics(sums, sums.lossValue!), loss: sums.loss, gradNorm }),
      },
    }),
    apply,
  }
}
