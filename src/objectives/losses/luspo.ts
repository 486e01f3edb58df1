import { type GSPOOptions, gspo } from './gspo.js'
import type { TokenObjective } from './tokenObjective.js'

/**
 * The objective of LUSPO: that of GSPO, summed over a completion's tokens instead of averaged, so that a long completion does not count
 * less for each of its tokens.
 *
 * Shapes   see `TokenTerms`.
 * Errors   throws RangeError for a clip range that makes no sense.
 * Source   "Length-Unbiased Sequence Policy Optimization" 2026, arXiv:2602.05261; TRL `loss_type="luspo"` by sequences.
 *
 * @example
 * luspo().aggregation // 'seq-mean-token-sum'
 */
export const luspo = (options: GSPOOptions = {}): TokenObjective => ({
  ...gspo(options),
  name: 'luspo',
  aggregation: 'seq-mean-token-sum',
})
