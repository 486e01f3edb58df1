/** The loss of supervised fine-tuning: learning from given completions. */
import { checkOptions } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import { masked } from '../data/tensorDict/masked.js'
import {
  defineLoss,
  type Loss,
  type LossMetrics,
  type LossOutput,
  type LossTensors,
  type ModelOutputs,
} from './loss.js'
import { type CompletionEntries, completionRows } from './lossRows.js'
import { SFT_LOSS_OPTIONS } from './optionKinds.js'
import { perToken, rowSums, rowsThatCount } from './sequences.js'
import { countsOf, type LossCounts, tokenMean } from './tokenLosses/aggregation.js'
import { klTerm } from './tokenLosses/klForms.js'
import { checkTokenShapes } from './tokenShapes.js'

export interface SFTLossOptions {
  /**
   * `sft`: the negative log-likelihood. `minor_sft`: the same through a sigmoid of the lead over a
   * reference model, so that learned completions have a smaller gradient. Default `sft`.
   */
  readonly lossFunction?: 'sft' | 'minor_sft'
  /** For `minor_sft`: how soon a lead over the reference counts as learned. Default 0.1. */
  readonly beta?: number
  /**
   * With `yes`, the log-probability of a completion is divided by its number of tokens. Default
   * `yes`, and `no` for `token-mean`.
   */
  readonly normalizeBySeqLength?: 'yes' | 'no'
  /**
   * The mean or sum over the completions, or for `sft` the mean over all unmasked tokens, for which
   * no completion is divided by its own number. Default `mean`.
   */
  readonly reduction?: 'mean' | 'sum' | 'token-mean'
  /**
   * Weight of the KL divergence to the reference model (k3), a mean over tokens. Default 0: none.
   */
  readonly klToRefCoefficient?: number
}

/** Axes: B completions, T tokens. All float32; log-probabilities in nats. */
export interface SFTLossInput {
  /** `[B, T]` under the reference model, for `minor_sft` and the KL term. */
  readonly refLogProbs?: tf.Tensor
  /** `[B, T]`: 1 for a token to learn from. */
  readonly mask: tf.Tensor
  /**
   * The divisors, so that micro-batches add up to the whole mini-batch. Default: the counts of this
   * input.
   */
  readonly counts?: LossCounts
}

/** TorchRL's fields, and means over the tokens of the whole mini-batch. */
export interface SFTLossOutput extends LossOutput {
  /** A scalar. */
  readonly lossSft: tf.Tensor
  /** `[B]`: the loss of each completion, not divided by their number. */
  readonly losses: tf.Tensor
  /** Scalars: the mean over the unmasked tokens, and its part of the loss. */
  readonly klToRef?: tf.Tensor
  readonly lossKlToRef?: tf.Tensor
  /** The negative log-likelihood. */
  readonly nll: tf.Tensor
  /** Share of tokens to which the model gives the highest probability. */
  readonly accuracy?: tf.Tensor
  /** The number of unmasked tokens. */
  readonly tokens: tf.Tensor
}

/** Means over the trained tokens, before the update. */
export interface SFTMetrics extends LossMetrics {
  /** Negative log-likelihood of a token, in nats. */
  readonly nll: number
  /**
   * Share of tokens to which the model gives the highest probability, or `null` if a server runs
   * the model.
   */
  readonly accuracy: number | null
  /** k3 estimate, in nats, or `null` without a reference. */
  readonly klToRef: number | null
  readonly tokens: number
}

/** A loss of given completions with validated settings. */
export interface SFTLoss extends Loss<CompletionEntries, SFTMetrics, SFTLossInput> {
  readonly apply: (model: Pick<ModelOutputs, 'logProbs' | 'greedy'>, batch: SFTLossInput) => SFTLossOutput
}

const checked = (options: SFTLossOptions): Required<SFTLossOptions> => {
  checkOptions('SFTLoss', options, SFT_LOSS_OPTIONS)
  const { lossFunction = 'sft', beta = 0.1, klToRefCoefficient = 0 } = options
  if (!(beta > 0 && Number.isFinite(beta))) throw new RangeError(`SFTLoss: beta must be positive, got ${beta}`)
  if (options.beta !== undefined && lossFunction === 'sft')
    throw new RangeError('SFTLoss: beta is a setting of minor_sft, and the loss function is sft')
  if (!(klToRefCoefficient >= 0 && Number.isFinite(klToRefCoefficient)))
    throw new RangeError(`SFTLoss: klToRefCoefficient must not be negative, got ${klToRefCoefficient}`)
  if (klToRefCoefficient !== 0 && lossFunction === 'minor_sft')
    throw new RangeError('SFTLoss: minor_sft measures against the reference itself and has no klToRefCoefficient')
  const { reduction = 'mean' } = options
  const { normalizeBySeqLength = reduction === 'token-mean' ? 'no' : 'yes' } = options
  if (reduction === 'token-mean' && (lossFunction === 'minor_sft' || normalizeBySeqLength === 'yes'))
    throw new RangeError(
      'SFTLoss: token-mean is a reduction of sft, and divides by all tokens, not by those of a completion',
    )
  return { lossFunction, beta, klToRefCoefficient, normalizeBySeqLength, reduction }
}

