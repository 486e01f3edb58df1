/** The loss of a value function. */
import * as tf from '@tensorflow/tfjs-core'
import { aNumber, checkOptions } from '../core/options.js'
import { masked, maskedSum } from '../engine/masked.js'
import { stopGradient } from '../engine/stopGradient.js'
import {
  type Aggregation,
  aggregate,
  anAggregation,
  checkAggregation,
  countsOf,
  type LossCounts,
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
  /** `[B, T]`; receives the gradient. */
  readonly values: tf.Tensor
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

/** Scalars. */
export interface ValueLossOutput {
  readonly lossValue: tf.Tensor
  /** Share of tokens whose gradient was clipped to 0. */
  readonly pgClipFraction: tf.Tensor
}

/** A value loss with validated settings. */
export interface ValueLoss {
  readonly kind: 'value'
  readonly name: 'valueLoss'
  readonly options: ValueLossOptions
  readonly apply: (input: ValueLossInput) => ValueLossOutput
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
  checkOptions('valueLoss', options, { clipEpsilon: aNumber, aggregation: anAggregation })
  const { clipEpsilon, aggregation = 'token-mean' } = options
  checkAggregation('valueLoss', aggregation)
  if (clipEpsilon !== undefined && !(clipEpsilon > 0 && Number.isFinite(clipEpsilon)))
    throw new RangeError(`valueLoss: clipEpsilon must be positive, got ${clipEpsilon}`)

  const errors = ({ values, oldValues, returns, mask }: ValueLossInput): readonly [tf.Tensor, tf.Tensor] => {
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

  return {
    kind: 'value',
    name: 'valueLoss',
    options,
    apply: (input) => {
      const { values, oldValues, returns, mask } = input
      checkTokenShapes('valueLoss', { values, returns, mask, oldValues })
      const counts = input.counts ?? countsOf(mask)
      const [each, cut] = errors(input)
      return {
        lossValue: aggregate(tf.mul(each, 0.5), { mask, counts, aggregation }),
        pgClipFraction: tf.div(maskedSum(cut, mask), tf.maximum(counts.tokens, 1)),
      }
    },
  }
}
