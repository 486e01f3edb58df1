import { checkOptions } from '@tandem-rl/base'
import { stopGradient } from '@tandem-rl/tfjs-onnxruntime'
import * as tf from '@tensorflow/tfjs-core'
import { maskedRowMean } from '../../data/tensorDict/masked.js'
import { GSPO_OPTIONS } from '../optionKinds.js'
import { type ClipEpsilon, clipRange } from './clipRange.js'
import { ofAdvantage, type TokenObjective } from './tokenObjective.js'

export interface GSPOOptions {
  /** The clip range. Ratios of sequences stay near 1. Default `[3e-4, 4e-4]`, as in the paper. */
  readonly clipEpsilon?: ClipEpsilon
  /**
   * `sequence`: the ratio has the gradient of the mean. `token`: each token has its own, so that
   * advantages may differ within a completion.
   */
  readonly form?: 'sequence' | 'token'
}

/** The limit of the log-ratio of a sequence: no ratio is above `e^10`. */
const LARGEST_LOG = 10

/**
 * Implements the objective of GSPO: one ratio for a completion, `s = exp(mean_t (log pi - log
 * pi_old))`, and `l = max(-s A, -clip(s, 1 - low, 1 + high) A)` for each of its tokens. In the
 * token form, `s_t = sg(s) pi / sg(pi)`: the same values, and the same gradient if the advantage is
 * the same for all tokens.
 *
 * Equation $\ell_t = \max(-s A_t, -\operatorname{clip}(s, 1 - \epsilon_l, 1 + \epsilon_h) A_t)$
 *          with $s = \exp(\operatorname{mean}_t(\log \pi_t - \log \pi_t^{old}))$
 * Gradient of the mean over the T tokens of a completion with one advantage: $-s A / T$ for each of
 *          them; 0 for all of them if the ratio is clipped
 * When     if ratios of tokens are noisy: mixtures of experts, long completions. Needs a range a
 *          thousand times narrower than that of tokens.
 * Used by  Qwen3 after the first release (arXiv:2507.18071, abstract); verl `loss_mode=gspo`; TRL
 *          `importance_sampling_level="sequence"`, for the form of tokens `"sequence_token"`
 * Shapes   see `TokenTerms`.
 * Errors   throws RangeError for an invalid clip range.
 * Source   Zheng et al. 2025, arXiv:2507.18071, equations 5 to 7 and 13; the limit is verl's.
 *
 * @example
 * gspo().aggregation // 'seq-mean-token-mean'
 */
export const gspo = (options: GSPOOptions = {}): TokenObjective => {
  checkOptions('gspo', options, GSPO_OPTIONS)
  const { clipEpsilon = [3e-4, 4e-4], form = 'sequence' } = options
  const [low, high] = clipRange('gspo', clipEpsilon)
  return {
    name: 'gspo',
    module: import.meta.url,
    options: { ...options },
    aggregation: 'seq-mean-token-mean',
    noise: 'none',
    apply: ofAdvantage(({ logProbs, logRatio, advantages, mask }) => {
      const mean = tf.expandDims(maskedRowMean(logRatio, mask), 1)
      const own =
        form === 'sequence'
          ? tf.add(mean, tf.zerosLike(logRatio))
          : tf.add(tf.sub(logProbs, stopGradient(logProbs)), stopGradient(mean))
      // Infinite values become NaN, as in `limited`: a ratio of 0 would hide an invalid batch.
      const logSequence = tf.add(tf.minimum(own, LARGEST_LOG), tf.mul(own, 0))
      const near = tf.clipByValue(logSequence, Math.log1p(-low), Math.log1p(high))
      const free = tf.mul(tf.exp(logSequence), advantages)
      const clipped = tf.mul(tf.exp(near), advantages)
      return {
        losses: tf.neg(tf.minimum(free, clipped)),
        outside: tf.mul(tf.cast(tf.notEqual(logSequence, near), 'float32'), mask),
        cut: tf.mul(tf.cast(tf.less(clipped, free), 'float32'), mask),
      }
    }),
  }
}
