import { checkOptions } from '@tandem-rl/base'
import { stopGradient } from '@tandem-rl/tfjs-onnxruntime'
import * as tf from '@tensorflow/tfjs-core'
import { masked } from '../../data/tensorDict/masked.js'
import { VESPO_OPTIONS, VESPO_WEIGHT_OPTIONS } from '../optionKinds.js'
import { limited, ofAdvantage, type TokenObjective } from './tokenObjective.js'

/** The parameters of `phi(w) = w^power e^(decay (1 - w))`. */
export type GammaWeight = {
  readonly power: number
  readonly decay: number
}

export interface VESPOOptions {
  /** The weight for tokens whose advantage is not negative. Default power 2, decay 3. */
  readonly positive?: GammaWeight
  /** The weight for tokens with a negative advantage. Default power 3, decay 2. */
  readonly negative?: GammaWeight
}

/** `log 1e-8`, the smallest log-ratio of a completion. */
const SMALLEST_LOG = Math.log(1e-8)
const LARGEST_LOG = 20

/**
 * Implements the objective of VESPO: `l = -sg(phi(s)) A log pi` with the ratio of the whole
 * completion, `s = exp(sum_t log w_t)`, and `phi(s) = s^k e^(d (1 - s))`, which is 1 at `s = 1`,
 * and falls on both sides of `k / d`. Nothing is clipped.
 *
 * Equation $\ell_t = -\operatorname{sg}(\phi(s)) A_t \log \pi_t$ with $s = \exp(\sum_t \log w_t)$
 *          and $\phi(s) = s^k e^{d (1 - s)}$
 * Gradient $\partial \ell_t / \partial \log \pi_t = -\phi(s) A_t$ for every token of the completion
 * When     for very old batches: the ratio of the whole completion counts, and its weight falls
 *          smoothly to 0 on both sides.
 * Used by  arXiv:2602.10693; TRL `loss_type="vespo"`
 * Shapes   see `TokenTerms`. The gradient of a token is `-phi(s) A`.
 * Errors   throws RangeError for a power that is negative or a decay that is not positive.
 * Source   "VESPO: Variational Sequence-Level Soft Policy Optimization" 2026, arXiv:2602.10693; the
 *          limits are TRL's (`loss_type="vespo"`).
 *
 * @example
 * vespo().name // 'vespo'
 */
export const vespo = (options: VESPOOptions = {}): TokenObjective => {
  checkOptions('vespo', options, VESPO_OPTIONS)
  const { positive = { power: 2, decay: 3 }, negative = { power: 3, decay: 2 } } = options
  for (const weight of [positive, negative]) {
    checkOptions('vespo', weight, VESPO_WEIGHT_OPTIONS)
    const { power, decay } = weight
    if (!(power >= 0 && decay > 0 && Number.isFinite(power + decay)))
      throw new RangeError(`vespo: powers must not be negative and decays positive, got ${power} and ${decay}`)
  }
  return {
    name: 'vespo',
    module: import.meta.url,
    options: { ...options },
    aggregation: null,
    noise: 'none',
    apply: ofAdvantage(({ logProbs, logRatio, advantages, mask }) => {
      const whole = tf.sum(masked(limited(logRatio), mask), -1, true)
      const logS = tf.add(tf.clipByValue(whole, SMALLEST_LOG, LARGEST_LOG), tf.mul(whole, 0))
      const gained = tf.greaterEqual(advantages, 0)
      const choose = (name: keyof GammaWeight): tf.Tensor =>
        tf.where(
          gained,
          tf.mul(tf.onesLike(advantages), positive[name]),
          tf.mul(tf.onesLike(advantages), negative[name]),
        )
      const logPhi = tf.add(tf.mul(choose('power'), logS), tf.mul(choose('decay'), tf.sub(1, tf.exp(logS))))
      const phi = stopGradient(tf.exp(logPhi))
      return {
        losses: tf.neg(tf.mul(tf.mul(phi, advantages), logProbs)),
        outside: tf.zerosLike(mask),
        cut: tf.zerosLike(mask),
      }
    }),
  }
}
