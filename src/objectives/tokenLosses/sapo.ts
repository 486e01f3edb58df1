import { checkOptions } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import { SAPO_OPTIONS } from '../optionKinds.js'
import { limited, ofAdvantage, type TokenObjective } from './tokenObjective.js'

export interface SAPOOptions {
  /** Sharpness of the gate for positive advantages. Default 1. */
  readonly positive?: number
  /** Sharpness of the gate for other advantages. Default 1.05: their gradient fades sooner. */
  readonly negative?: number
}

/**
 * Implements the objective of SAPO: a soft gate instead of a clip. It is `l = -A (4 / tau)
 * sigmoid(tau (w - 1))`; near `w = 1` its gradient is that of `-w A`, and it fades as the ratio
 * moves away.
 *
 * Equation $\ell_t = -A_t \frac{4}{\tau} \sigma(\tau (w_t - 1))$, $\tau = \tau_+$ where $A_t > 0$,
 *          else $\tau_-$
 * Gradient $\partial \ell_t / \partial \log \pi_t = -4 w_t A_t \, \sigma(x) (1 - \sigma(x))$ with
 * $x = \tau (w_t - 1)$: $-A_t$ at ratio 1, fading
 *          on both sides
 * When     if the edge of a clip range makes training unstable. Not if a strict bound is required.
 * Used by  Qwen3-VL (arXiv:2511.20347); verl `loss_mode=sapo`; TRL `loss_type="sapo"`
 * Shapes   see `TokenTerms`.
 * Errors   throws RangeError for a sharpness that is not positive.
 * Source   Gao et al. 2025, "Soft Adaptive Policy Optimization", arXiv:2511.20347; verl `sapo`.
 *
 * @example
 * sapo().aggregation // 'seq-mean-token-mean'
 */
export const sapo = (options: SAPOOptions = {}): TokenObjective => {
  checkOptions('sapo', options, SAPO_OPTIONS)
  const { positive = 1, negative = 1.05 } = options
  const wrong = [positive, negative].find((tau) => !(tau > 0 && Number.isFinite(tau)))
  if (wrong !== undefined) throw new RangeError(`sapo: sharpness must be positive, got ${wrong}`)
  return {
    name: 'sapo',
    module: import.meta.url,
    options: { ...options },
    aggregation: 'seq-mean-token-mean',
    noise: 'none',
    apply: ofAdvantage(({ logRatio, advantages }) => {
      const isPositive = tf.greater(advantages, 0)
      const like = (value: number): tf.Tensor => tf.mul(tf.onesLike(advantages), value)
      const tau = tf.where(isPositive, like(positive), like(negative))
      const gate = tf.sigmoid(tf.mul(tau, tf.sub(tf.exp(limited(logRatio)), 1)))
      return {
        losses: tf.neg(tf.mul(advantages, tf.div(tf.mul(gate, 4), tau))),
        outside: tf.zerosLike(logRatio),
        cut: tf.zerosLike(logRatio),
      }
    }),
  }
}
