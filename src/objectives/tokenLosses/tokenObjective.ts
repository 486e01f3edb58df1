/**
 * The interface of policy objectives: a loss for each token.
 *
 * This folder holds the objectives of policy losses: a loss for each token, its clipping, and its
 * aggregation. It does not hold whole losses with their options (`..`).
 */
import * as tf from '@tensorflow/tfjs-core'
import type { Json } from '../../data/codecs/plainValues.js'
import type { Aggregation } from './aggregation.js'

/**
 * What an objective reads. Axes: B completions, T tokens; all `[B, T]`, float32, in nats where they are log-probabilities, and 0 where the mask
 * is 0, whatever was there.
 */
export interface TokenTerms {
  /** Under the policy that is trained: where the gradient goes. */
  readonly logProbs: tf.Tensor
  /** Under the policy that the ratio is taken against. */
  readonly oldLogProbs: tf.Tensor
  /** `logProbs - oldLogProbs`, not limited. */
  readonly logRatio: tf.Tensor
  readonly advantages: tf.Tensor
  readonly mask: tf.Tensor
  /** Tokens that count, a scalar. */
  readonly tokens: tf.Tensor
  /** Uniform numbers in [0, 1), for objectives that choose tokens at random. */
  readonly noise?: tf.Tensor
  /** 1 for the tokens that `choose` chose in the whole mini-batch, where these terms are a part of it. */
  readonly chosen?: tf.Tensor
}

/** The loss of each token, and what its shape did to it. All `[B, T]`. */
export interface TokenLosses {
  readonly losses: tf.Tensor
  /** 1 where the ratio is outside of the objective's range, else 0. */
  readonly outside: tf.Tensor
  /** 1 where the range took the gradient away, else 0. */
  readonly cut: tf.Tensor
}

/** An objective with its settings checked. */
export interface TokenObjective {
  readonly name: string
  /** The settings that it was made with. Objectives without them cannot be described or computed on other threads. */
  readonly options?: Json
  /** The only aggregation that it makes sense with; null where any does. */
  readonly aggregation: Aggregation | null
  /** `uniform` where it chooses tokens at random: then `TokenTerms.noise` is there. */
  readonly noise: 'none' | 'uniform'
  /**
   * For objectives that treat a share of the tokens in another way: which ones, `[B, T]`. No gradient flows through it. Without `TokenTerms.chosen`
   * `apply` chooses among its own tokens.
   */
  readonly choose?: (terms: TokenTerms) => tf.Tensor
  readonly apply: (terms: TokenTerms) => TokenLosses
}

const LARGEST = 20

/**
 * Log-ratios within 20 nats, so that no ratio is above 5e8. What is infinite or NaN becomes NaN: it is an error of the batch, and no token far
 * away.
 *
 * Source   verl's policy losses, which limit infinities too.
 */
export const limited = (logRatio: tf.Tensor): tf.Tensor =>
  tf.add(tf.clipByValue(logRatio, -LARGEST, LARGEST), tf.mul(logRatio, 0))
