import { checkOptions } from '@tandem-rl/base'
import { stopGradient } from '@tandem-rl/tfjs-onnxruntime'
import * as tf from '@tensorflow/tfjs-core'
import { CISPO_OPTIONS } from '../optionKinds.js'
import { type ClipEpsilon, clipRange } from './clipRange.js'
import { limited, ofAdvantage, type TokenObjective } from './tokenObjective.js'

export interface CISPOOptions {
  /** Default 0.2. A low side of 1 means no lower bound. */
  readonly clipEpsilon?: ClipEpsilon
}

/** A value below every limited log-ratio. */
const SMALLEST_LOG = -100

/**
 * Implements the objective of CISPO: `l = -sg(clip(w, 1 - low, 1 + high)) A log pi`. The weight is
 * clipped, and no token loses its gradient, `-clip(w) A`.
 *
 * Equation $\ell_t = -\operatorname{sg}(\operatorname{clip}(w_t, 1 - \epsilon_l, 1 + \epsilon_h))
 *          A_t \log \pi_t$
 * Gradient $\partial \ell_t / \partial \log \pi_t = -\operatorname{clip}(w_t, 1 - \epsilon_l, 1 +
 * \epsilon_h) A_t$: bounded, and never 0
 * When     if rare tokens that begin a reflection must keep their gradient over many updates of a
 *          batch. The low side is usually open: `[1, 4]`.
 * Used by  MiniMax-M1 (arXiv:2506.13585); verl `loss_mode=cispo`; TRL `loss_type="cispo"`; TorchRL
 *          `CISPOLoss`, which is another function
 * Shapes   see `TokenTerms`.
 * Errors   throws RangeError for an invalid clip range.
 * Source   MiniMax 2025, arXiv:2506.13585, equation 4. TorchRL's `CISPOLoss` differentiates through
 *          the clipped weight instead, so its value and its gradient differ.
 *
 * @example
 * cispo({ clipEpsilon: [1, 4] }).name // 'cispo'
 */
export const cispo = (options: CISPOOptions = {}): TokenObjective => {
  checkOptions('cispo', options, CISPO_OPTIONS)
  const { clipEpsilon = 0.2 } = options
  const [low, high] = typeof clipEpsilon === 'number' ? [clipEpsilon, clipEpsilon] : clipEpsilon
  clipRange('cispo', [low === 1 ? 0 : low, high])
  return {
    name: 'cispo',
    module: import.meta.url,
    options: { ...options },
    aggregation: null,
    noise: 'none',
    apply: ofAdvantage(({ logProbs, logRatio: unlimited, advantages, mask }) => {
      const logRatio = limited(unlimited)
      const near = tf.clipByValue(logRatio, Math.max(Math.log1p(-low), SMALLEST_LOG), Math.log1p(high))
      return {
        losses: tf.neg(tf.mul(tf.mul(stopGradient(tf.exp(near)), advantages), logProbs)),
        outside: tf.mul(tf.cast(tf.notEqual(logRatio, near), 'float32'), mask),
        cut: tf.zerosLike(mask),
      }
    }),
  }
}