/**
 * Implements the loss of supervised fine-tuning.
 *
 * With `S = sum_t m log pi`, by default divided by the number of tokens of the completion: `sft` is
 * `-S`, `minor_sft` is `-log sigmoid(beta (S - S_ref))` with the same sum of the reference's
 * log-probabilities. The loss is their mean, or their sum, or `-sum S / N` with all N unmasked
 * tokens. If its coefficient is not 0, the divergence to the reference is added, `k3 = e^d - 1 - d`
 * with `d = log pi_ref - log pi`, as a mean over the unmasked tokens.
 *
 * Equation `sft`: $\ell_i = -S_i$ with $S_i = \frac{1}{L_i} \sum_t m \log \pi_t$; `minor_sft`:
 *          $-\log \sigma(\beta (S_i - S_i^{ref}))$
 * Gradient $\partial \ell_i / \partial \log \pi_t = -1 / L_i$; of `minor_sft`
 * $-\beta \, \sigma(-\beta (S_i - S_i^{ref})) / L_i$
 * When     as the first stage, from good completions. `minor_sft` if they must not be memorized.
 * Used by  TorchRL `SFTLoss`; TRL `SFTTrainer`, which is `token-mean`
 * Shapes   see `SFTLossInput` and `SFTLossOutput`.
 * Errors   throws RangeError for invalid or incompatible settings, for shapes that do not fit (all
 *          named), and for a missing `refLogProbs`.
 * Edges    a completion without unmasked tokens adds 0 and is one of B; masked values have no
 *          effect. A token of probability 0 makes the loss infinite.
 * Source   `token-mean` is the loss of TRL's `SFTTrainer` and of Transformers; the rest TorchRL
 *          `SFTLoss`, which sums the reference over the prompt too, and dilutes the divergence with
 *          the prompt's tokens; minor SFT: Xie et al. 2024, arXiv:2408.10642, equation 9.
 *
 * @example
 * SFTLoss({ lossFunction: 'minor_sft' }).reads.includes('next.refLogProbs.response') // true
 */
export const SFTLoss = (options: SFTLossOptions = {}): SFTLoss => {
  const { lossFunction, beta, klToRefCoefficient, normalizeBySeqLength, reduction } = checked(options)
  const needsReference = lossFunction === 'minor_sft' || klToRefCoefficient !== 0

  const scoreOf = (logProbs: tf.Tensor, mask: tf.Tensor): tf.Tensor => {
    const sums = rowSums(logProbs, mask)
    return normalizeBySeqLength === 'yes' ? perToken(sums, mask) : sums
  }

  const lossesOf = (logProbs: tf.Tensor, { refLogProbs, mask }: SFTLossInput): tf.Tensor => {
    const score = scoreOf(logProbs, mask)
    if (lossFunction === 'sft') return tf.neg(score)
    const lead = tf.sub(score, scoreOf(refLogProbs!, mask)) // checked by `apply`
    return tf.mul(tf.softplus(tf.mul(lead, -beta)), rowsThatCount(mask)) // -log sigmoid(beta lead)
  }

  const reduced = (losses: tf.Tensor, { tokens, completions }: LossCounts): tf.Tensor => {
    const total = tf.sum(losses)
    return reduction === 'sum' ? total : tf.div(total, tf.maximum(reduction === 'mean' ? completions : tokens, 1))
  }

  const divergence = (logProbs: tf.Tensor, refLogProbs: tf.Tensor | undefined, counted: LossTensors) => {
    if (refLogProbs === undefined) return {}
    const klToRef = tokenMean(klTerm('k3', masked(tf.sub(logProbs, refLogProbs), counted.mask)), counted)
    return { klToRef, ...(klToRefCoefficient !== 0 && { lossKlToRef: tf.mul(klToRef, klToRefCoefficient) }) }
  }

  const apply: SFTLoss['apply'] = ({ logProbs, greedy }, input) => {
    const { refLogProbs, mask } = input
    checkTokenShapes('SFTLoss', { logProbs, mask, refLogProbs })
    if (needsReference && refLogProbs === undefined) throw new RangeError('SFTLoss: it needs `refLogProbs`')
    const counted = { mask, counts: input.counts ?? countsOf(mask) }
    const losses = lossesOf(logProbs, input)
    return {
      lossSft: reduced(losses, counted.counts),
      losses,
      ...divergence(logProbs, refLogProbs, counted),
      nll: tokenMean(tf.neg(logProbs), counted),
      ...(greedy && { accuracy: tokenMean(greedy, counted) }),
      tokens: tf.sum(mask),
    }
  }

  return {
    ...defineLoss<'refLogProbs', SFTMetrics, SFTLossInput, CompletionEntries>({
      name: 'SFTLoss',
      options,
      module: import.meta.url,
      reads: needsReference ? ['refLogProbs'] : [],
      rows: completionRows(['refLogProbs'], 1),
      apply,
      measures: {
        metrics: ({ sums: { loss, nll, tokens, accuracy = null, klToRef = null }, gradNorm }) => ({
          loss,
          gradNorm,
          nll: nll!,
          tokens: tokens!, // `apply` has them
          accuracy,
          klToRef,
        }),
      },
    }),
    apply,
  }
}
