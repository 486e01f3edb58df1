/** The DPO loss: learning from pairs of completions, one of which was preferred. */
import * as tf from '@tensorflow/tfjs-core'
import { aNumber, checkOptions, oneOf } from '../core/options.js'
import { perToken, rowSums } from './sequences.js'
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
 * One side of the pairs. Axes: B pairs, T tokens of this side. All float32; log-probabilities in
 * nats.
 */
export interface DPOSide {
  /** `[B, T]`; receives the gradient. */
  readonly logProbs: tf.Tensor
  /** `[B, T]` under the reference model. */
  readonly refLogProbs?: tf.Tensor
  /** `[B, T]`: 1 for a token of the completion. */
  readonly mask: tf.Tensor
}

export interface DPOLossInput {
  readonly chosen: DPOSide
  readonly rejected: DPOSide
  /**
   * The number of pairs of the whole mini-batch, a scalar, so that micro-batches add up to it.
   * Default: the number in this input.
   */
  readonly pairs?: tf.Tensor
}

/**
 * The metrics of TRL. Rewards are `beta` times the log-ratio of a whole completion; they are not
 * meant to be differentiated.
 */
export interface DPOLossOutput {
  /** A scalar. */
  readonly lossDpo: tf.Tensor
  /** `[B]`: the loss of each pair. */
  readonly losses: tf.Tensor
  /** `[B]`. */
  readonly chosenRewards: tf.Tensor
  readonly rejectedRewards: tf.Tensor
  /** Share of the pairs whose chosen completion has the larger reward, a scalar. */
  readonly accuracy: tf.Tensor
}

/** A preference loss with validated settings. */
export interface DPOLoss {
  readonly kind: 'dpo'
  readonly name: 'dpoLoss'
  readonly options: DPOLossOptions
  readonly needs: { readonly reference: 'yes' | 'no' }
  readonly apply: (input: DPOLossInput) => DPOLossOutput
}

const checked = (options: DPOLossOptions): Required<DPOLossOptions> => {
  checkOptions('dpoLoss', options, {
    form: oneOf('sigmoid', 'ipo'),
    beta: aNumber,
    labelSmoothing: aNumber,
    reference: oneOf('model', 'none'),
    normalizeBySeqLength: oneOf('yes', 'no'),
  })
  const { form = 'sigmoid', beta = 0.1, labelSmoothing = 0, reference = 'model' } = options
  if (!(beta > 0 && Number.isFinite(beta))) throw new RangeError(`dpoLoss: beta must be positive, got ${beta}`)
  if (!(labelSmoothing >= 0 && labelSmoothing < 0.5))
    throw new RangeError(`dpoLoss: labelSmoothing must be from 0 to below 0.5, got ${labelSmoothing}`)
  if (form === 'ipo' && labelSmoothing !== 0)
    throw new RangeError('dpoLoss: labelSmoothing is a setting of sigmoid, and the form is ipo')
  const { normalizeBySeqLength = form === 'ipo' ? 'yes' : 'no' } = options
  return { form, beta, labelSmoothing, reference, normalizeBySeqLength }
}

const checkInput = ({ chosen, rejected }: DPOLossInput, reference: 'model' | 'none'): void => {
  for (const [side, { logProbs, refLogProbs, mask }] of Object.entries({ chosen, rejected })) {
    checkTokenShapes(`dpoLoss, ${side}`, { logProbs, mask, refLogProbs })
    if (reference === 'model' && refLogProbs === undefined)
      throw new RangeError(`dpoLoss, ${side}: it needs \`refLogProbs\`, or the setting reference: 'none'`)
  }
  const [pairs, others] = [chosen.mask.shape[0], rejected.mask.shape[0]]
  if (pairs !== others) throw new RangeError(`dpoLoss: ${pairs} chosen completions and ${others} rejected ones`)
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
 * Shapes   see `DPOLossInput` and `DPOLossOutput`. Both sides have B rows; they need not be equally
 *          wide.
 * Errors   throws RangeError for invalid or incompatible settings, for shapes that do not fit (all
 *          named), and for a missing `refLogProbs`.
 * Edges    without pairs the loss is 0. A completion without unmasked tokens has `r = 0`; masked
 *          values have no effect. With `reference: 'none'` reference log-probabilities are ignored.
 * Source   Rafailov et al. 2023, arXiv:2305.18290, equation 7; smoothing: Mitchell 2023, "A note on
 *          DPO with noisy preferences"; IPO: Azar et al. 2023, arXiv:2310.12036, equation 17, by
 *          tokens as in TRL.
 *
 * @example
 * dpoLoss({ form: 'ipo', beta: 0.5 }).needs.reference // 'yes'
 */
export const dpoLoss = (options: DPOLossOptions = {}): DPOLoss => {
  const { form, beta, labelSmoothing, reference, normalizeBySeqLength } = checked(options)

  const logRatio = ({ logProbs, refLogProbs, mask }: DPOSide): tf.Tensor =>
    rowSums(reference === 'none' ? logProbs : tf.sub(logProbs, refLogProbs!), mask) // checked by `apply`

  const lossesOf = (lead: tf.Tensor): tf.Tensor => {
    if (form === 'ipo') return tf.square(tf.sub(lead, 1 / (2 * beta)))
    const right = tf.softplus(tf.mul(lead, -beta)) // -log sigmoid(beta h)
    if (labelSmoothing === 0) return right
    const wrong = tf.softplus(tf.mul(lead, beta))
    return tf.add(tf.mul(right, 1 - labelSmoothing), tf.mul(wrong, labelSmoothing))
  }

  return {
    kind: 'dpo',
    name: 'dpoLoss',
    options,
    needs: { reference: reference === 'model' ? 'yes' : 'no' },
    apply: (input) => {
      checkInput(input, reference)
      const { chosen, rejected } = input
      const [better, worse] = [logRatio(chosen), logRatio(rejected)]
      const side = (ratio: tf.Tensor, mask: tf.Tensor): tf.Tensor =>
        normalizeBySeqLength === 'yes' ? perToken(ratio, mask) : ratio
      const losses = lossesOf(tf.sub(side(better, chosen.mask), side(worse, rejected.mask)))
      const pairs = tf.maximum(input.pairs ?? tf.scalar(losses.shape[0]!), 1)
      return {
        lossDpo: tf.div(tf.sum(losses), pairs),
        losses,
        chosenRewards: tf.mul(better, beta),
        rejectedRewards: tf.mul(worse, beta),
        accuracy: tf.div(tf.sum(tf.cast(tf.greater(better, worse), 'float32')), pairs),
      }
    },
  }
}
