/** The DPO loss: learning from pairs of completions, one of which was preferred. */
import { checkOptions, refuse } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import { defineLoss, type Loss, type LossMetrics, type LossOutput, type ModelOutputs } from './loss.js'
import { PAIRS, type PreferenceBatch, pairRows, sideOf } from './lossRows.js'
import { DPO_LOSS_OPTIONS } from './optionKinds.js'
import { perToken, rowSums } from './sequences.js'
import { countsOf, type LossCounts } from './tokenLosses/aggregation.js'
import { checkTokenShapes } from './tokenShapes.js'

export interface DPOLossOptions {
  /**
   * `sigmoid`: DPO. `ipo`: a squared distance to a fixed lead, which stays bounded if preferences
   * are certain. Default `sigmoid`.
   */
  readonly form?: 'sigmoid' | 'ipo'
  /** Strength of the regularization toward the reference. Default 0.1. */
  readonly beta?: number
  /**
   * For `sigmoid`: the assumed share of pairs with swapped labels, from 0 to below 0.5. Default 0.
   */
  readonly labelSmoothing?: number
  /**
   * `none`: treats the reference as giving all completions the same probability. Default `model`.
   */
  readonly reference?: 'model' | 'none'
  /**
   * With `yes`, log-ratios are divided by the number of tokens of their completion. Default `no`
   * for `sigmoid` and `yes` for `ipo`.
   */
  readonly normalizeBySeqLength?: 'yes' | 'no'
}

/**
 * Interleaved pairs: each chosen completion, followed by the rejected one. Axes: B pairs, T tokens.
 * All float32; log-probabilities in nats.
 */
export interface DPOLossInput {
  /** `[2 B, T]` under the reference model. */
  readonly refLogProbs?: tf.Tensor
  /** `[2 B, T]`: 1 for a token of the completion. */
  readonly mask: tf.Tensor
  /**
   * The divisors, so that micro-batches add up to the whole mini-batch. Default: the counts of this
   * input.
   */
  readonly counts?: LossCounts
}

/**
 * The metrics of TRL, as shares of the means over the pairs of the whole mini-batch. Rewards are
 * `beta` times the log-ratio of a whole completion; they are not meant to be differentiated.
 */
export interface DPOLossOutput extends LossOutput {
  /** A scalar. */
  readonly lossDpo: tf.Tensor
  /** `[B]`: the loss of each pair. */
  readonly losses: tf.Tensor
  /** `[B]`. */
  readonly chosenRewards: tf.Tensor
  readonly rejectedRewards: tf.Tensor
  /** Share of the pairs whose chosen completion has the larger reward, a scalar. */
  readonly accuracy: tf.Tensor
  /** Scalars. */
  readonly chosenReward: tf.Tensor
  readonly rejectedReward: tf.Tensor
  readonly chosenLogProb: tf.Tensor
  readonly rejectedLogProb: tf.Tensor
}

/**
 * Means over the pairs, before the update. Rewards are `beta` times the log-ratio of a whole
 * completion.
 */
export interface DPOMetrics extends LossMetrics {
  readonly chosenReward: number
  readonly rejectedReward: number
  /** Difference of the two rewards. */
  readonly margin: number
  /** Share of pairs whose chosen completion has the higher reward. */
  readonly accuracy: number
  /** Log-probability of a whole completion, in nats. */
  readonly chosenLogProb: number
  readonly rejectedLogProb: number
}

/** A preference loss with validated settings. */
export interface DPOLoss extends Loss<PreferenceBatch, DPOMetrics, DPOLossInput> {
  readonly apply: (model: Pick<ModelOutputs, 'logProbs'>, batch: DPOLossInput) => DPOLossOutput
}

const checked = (options: DPOLossOptions): Required<DPOLossOptions> => {
  checkOptions('dpoLoss', options, DPO_LOSS_OPTIONS)
  const { form = 'sigmoid', beta = 0.1, labelSmoothing = 0, reference = 'model' } = options
  if (!(beta > 0 && Number.isFinite(beta))) throw new RangeError(`dpoLoss: beta must be positive, got ${beta}`)
  if (!(labelSmoothing >= 0 && labelSmoothing < 0.5))
    throw new RangeError(`dpoLoss: labelSmoothing must be from 0 to below 0.5, got ${labelSmoothing}`)
  if (form === 'ipo' && labelSmoothing !== 0)
    throw new RangeError('dpoLoss: labelSmoothing is a setting of sigmoid, and the form is ipo')
  const { normalizeBySeqLength = form === 'ipo' ? 'yes' : 'no' } = options
  return { form, beta, labelSmoothing, reference, normalizeBySeqLength }
}

/** One side of the pairs, `[B, T]`. */
interface Side {
  readonly logProbs: tf.Tensor
  readonly refLogProbs?: tf.Tensor
  readonly mask: tf.Tensor
}

