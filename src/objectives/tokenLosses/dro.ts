import { checkOptions } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import { DRO_OPTIONS } from '../optionKinds.js'
import type { TokenObjective } from './tokenObjective.js'

export interface DROOptions {
  /** Strength of the pull to the old policy. Default 0.5. */
  readonly beta?: number
}

/**
 * Implements the objective of DRO, by tokens: `l = -(A log pi - beta / 2 (log pi - log pi_old)^2)`.
 * Its gradient is `-(A - beta log w)`, without an exponential of the ratio.
 *
 * Equation $\ell_t = -A_t \log \pi_t + \frac{\beta}{2} (\log w_t)^2$
 * Gradient $\partial \ell_t / \partial \log \pi_t = -(A_t - \beta \log w_t)$
 * When     for batches of any age: no ratio is exponentiated. The gradient of a token is 0 at $\log
 *          w_t = A_t / \beta$.
 * Used by  arXiv:2405.19107; verl `loss_mode=dro`
 * Shapes   see `TokenTerms`.
 * Errors   throws RangeError for a beta that is not positive.
 * Source   Richemond et al. 2024, "Offline Regularised Reinforcement Learning", arXiv:2405.19107,
 *          equation 6; verl `dro`.
 *
 * @example
 * dro({ beta: 0.1 }).name // 'dro'
 */
export const dro = (options: DROOptions = {}): TokenObjective => {
  checkOptions('dro', options, DRO_OPTIONS)
  const { beta = 0.5 } = options
  if (!(beta > 0 && Number.isFinite(beta))) throw new RangeError(`dro: beta must be positive, got ${beta}`)
  return {
    name: 'dro',
    module: import.meta.url,
    options: { ...options },
    aggregation: null,
    noise: 'none',
    apply: ({ logProbs, logRatio, advantages }) => ({
      losses: tf.sub(tf.mul(tf.square(logRatio), beta / 2), tf.mul(logProbs, advantages)),
      outside: tf.zerosLike(logRatio),
      cut: tf.zerosLike(logRatio),
    }),
  }
}
