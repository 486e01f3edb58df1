import { checkOptions } from '@tandem-rl/base'
import { stopGradient } from '@tandem-rl/tfjs-onnxruntime'
import * as tf from '@tensorflow/tfjs-core'
import { CLIPPED_SURROGATE_OPTIONS } from '../optionKinds.js'
import { type ClipEpsilon, clipRange } from './clipRange.js'
import { limited, ofAdvantage, type TokenObjective } from './tokenObjective.js'

export interface ClippedSurrogateOptions {
  /** Default 0.2. Two numbers are DAPO's clip-higher. */
  readonly clipEpsilon?: ClipEpsilon
  /**
   * Limits the loss of a token with a negative advantage to this many times `-A`. Must be above 1.
   * Default: no limit.
   */
  readonly dualClip?: number
}

/**
 * Implements the objective of PPO and GRPO.
 *
 * Per token, with the ratio `w = pi / pi_old`: `l = max(-w A, -clip(w, 1 - low, 1 + high) A)`; with
 * `dualClip` c, where `A < 0`: `min(l, -c A)`. The gradient is `-w A` where `l` is the unclipped
 * term, else 0.
 *
 * Equation $\ell_t = \max(-w_t A_t, -\operatorname{clip}(w_t, 1 - \epsilon_l, 1 + \epsilon_h)
 *          A_t)$; with a dual clip c, where $A_t < 0$: $\min(\ell_t, -c A_t)$
 * Gradient $\partial \ell_t / \partial \log \pi_t = -w_t A_t$; 0 where $A_t > 0$ and
 * $w_t > 1 + \epsilon_h$, where $A_t < 0$ and
 *          $w_t < 1 - \epsilon_l$, and beyond the dual clip
 * When     the first choice, for several updates on one batch. Not if rare tokens matter that one
 *          update moves out of the range: they get no further gradient (`cispo`, `sapo`).
 * Used by  PPO, GRPO (DeepSeek-R1, arXiv:2501.12948), DAPO with `[0.2, 0.28]`, Dr. GRPO; verl
 *          `loss_mode=vanilla` with `clip_ratio_low`, `clip_ratio_high`, `clip_ratio_c`; TRL
 *          `loss_type` `grpo`, `bnpo`, `dapo`, `dr_grpo` with `epsilon`, `epsilon_high`, `delta`;
 *          TorchRL `GRPOLoss`, `DAPO`
 * Shapes   see `TokenTerms`.
 * Errors   throws RangeError for an invalid clip range, and for a dual clip that is not above 1.
 * Source   Schulman et al. 2017, arXiv:1707.06347, equation 7; asymmetric range: Yu et al. 2025,
 *          arXiv:2503.14476 (DAPO), section 3.1; dual clip: Ye et al. 2020, arXiv:1912.09729,
 *          equation 5.
 *
 * @example
 * clippedSurrogate({ clipEpsilon: [0.2, 0.28] }).name // 'clippedSurrogate'
 */
export const clippedSurrogate = (options: ClippedSurrogateOptions = {}): TokenObjective => {
  checkOptions('clippedSurrogate', options, CLIPPED_SURROGATE_OPTIONS)
  const { clipEpsilon = 0.2, dualClip } = options
  const [low, high] = clipRange('clippedSurrogate', clipEpsilon)
  if (dualClip !== undefined && !(dualClip > 1 && Number.isFinite(dualClip)))
    throw new RangeError(`clippedSurrogate: dualClip must be above 1, got ${dualClip}`)
  const [logLow, logHigh] = [Math.log1p(-low), Math.log1p(high)]
  return {
    name: 'clippedSurrogate',
    module: import.meta.url,
    options: { ...options },
    aggregation: null,
    noise: 'none',
    apply: ofAdvantage(({ logRatio: unlimited, advantages, mask }) => {
      const logRatio = limited(unlimited)
      const near = tf.clipByValue(logRatio, logLow, logHigh)
      const free = tf.mul(tf.exp(logRatio), advantages)
      const clipped = tf.mul(tf.exp(near), advantages)
      const single = tf.neg(tf.minimum(free, clipped))
      const byRange = stopGradient(tf.cast(tf.less(clipped, free), 'float32'))
      const outside = tf.mul(tf.cast(tf.notEqual(logRatio, near), 'float32'), mask)
      if (dualClip === undefined) return { losses: single, outside, cut: tf.mul(byRange, mask) }
      const limit = tf.mul(advantages, -dualClip)
      const isNegative = tf.less(advantages, 0)
      const byLimit = stopGradient(
        tf.mul(tf.cast(isNegative, 'float32'), tf.cast(tf.greater(single, limit), 'float32')),
      )
      return {
        losses: tf.where(isNegative, tf.minimum(single, limit), single),
        outside,
        cut: tf.mul(tf.maximum(byRange, byLimit), mask),
      }
    }),
  }
}
