import { checkOptions } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import { maskedRowMean } from '../../data/tensorDict/masked.js'
import { GMPO_OPTIONS } from '../optionKinds.js'
import { limited, ofAdvantage, type TokenObjective } from './tokenObjective.js'

export interface GMPOOptions {
  /**
   * Bounds of the log-ratio of a token, `[low, high]` for `-low .. high`. Default 0.4, as in the
   * paper.
   */
  readonly clipEpsilon?: number | readonly [low: number, high: number]
}

/**
 * Implements the objective of GMPO: the geometric mean of a completion's ratios instead of the
 * arithmetic one. Log-ratios are clipped on the side to which the advantage pushes: `d_t = sgn(A)
 * min(sgn(A) log w, sgn(A) clip(log w, -low, high))`; `l = -mean(A) exp(mean_t d_t)` for each
 * token.
 *
 * Equation $\ell_t = -A \exp(\operatorname{mean}_t d_t)$ with $d_t = \sigma \min(\sigma \log w_t,
 *          \sigma \operatorname{clip}(\log w_t, -\epsilon_l, \epsilon_h))$ and
 *          $\sigma = \operatorname{sgn} A$
 * Gradient of the mean over the T tokens: $-A \exp(\operatorname{mean} d) / T$ for an unclipped
 *          token, 0 for a clipped one
 * When     as `gspo`, but with clipping of single tokens: an outlier moves the geometric mean
 *          little.
 * Used by  arXiv:2507.20673; verl `loss_mode=geo_mean`
 * Shapes   see `TokenTerms`.
 * Errors   throws RangeError for bounds that are negative.
 * Source   Zhao et al. 2025, "Geometric-Mean Policy Optimization", arXiv:2507.20673, equation 4 and
 *          algorithm 1; verl `geo_mean`.
 *
 * @example
 * gmpo().aggregation // 'seq-mean-token-mean'
 */
export const gmpo = (options: GMPOOptions = {}): TokenObjective => {
  checkOptions('gmpo', options, GMPO_OPTIONS)
  const { clipEpsilon = 0.4 } = options
  const [low, high] = typeof clipEpsilon === 'number' ? [clipEpsilon, clipEpsilon] : clipEpsilon
  if (!(low >= 0 && high >= 0 && Number.isFinite(low + high)))
    throw new RangeError(`gmpo: clipEpsilon must not be negative, got ${low} and ${high}`)
  return {
    name: 'gmpo',
    module: import.meta.url,
    options: { ...options },
    aggregation: 'seq-mean-token-mean',
    noise: 'none',
    apply: ofAdvantage(({ logRatio: unlimited, advantages, mask }) => {
      const logRatio = limited(unlimited)
      const near = tf.clipByValue(logRatio, -low, high)
      const sign = tf.sign(advantages)
      const chosen = tf.mul(sign, tf.minimum(tf.mul(sign, logRatio), tf.mul(sign, near)))
      const ratio = tf.expandDims(tf.exp(maskedRowMean(chosen, mask)), 1)
      const advantage = tf.expandDims(maskedRowMean(advantages, mask), 1)
      const isOutside = tf.notEqual(logRatio, near)
      const isCut = tf.less(tf.mul(sign, near), tf.mul(sign, logRatio))
      return {
        losses: tf.mul(tf.neg(tf.mul(ratio, advantage)), mask),
        outside: tf.mul(tf.cast(isOutside, 'float32'), mask),
        cut: tf.mul(tf.cast(isCut, 'float32'), mask),
      }
    }),
  }
}
