/** Losses that learn from the probabilities of another model. */
import { checkOptions } from '@tandem-rl/base'
import { stopGradient } from '@tandem-rl/tfjs-onnxruntime'
import * as tf from '@tensorflow/tfjs-core'
import { masked } from '../data/tensorDict/masked.js'
import { defineLoss, type Loss, type LossMetrics, type LossOutput, type ModelOutputs } from './loss.js'
import type { EntriesOf } from './lossRows.js'
import { DISTILLATION_LOSS_OPTIONS, VOCABULARY_DIVERGENCE_NAMES, VOCABULARY_DIVERGENCE_OPTIONS } from './optionKinds.js'
import {
  type Aggregation,
  aggregate,
  checkAggregation,
  countsOf,
  type LossCounts,
  tokenMean,
} from './tokenLosses/aggregation.js'
import { klTerm } from './tokenLosses/klForms.js'
import { checkTokenShapes } from './tokenShapes.js'

export interface DistillationLossOptions {
  /**
   * The argument of `k3(x) = e^x - 1 - x`: `reverse` is `x = log teacher - log student`, an
   * estimate of `KL(student || teacher)` on tokens that the student sampled; `forward` is its
   * negative. Default `reverse`.
   */
  readonly klDirection?: 'reverse' | 'forward'
  /** Default `seq-mean-token-mean`. */
  readonly aggregation?: Aggregation
}

/** Axes: B completions, T tokens. All float32; log-probabilities of the sampled tokens, in nats. */
export interface DistillationLossInput {
  /** `[B, T]`. */
  readonly teacherLogProbs: tf.Tensor
  /** `[B, T]`: 1 for a token to learn from. */
  readonly mask: tf.Tensor
  /**
   * The divisors, so that micro-batches add up to the whole mini-batch. Default: the counts of this
   * input.
   */
  readonly counts?: LossCounts
}

/** Scalars. */
export interface DistillationLossOutput extends LossOutput {
  readonly lossDistillation: tf.Tensor
  /** Mean of the estimate over the unmasked tokens. */
  readonly kl: tf.Tensor
  /**
   * Share of tokens to which the teacher gives probability exactly 1: a value near 1 means that it
   * did not score these tokens.
   */
  readonly teacherZeros: tf.Tensor
}

/** Means over the trained tokens, before the update. */
export interface DistillationMetrics extends LossMetrics {
  /** The estimate of the divergence, in nats. */
  readonly kl: number
  /**
   * Share of tokens with teacher probability exactly 1. A share near 1 means that the teacher did
   * not score them.
   */
  readonly teacherZeros: number
}

/** The batch of distillation, with the teacher's log-probabilities of the sampled tokens. */
export type DistillationBatch = EntriesOf<'teacherLogProbs'>

/** A distillation loss with validated settings. */
export interface DistillationLoss extends Loss<DistillationBatch, DistillationMetrics, DistillationLossInput> {
  readonly apply: (model: Pick<ModelOutputs, 'logProbs'>, batch: DistillationLossInput) => DistillationLossOutput
}

/**
 * Implements on-policy distillation from the log-probabilities of sampled tokens.
 *
 * Per token `l = e^x - 1 - x`, which is never negative, and 0 only for equal models; its gradient
 * is `1 - e^x` for `reverse` and `e^x - 1` for `forward`. Over tokens that the student samples, the
 * expected value of `reverse` is `KL(student || teacher)`, and its expected gradient is that of
 * `KL(teacher || student)`. `vocabularyDivergence` is exact.
 *
 * Equation $\ell_t = e^{x_t} - 1 - x_t$ with $x_t = \log \pi_{teacher} - \log \pi$ (`reverse`), or
 *          $\log \pi - \log \pi_{teacher}$ (`forward`)
 * Gradient $\partial \ell_t / \partial \log \pi_t = 1 - e^{x_t}$, of `forward` $e^{x_t} - 1$
 * When     with a stronger model that scores the student's samples: a signal for every token,
 *          cheaper than rewards.
 * Used by  Qwen3 (arXiv:2505.09388), on-policy distillation; TorchRL `DistillationLoss`
 * Shapes   see `DistillationLossInput` and `DistillationLossOutput`.
 * Errors   throws RangeError for invalid settings, and for shapes that do not fit (all named).
 * Edges    without unmasked tokens the loss and its gradient are 0; masked values have no effect. A
 *          token of probability 0 under one of the models makes the loss infinite.
 * Source   Lu and Thinking Machines Lab 2025, "On-Policy Distillation"; TorchRL `DistillationLoss`,
 *          which throws if most of the teacher's log-probabilities are 0: here that is the metric
 *          `teacherZeros`.
 *
 * @example
 * DistillationLoss({ klDirection: 'forward' }).name // 'DistillationLoss'
 */