/**
 * Implements direct preference optimization.
 *
 * With `r = sum_t m (log pi - log pi_ref)` of a completion and `h = r_chosen - r_rejected`:
 * `sigmoid` is `-(1 - e) log sigmoid(beta h) - e log sigmoid(-beta h)` with the label smoothing e;
 * `ipo` is `(h - 1 / (2 beta))^2`, with every r divided by its number of tokens. The loss is the
 * mean over pairs. The gradient with respect to h is `-beta (sigmoid(-beta h) - e)`, and `2 (h - 1
 * / (2 beta))`.
 *
 * Equation `sigmoid`: $-(1 - e) \log \sigma(\beta h) - e \log \sigma(-\beta h)$; `ipo`:
 *          $(h - \frac{1}{2 \beta})^2$; with $h = \sum_t \log \frac{\pi}{\pi_{ref}}(chosen) -
 *          \sum_t \log \frac{\pi}{\pi_{ref}}(rejected)$
 * Gradient $\partial \ell / \partial \log \pi_t = -\beta (\sigma(-\beta h) - e)$ for tokens of the
 * chosen completion, its opposite for the rejected
 *          one; `ipo` $\pm 2 (h - \frac{1}{2 \beta}) / L$
 * When     for pairs of preferences, without sampling. `ipo` if preferences are certain. If a
 *          reward can be computed, on-policy methods reach further.
 * Used by  Zephyr (arXiv:2310.16944), Tulu 3 (arXiv:2411.15124), Llama 3 (arXiv:2407.21783); TRL
 *          `DPOTrainer` with `loss_type` `sigmoid` and `ipo`
 * Shapes   see `DPOLossInput` and `DPOLossOutput`.
 * Errors   throws RangeError for invalid or incompatible settings, for shapes that do not fit (all
 *          named), and for a missing `refLogProbs`.
 * Edges    without pairs the loss is 0. A completion without unmasked tokens has `r = 0`; masked
 *          values have no effect. With `reference: 'none'` reference log-probabilities are ignored.
 * Source   Rafailov et al. 2023, arXiv:2305.18290, equation 7; smoothing: Mitchell 2023, "A note on
 *          DPO with noisy preferences"; IPO: Azar et al. 2023, arXiv:2310.12036, equation 17, by
 *          tokens as in TRL.
 *
 * @example
 * dpoLoss({ reference: 'none' }).reads // ['chosen.tokens.prompt', 'chosen.tokens.response', 'rejected.tokens.prompt', 'rejected.tokens.response']
 */
export const dpoLoss = (options: DPOLossOptions = {}): DPOLoss => {
  const { form, beta, labelSmoothing, reference, normalizeBySeqLength } = checked(options)

  const logRatio = ({ logProbs, refLogProbs, mask }: Side): tf.Tensor =>
    rowSums(reference === 'none' ? logProbs : tf.sub(logProbs, refLogProbs!), mask) // checked by `apply`

  const lossesOf = (lead: tf.Tensor): tf.Tensor => {
    if (form === 'ipo') return tf.square(tf.sub(lead, 1 / (2 * beta)))
    const right = tf.softplus(tf.mul(lead, -beta)) // -log sigmoid(beta h)
    if (labelSmoothing === 0) return right
    const wrong = tf.softplus(tf.mul(lead, beta))
    return tf.add(tf.mul(right, 1 - labelSmoothing), tf.mul(wrong, labelSmoothing))
  }

  const apply: DPOLoss['apply'] = ({ logProbs }, { mask, refLogProbs, counts = countsOf(mask) }) => {
    checkTokenShapes('dpoLoss', { logProbs, mask, refLogProbs })
    refuse('dpoLoss', [
      reference === 'model' && refLogProbs === undefined && "it needs `refLogProbs`, or the setting reference: 'none'",
      mask.shape[0]! % 2 === 1 && `pairs have two rows each, got ${mask.shape[0]} rows`,
    ])
    const side = (name: 'chosen' | 'rejected'): Side => ({
      logProbs: sideOf(logProbs, name),
      mask: sideOf(mask, name),
      ...(refLogProbs && { refLogProbs: sideOf(refLogProbs, name) }),
    })
    const [chosen, rejected] = [side('chosen'), side('rejected')]
    const [better, worse] = [logRatio(chosen), logRatio(rejected)]
    const scaled = (ratio: tf.Tensor, own: tf.Tensor): tf.Tensor =>
      normalizeBySeqLength === 'yes' ? perToken(ratio, own) : ratio
    const losses = lossesOf(tf.sub(scaled(better, chosen.mask), scaled(worse, rejected.mask)))
    const pairs = tf.div(counts.completions, 2)
    const mean = (x: tf.Tensor): tf.Tensor => tf.div(tf.sum(x), tf.maximum(pairs, 1))
    const [chosenRewards, rejectedRewards] = [tf.mul(better, beta), tf.mul(worse, beta)]
    return {
      lossDpo: mean(losses),
      losses,
      chosenRewards,
      rejectedRewards,
      accuracy: mean(tf.cast(tf.greater(better, worse), 'float32')),
      chosenReward: mean(chosenRewards),
      rejectedReward: mean(rejectedRewards),
      chosenLogProb: mean(rowSums(chosen.logProbs, chosen.mask)),
      rejectedLogProb: mean(rowSums(rejected.logProbs, rejected.mask)),
    }
  }

  const refLogProbs = ['chosen.refLogProbs.response', 'rejected.refLogProbs.response']
  return {
    ...defineLoss<never, DPOMetrics, DPOLossInput, PreferenceBatch>({
      name: 'dpoLoss',
      options,
      module: import.meta.url,
      rows: pairRows,
      apply,
      measures: {
        metrics: ({ sums: { lossDpo: _, ...sums }, gradNorm }) => {
          const measured = sums as Omit<DPOMetrics, 'gradNorm' | 'margin'> // the scalars of `apply`
          return { ...measured, margin: measured.chosenReward - measured.rejectedReward, gradNorm }
        },
      },
    }),
    reads: reference === 'model' ? [...PAIRS, ...refLogProbs] : PAIRS,
    apply,
  }
}
