import { checkOptions } from '@tandem-rl/base'
import { stopGradient } from '@tandem-rl/tfjs-onnxruntime'
import * as tf from '@tensorflow/tfjs-core'
import { DPPO_OPTIONS } from '../optionKinds.js'
import { limited, ofAdvantage, type TokenObjective } from './tokenObjective.js'

export interface DPPOOptions {
  /**
   * The measure of the change of a token's probability: total variation, or the KL divergence of
   * two outcomes. Default `tv`.
   */
  readonly divergence?: 'tv' | 'kl'
  /**
   * Bounds of the divergence, `[low, high]` for tokens that lose and that gain probability. Default
   * 0.2 for `tv`, 0.05 for `kl`.
   */
  readonly epsilon?: number | readonly [low: number, high: number]
  /** The maximum weight. Default 20. */
  readonly largestRatio?: number
}

/** Computes `p log(p / q) + (1 - p) log((1 - p) / (1 - q))`, from log-probabilities. */
const binaryKL = (logP: tf.Tensor, logQ: tf.Tensor): tf.Tensor => {
  const [p, q] = [tf.exp(logP), tf.exp(logQ)]
  const other = (x: tf.Tensor): tf.Tensor => tf.maximum(tf.sub(1, x), 1e-8)
  const [otherP, otherQ] = [other(p), other(q)]
  return tf.add(tf.mul(p, tf.sub(logP, logQ)), tf.mul(otherP, tf.sub(tf.log(otherP), tf.log(otherQ))))
}

/**
 * Implements the objective of DPPO: `l = -A sg(min(w, c)) log pi` for tokens inside a trust region
 * of probabilities, 0 for the others. With `tv`, a token with `A > 0` is inside if `p - p_old <=
 * high`, any other if `p - p_old >= -low`. With `kl`, it is inside if the divergence `KL(p_old ||
 * p)` of "this token or another" is at most the bound, and whenever the step leads back to the old
 * policy.
 *
 * Equation $\ell_t = -\operatorname{sg}(\min(w_t, c)) A_t \log \pi_t$ inside of the region, else 0;
 *          for `tv` it is $\pi_t - \pi_t^{old} \le \epsilon_h$ where $A_t > 0$ and $\pi_t -
 *          \pi_t^{old} \ge -\epsilon_l$ elsewhere
 * Gradient $\partial \ell_t / \partial \log \pi_t = -\min(w_t, c) A_t$ inside, 0 outside. The
 *          region depends on the probability itself, not only on the ratio.
 * When     if a clip of ratios is too tight for rare tokens and too loose for frequent ones: the
 *          bound is on probabilities.
 * Used by  arXiv:2602.04879; verl `loss_mode` `dppo_tv` and `dppo_kl`
 * Shapes   see `TokenTerms`.
 * Errors   throws RangeError for bounds that are not positive.
 * Source   Qi et al. 2026, "Divergence Proximal Policy Optimization", arXiv:2602.04879; verl
 *          `dppo_tv` and `dppo_kl`.
 *
 * @example
 * dppo({ divergence: 'kl' }).name // 'dppo'
 */
export const dppo = (options: DPPOOptions = {}): TokenObjective => {
  checkOptions('dppo', options, DPPO_OPTIONS)
  const { divergence = 'tv', largestRatio = 20 } = options
  const epsilon = options.epsilon ?? (divergence === 'tv' ? 0.2 : 0.05)
  const [low, high] = typeof epsilon === 'number' ? [epsilon, epsilon] : epsilon
  if (!(low > 0 && high > 0 && largestRatio > 0 && Number.isFinite(low + high)))
    throw new RangeError(`dppo: epsilon and largestRatio must be positive, got ${low}, ${high} and ${largestRatio}`)
  return {
    name: 'dppo',
    module: import.meta.url,
    options: { ...options },
    aggregation: null,
    noise: 'none',
    apply: ofAdvantage(({ logProbs, oldLogProbs, logRatio, advantages, mask }) => {
      const gains = tf.greater(advantages, 0)
      const move = tf.sub(tf.exp(logProbs), tf.exp(oldLogProbs))
      const like = (value: number): tf.Tensor => tf.mul(tf.onesLike(move), value)
      const bound = tf.where(gains, like(high), like(low))
      const onward = tf.where(gains, move, tf.neg(move))
      const isInside =
        divergence === 'tv'
          ? tf.lessEqual(onward, bound)
          : tf.logicalOr(tf.lessEqual(onward, 0), tf.lessEqual(binaryKL(oldLogProbs, logProbs), bound))
      const inside = stopGradient(tf.cast(isInside, 'float32'))
      const weight = stopGradient(tf.minimum(tf.exp(limited(logRatio)), largestRatio))
      const left = tf.mul(tf.sub(1, inside), mask)
      return {
        losses: tf.neg(tf.mul(tf.mul(tf.mul(advantages, weight), logProbs), inside)),
        outside: left,
        cut: left,
      }
    }),
  }
}
