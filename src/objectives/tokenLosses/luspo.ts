import { checkOptions } from '../../core/options.js'
import { GSPO_OPTIONS, type GSPOOptions, gspo } from './gspo.js'
import type { TokenObjective } from './tokenObjective.js'

/**
 * The objective of LUSPO: that of GSPO, summed over a completion's tokens instead of averaged, so that a long completion does not count
 * less for each of its tokens.
 *
 * Equation as `gspo`, $L = \frac{1}{S} \sum_i \sum_t \ell_{i,t}$ in place of the mean over tokens
 * Gradient $-s A$ for each token of a completion, before the mean over completions; 0 for all of them where the range cuts
 * When     instead of `gspo` where completions of very different lengths are compared and long ones should not count less by token.
 * Used by  arXiv:2602.05261; TRL `loss_type="luspo"`
 * Shapes   see `TokenTerms`.
 * Errors   throws RangeError for a clip range that makes no sense.
 * Source   "Length-Unbiased Sequence Policy Optimization" 2026, arXiv:2602.05261; TRL `loss_type="luspo"` by sequences.
 *
 * @example
 * luspo().aggregation // 'seq-mean-token-sum'
 */
export const luspo = (options: GSPOOptions = {}): TokenObjective => {
  checkOptions('luspo', options, GSPO_OPTIONS)
  return { ...gspo(options), name: 'luspo', aggregation: 'seq-mean-token-sum' }
}
