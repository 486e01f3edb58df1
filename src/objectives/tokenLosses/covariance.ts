/**
 * Objectives that restrain the few tokens that change the entropy most: those with both a large
 * advantage and a large log-probability.
 */
import { checkOptions } from '@tandem-rl/base'
import { stopGradient } from '@tandem-rl/tfjs-onnxruntime'
import * as tf from '@tensorflow/tfjs-core'
import { maskedMean } from '../../data/tensorDict/masked.js'
import { CLIP_COV_OPTIONS, KL_COV_OPTIONS } from '../optionKinds.js'
import { type ClippedSurrogateOptions, clippedSurrogate } from './clippedSurrogate.js'
import { absolute } from './klForms.js'
import { limited, type TokenObjective, type TokenTerms } from './tokenObjective.js'

/**
 * Computes `(A - mean A) (log pi - mean log pi)` of each unmasked token. No gradient flows through
 * it.
 */
const covariance = ({ logProbs, advantages, mask }: TokenTerms): tf.Tensor => {
  const centered = (x: tf.Tensor): tf.Tensor => tf.sub(x, maskedMean(x, mask))
  return stopGradient(tf.mul(tf.mul(centered(advantages), centered(logProbs)), mask))
}

const LOWEST = -3e38

/**
 * Returns 1 for the `max(1, floor(share * N))` candidates with the largest scores, or for all if
 * there are fewer; N is the number of unmasked tokens. Candidates that tie with the last one are
 * all chosen.
 */
const largestShare = (scores: tf.Tensor, candidates: tf.Tensor, count: tf.Tensor): tf.Tensor => {
  const flat = tf.reshape(tf.where(tf.greater(candidates, 0), scores, tf.mul(tf.onesLike(scores), LOWEST)), [-1])
  const { values } = tf.topk(flat, flat.size, true)
  const border = tf.gather(values, tf.cast(tf.sub(count, 1), 'int32'))
  return stopGradient(tf.mul(tf.cast(tf.greaterEqual(scores, border), 'float32'), candidates))
}

const countOf = (share: number, tokens: tf.Tensor): tf.Tensor =>
  tf.maximum(tf.floor(tf.add(tf.mul(tokens, share), 1e-4)), 1)

const checkShare = (name: string, share: number): void => {
  if (!(share > 0 && share <= 1)) throw new RangeError(`${name}: share must be above 0 and at most 1, got ${share}`)
}

export interface ClipCovOptions extends ClippedSurrogateOptions {
  /** Share of the tokens that are clipped. Default 0.0002. */
  readonly share?: number
  /** Bounds of the covariance of candidates. Default `[1, 5]`. */
  readonly bounds?: readonly [low: number, high: number]
}

/**
 * Implements Clip-Cov: `clippedSurrogate`, except that a random share of the unclipped tokens with
 * a large covariance gets no loss. Needs `noise`.
 *
 * Equation $\ell_t$ of `clippedSurrogate`, and 0 for a random share of the tokens with
 *          $b_l < (A_t - \bar A)(\log \pi_t - \overline{\log \pi}) < b_h$
 * Gradient $-w_t A_t$; 0 where the range cuts, and for the tokens that were drawn
 * When     if the entropy collapses early: the few tokens with a large covariance cause most of it.
 * Used by  arXiv:2505.22617; verl `loss_mode=clip_cov`
 * Shapes   see `TokenTerms`. Means and the share are of the given tokens, or of the mini-batch that
 *          `chosen` is from.
 * Errors   throws RangeError for an invalid share or invalid bounds.
 * Source   Cui et al. 2025, "The Entropy Mechanism", arXiv:2505.22617, equations 11 and 12; verl
 *          `clip_cov`.
 *
 * @example
 * clipCov({ share: 0.01 }).noise // 'uniform'
 */
export const clipCov = (options: ClipCovOptions = {}): TokenObjective => {
  checkOptions('clipCov', options, CLIP_COV_OPTIONS)
  const { share = 0.0002, bounds = [1, 5], ...clip } = options
  checkShare('clipCov', share)
  if (!(bounds[0] < bounds[1])) throw new RangeError(`clipCov: bounds must be in order, got ${bounds.join(', ')}`)
  const surrogate = clippedSurrogate(clip)
  const choose = (terms: TokenTerms, cut: tf.Tensor): tf.Tensor => {
    const size = covariance(terms)
    const isBetween = tf.logicalAnd(tf.greater(size, bounds[0]), tf.less(size, bounds[1]))
    const candidates = tf.mul(tf.mul(tf.cast(isBetween, 'float32'), tf.sub(1, cut)), terms.mask)
    return largestShare(terms.noise!, candidates, countOf(share, terms.tokens)) // present, because `noise` is 'uniform'
  }
  return {
    name: 'clipCov',
    module: import.meta.url,
    options: { ...options },
    aggregation: null,
    noise: 'uniform',
    choose: (terms) => choose(terms, surrogate.apply(terms).cut),
    apply: (terms) => {
      const { losses, outside, cut } = surrogate.apply(terms)
      const held = terms.chosen ?? choose(terms, cut)
      return { losses: tf.mul(losses, tf.sub(1, held)), outside, cut: tf.add(cut, held) }
    },
  }
}

export interface KLCovOptions {
  /** Share of the tokens that are penalized. Default 0.0002. */
  readonly share?: number
  /** Weight of `|log w|` for those tokens. Default 1. */
  readonly coefficient?: number
}

/**
 * Implements KL-Cov: `l = -w A`, plus `coefficient * |log w|` for the share of tokens with the
 * largest covariance.
 *
 * Equation $\ell_t = -w_t A_t + c \, h_t |\log w_t|$ with $h_t = 1$ for the share of tokens with
 *          the largest $(A_t - \bar A)(\log \pi_t - \overline{\log \pi})$, else 0
 * Gradient $\partial \ell_t / \partial \log \pi_t = -w_t A_t + c \, h_t \operatorname{sgn} \log
 * w_t$
 * When     as `clipCov`, but gentler: tokens are pulled back to the old policy and still learn.
 * Used by  arXiv:2505.22617; verl `loss_mode=kl_cov`
 * Shapes   see `TokenTerms`. Means and the share are of the given tokens, or of the mini-batch that
 *          `chosen` is from.
 * Errors   throws RangeError for an invalid share or coefficient.
 * Source   Cui et al. 2025, arXiv:2505.22617, equations 13 and 14; verl `kl_cov`.
 *
 * @example
 * klCov().aggregation // null
 */
export const klCov = (options: KLCovOptions = {}): TokenObjective => {
  checkOptions('klCov', options, KL_COV_OPTIONS)
  const { share = 0.0002, coefficient = 1 } = options
  checkShare('klCov', share)
  if (!(coefficient >= 0 && Number.isFinite(coefficient)))
    throw new RangeError(`klCov: coefficient must not be negative, got ${coefficient}`)
  const choose = (terms: TokenTerms): tf.Tensor =>
    largestShare(covariance(terms), terms.mask, countOf(share, terms.tokens))
  return {
    name: 'klCov',
    module: import.meta.url,
    options: { ...options },
    aggregation: null,
    noise: 'none',
    choose,
    apply: (terms) => {
      const { logRatio, advantages, mask } = terms
      const held = terms.chosen ?? choose(terms)
      const penalty = tf.mul(absolute(logRatio), tf.mul(held, coefficient))
      return {
        losses: tf.sub(penalty, tf.mul(tf.exp(limited(logRatio)), advantages)),
        outside: tf.zerosLike(mask),
        cut: tf.zerosLike(mask),
      }
    },
  }
}
