import * as tf from '@tensorflow/tfjs-core'
import { ofAdvantage, type TokenObjective } from './tokenObjective.js'

/**
 * Implements the objective of REINFORCE, and of GPG: `l = -A log pi`. It has no ratio: use it for
 * batches of the current policy.
 *
 * Equation $\ell_t = -A_t \log \pi_t$
 * Gradient $\partial \ell_t / \partial \log \pi_t = -A_t$, whatever the ratio
 * When     for one update on each batch of the policy itself. Not for old batches: nothing corrects
 *          or limits them.
 * Used by  REINFORCE, RLOO (arXiv:2402.14740), OPO (arXiv:2505.23585), GPG; verl `loss_mode=gpg`
 * Shapes   see `TokenTerms`. The gradient of a token is `-A`.
 * Source   Williams 1992, "Simple statistical gradient-following algorithms", equation 11; GPG: Chu
 *          et al. 2025, arXiv:2504.02546, equation 7.
 *
 * @example
 * policyGradient().name // 'policyGradient'
 */
export const policyGradient = (): TokenObjective => ({
  name: 'policyGradient',
  module: import.meta.url,
  options: {},
  aggregation: null,
  noise: 'none',
  apply: ofAdvantage(({ logProbs, advantages }) => ({
    losses: tf.neg(tf.mul(logProbs, advantages)),
    outside: tf.zerosLike(logProbs),
    cut: tf.zerosLike(logProbs),
  })),
})