export const DistillationLoss = (options: DistillationLossOptions = {}): DistillationLoss => {
  checkOptions('DistillationLoss', options, DISTILLATION_LOSS_OPTIONS)
  const { klDirection = 'reverse', aggregation = 'seq-mean-token-mean' } = options
  checkAggregation('DistillationLoss', aggregation)
  const apply: DistillationLoss['apply'] = ({ logProbs }, input) => {
    const { teacherLogProbs, mask } = input
    checkTokenShapes('DistillationLoss', { logProbs, teacherLogProbs, mask })
    const counted = { mask, counts: input.counts ?? countsOf(mask) }
    const lead = masked(tf.sub(logProbs, teacherLogProbs), mask)
    const each = klTerm('k3', klDirection === 'reverse' ? lead : tf.neg(lead))
    return {
      lossDistillation: aggregate(each, { ...counted, aggregation }),
      kl: tokenMean(each, counted),
      teacherZeros: tokenMean(tf.cast(tf.equal(teacherLogProbs, 0), 'float32'), counted),
    }
  }
  return {
    ...defineLoss<'teacherLogProbs', DistillationMetrics, DistillationLossInput, DistillationBatch>({
      name: 'DistillationLoss',
      options,
      module: import.meta.url,
      reads: ['teacherLogProbs'],
      apply,
      measures: {
        metrics: ({ sums: { loss, kl, teacherZeros }, gradNorm }) => ({
          loss,
          gradNorm,
          kl: kl!,
          teacherZeros: teacherZeros!, // `apply` has them
        }),
      },
    }),
    apply,
  }
}

/**
 * A divergence between two distributions: `reverse` `KL(student || teacher)`, `forward`
 * `KL(teacher || student)`, or with a `teacherShare` b in (0, 1) the generalized Jensen-Shannon
 * divergence `b KL(teacher || M) + (1 - b) KL(student || M)` with
 * `M = b teacher + (1 - b) student`.
 */
export type VocabularyDivergence = 'reverse' | 'forward' | { readonly teacherShare: number }

/** Computes `sum_v p (log p - log q)`; tokens with p = 0 add nothing. */
const divergenceOf = (logP: tf.Tensor, logQ: tf.Tensor): tf.Tensor => {
  const p = tf.exp(logP)
  const difference = tf.where(tf.greater(stopGradient(p), 0), tf.sub(logP, logQ), tf.zerosLike(p))
  return tf.sum(tf.mul(p, difference), -1)
}

/** The log-probability below which a token counts as impossible: its exponential is 0. */
const LOWEST = -1e4

/** Computes `log((1 - b) e^x + b e^y)`. */
const mixture = (x: tf.Tensor, y: tf.Tensor, share: number): tf.Tensor => {
  const floor = (logs: tf.Tensor): tf.Tensor => tf.clipByValue(logs, LOWEST, 0)
  return tf.logSumExp(tf.stack([tf.add(floor(x), Math.log(1 - share)), tf.add(floor(y), Math.log(share))]), 0)
}

/** Throws RangeError for an unknown divergence. */
const checkDivergence = (divergence: VocabularyDivergence): void => {
  if (typeof divergence !== 'object') {
    checkOptions('vocabularyDivergence', { divergence }, VOCABULARY_DIVERGENCE_NAMES)
    return
  }
  checkOptions('vocabularyDivergence', divergence, VOCABULARY_DIVERGENCE_OPTIONS)
  const { teacherShare } = divergence
  if (!(teacherShare > 0 && teacherShare < 1))
    throw new RangeError(`vocabularyDivergence: teacherShare must be between 0 and 1, got ${teacherShare}`)
}

/**
 * Computes the exact divergence of student and teacher at each position, over the whole vocabulary.
 *
 * Equation $\sum_v p_v \log \frac{p_v}{q_v}$ for `reverse` ($p$ the student), `forward` ($p$ the
 *          teacher); $b \, KL(q \| M) + (1 - b) KL(p \| M)$ with $M = b q + (1 - b) p$
 * Gradient of `reverse` with respect to a logit of the student $p_v (\log \frac{p_v}{q_v} - KL)$,
 * of `forward` $p_v - q_v$ with q the teacher
 * When     if the logits of the teacher are available: exact, without the noise of sampled tokens.
 * Used by  GKD (arXiv:2306.13649); TRL `GKDTrainer`
 * Shapes   both logits `[..., V]`; the result has the shape without V. Nats. Differentiable.
 * Errors   throws RangeError for shapes that differ, and for an unknown divergence.
 * Edges    a logit of -Infinity is a token of probability 0: it adds nothing if it is impossible
 *          under the first distribution, and makes the divergence infinite if it is impossible only
 *          under the second. The Jensen-Shannon divergence is always finite.
 * Cost     a few passes over the logits.
 * Source   Agarwal et al. 2024, "On-Policy Distillation of Language Models" (GKD),
 *          arXiv:2306.13649, equation 1, with names for its limits.
 *
 * @example
 * vocabularyDivergence(tf.tensor2d([[0, 0]]), tf.tensor2d([[1, 1]]), 'forward').dataSync() // [0]
 */
export const vocabularyDivergence = (
  studentLogits: tf.Tensor,
  teacherLogits: tf.Tensor,
  divergence: VocabularyDivergence = 'reverse',
): tf.Tensor => {
  checkDivergence(divergence)
  if (studentLogits.rank === 0 || studentLogits.shape.join() !== teacherLogits.shape.join())
    throw new RangeError(
      `vocabularyDivergence: expected logits of one shape [..., V], got [${studentLogits.shape.join()}] and [${teacherLogits.shape.join()}]`,
    )
  const [student, teacher] = [tf.logSoftmax(studentLogits), tf.logSoftmax(teacherLogits)]
  if (divergence === 'reverse') return divergenceOf(student, teacher)
  if (divergence === 'forward') return divergenceOf(teacher, student)
  const { teacherShare: share } = divergence
  const both = mixture(student, teacher, share)
  return tf.add(tf.mul(divergenceOf(teacher, both), share), tf.mul(divergenceOf(student, both), 1 - share))
}
