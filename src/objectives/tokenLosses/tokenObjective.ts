/** The interface of policy objectives: a loss for each token. */
import type { Json, ModuleExport } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import type { Aggregation } from './aggregation.js'

/**
 * The input of an objective. Axes: B completions, T tokens; all `[B, T]` and float32.
 * Log-probabilities are in nats. All values are 0 where the mask is 0.
 */
export interface TokenTerms {
  /** Under the trained policy; receives the gradient. */
  readonly logProbs: tf.Tensor
  /** Under the policy in the denominator of the ratio. */
  readonly oldLogProbs: tf.Tensor
  /** `logProbs - oldLogProbs`, not limited. */
  readonly logRatio: tf.Tensor
  readonly advantages: tf.Tensor
  readonly mask: tf.Tensor
  /** The number of unmasked tokens, a scalar. */
  readonly tokens: tf.Tensor
  /** Uniform numbers in [0, 1), for objectives that choose tokens at random. */
  readonly noise?: tf.Tensor
  /**
   * 1 for the tokens that `choose` chose in the whole mini-batch, if these terms are a part of it.
   */
  readonly chosen?: tf.Tensor
}

/** The loss of each token, with the effect of clipping. All `[B, T]`. */
export interface TokenLosses {
  readonly losses: tf.Tensor
  /** 1 where the ratio is outside of the objective's range, else 0. */
  readonly outside: tf.Tensor
  /** 1 where clipping removed the gradient, else 0. */
  readonly cut: tf.Tensor
}

/** Computes the loss of each token. */
export interface TokenLossFunction {
  (terms: TokenTerms): TokenLosses
  /**
   * `none` if completions whose advantages are all 0 get no gradient: then only their loss is
   * computed. See `ofAdvantage`.
   */
  readonly atZeroAdvantage?: 'none'
}

/** An objective with validated settings. */
export interface TokenObjective {
  readonly name: string
  /** The settings of the objective. Runs store them. */
  readonly options?: Json
  /**
   * `import.meta.url` of the module that exports the objective under its name, or a function of
   * `options` that returns it. Required for more than one thread.
   */
  readonly module?: string | ModuleExport
  /** The only supported aggregation; null if all are supported. */
  readonly aggregation: Aggregation | null
  /** `uniform` if it chooses tokens at random: then `TokenTerms.noise` is present. */
  readonly noise: 'none' | 'uniform'
  /**
   * Returns the tokens that are treated differently, `[B, T]`, for objectives that choose a share
   * of them. No gradient flows through it. Without `TokenTerms.chosen`, `apply` chooses among its
   * own tokens.
   */
  readonly choose?: (terms: TokenTerms) => tf.Tensor
  readonly apply: TokenLossFunction
}

/**
 * Marks a loss function whose every term has the advantage as a factor. A copy of an objective with
 * another function has no mark.
 */
export const ofAdvantage = (apply: (terms: TokenTerms) => TokenLosses): TokenLossFunction =>
  Object.assign((terms: TokenTerms) => apply(terms), { atZeroAdvantage: 'none' as const })

const LARGEST = 20

/**
 * Limits log-ratios to 20 nats, so that no ratio is above 5e8. Infinite values and NaN become NaN,
 * because they are an error of the batch, not a distant token.
 *
 * Source   verl's policy losses, which limit infinities too.
 */
export const limited = (logRatio: tf.Tensor): tf.Tensor =>
  tf.add(tf.clipByValue(logRatio, -LARGEST, LARGEST), tf.mul(logRatio, 0))
