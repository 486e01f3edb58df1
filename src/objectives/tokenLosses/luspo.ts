import { checkOptions } from '@tandem-rl/base'
import { LUSPO_OPTIONS } from '../optionKinds.js'
import { type GSPOOptions, gspo } from './gspo.js'
import type { TokenObjective } from './tokenObjective.js'

/**
 * Implements the objective of LUSPO: that of GSPO, summed over a completion's tokens instead of
 * averaged, so that the tokens of a long completion do not count less.
 *
 * Equation as `gspo`, $L = \frac{1}{S} \sum_i \sum_t \ell_{i,t}$ in place of the mean over tokens
 * Gradient $-s A$ for each token of a completion, before the mean over completions; 0 for all of
 *          them if the ratio is clipped
 * When     instead of `gspo` if completions of very different lengths are compared and the tokens
 *          of long ones should not count less.
 * Used by  arXiv:2602.05261; TRL `loss_type="luspo"`
 * Shapes   see `TokenTerms`.
 * Errors   throws RangeError for an invalid clip range.
 * Source   "Length-Unbiased Sequence Policy Optimization" 2026, arXiv:2602.05261; TRL
 *          `loss_type="luspo"` by sequences.
 *
 * @example
 * luspo().aggregation // 'seq-mean-token-sum'
 */
export const luspo = (options: GSPOOptions = {}): TokenObjective => {
  checkOptions('luspo', options, LUSPO_OPTIONS)
  return { ...gspo(options), name: 'luspo', module: import.meta.url, aggregation: 'seq-mean-token-sum' }
}
