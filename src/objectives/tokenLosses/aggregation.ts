/** Aggregation of token losses to the loss of a batch. */
import { refuse } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import { masked, maskedSum } from '../../data/tensorDict/masked.js'

/**
 * The reduction of token losses to one number. `x` is the loss, `m` the mask, `N` the tokens and
 * `S` the completions of the whole mini-batch, `L_i` the tokens of completion i:
 *
 * `token-mean` `sum x m / N`; `token-sum` `sum x m`; `seq-mean-token-sum` `sum_i sum_t x m / S`;
 * `seq-mean-token-mean` `sum_i (sum_t x m / L_i) / S`; `seq-mean-token-sum-norm`
 * `seq-mean-token-sum / length`. `prompt-mean` is TorchRL's name of `seq-mean-token-mean`.
 */
export type Aggregation =
  | 'token-mean'
  | 'token-sum'
  | 'prompt-mean'
  | 'seq-mean-token-sum'
  | 'seq-mean-token-mean'
  | { readonly mode: 'seq-mean-token-sum-norm'; readonly length: number }

/**
 * The numbers of tokens and completions of the whole mini-batch, as scalars. With them the losses
 * of micro-batches add up to the loss of the whole.
 */
export interface LossCounts {
  readonly tokens: tf.Tensor
  readonly completions: tf.Tensor
}

/** Returns the counts of one batch by itself: its unmasked tokens, and all of its rows. */
export const countsOf = (mask: tf.Tensor): LossCounts => ({
  tokens: tf.sum(mask),
  completions: tf.scalar(mask.shape[0]!),
})

/**
 * Averages the unmasked tokens of a micro-batch, divided by the tokens of the whole mini-batch, so
 * that micro-batches add up.
 *
 * Equation $\frac{1}{N} \sum_{i,t} m \, x$
 * Gradient $1/N$ for an unmasked token
 * When     in a loss of one's own, for the loss and its metrics
 * Used by  every loss; `aggregate` with `token-mean`
 * Shapes   `x` and `mask` `[B, T]`; the result is a scalar.
 *
 * @example
 * tokenMean(tf.tensor2d([[1, 3]]), { mask: tf.ones([1, 2]), counts: countsOf(tf.ones([1, 2])) }).dataSync() // [2]
 */
export const tokenMean = (
  x: tf.Tensor,
  { mask, counts }: { readonly mask: tf.Tensor; readonly counts: LossCounts },
): tf.Tensor => tf.div(maskedSum(x, mask), tf.maximum(counts.tokens, 1))

/** Throws RangeError for an unknown mode, and for a length that is not positive and finite. */
export const checkAggregation = (loss: string, aggregation: Aggregation): void => {
  if (typeof aggregation !== 'object') return
  const { mode, length } = aggregation
  refuse(loss, [
    mode !== 'seq-mean-token-sum-norm' && `the mode of aggregation must be 'seq-mean-token-sum-norm', got ${mode}`,
    !(length > 0 && Number.isFinite(length)) && `the length of seq-mean-token-sum-norm must be positive, got ${length}`,
  ])
}

/**
 * Reduces token losses to one number.
 *
 * Equation `token-mean` $\frac{1}{N} \sum_{i,t} m \ell$; `token-sum` $\sum_{i,t} m \ell$;
 *          `seq-mean-token-sum` $\frac{1}{S} \sum_{i,t} m \ell$; `seq-mean-token-mean`
 *          $\frac{1}{S} \sum_i \frac{1}{L_i} \sum_t m \ell$; `seq-mean-token-sum-norm`
 *          $\frac{1}{S \, length} \sum_{i,t} m \ell$
 * Gradient a token of completion i has the weight $1/N$; $1$; $1/S$; $1/(S L_i)$; $1/(S \, length)$
 * When     `token-mean` for long reasoning (DAPO); `seq-mean-token-mean` is GRPO as published,
 *          where tokens of long completions count less; `seq-mean-token-sum-norm` is Dr. GRPO,
 *          without length bias.
 * Used by  verl `loss_agg_mode`; TRL `loss_type`: `grpo` is `seq-mean-token-mean`, `bnpo` and
 *          `dapo` `token-mean`, `dr_grpo` `seq-mean-token-sum-norm`; TorchRL `aggregation`
 * Shapes   `losses` and `mask` `[B, T]`; the result is a scalar.
 * Edges    0 without unmasked tokens; masked values have no effect. A completion without unmasked
 *          tokens adds 0 and is one of S.
 * Source   verl `agg_loss`; TorchRL `GRPOLoss`; `seq-mean-token-sum-norm` is Dr. GRPO, Liu et al.
 *          2025, arXiv:2503.20783, section 3.2.
 *
 * @example
 * aggregate(tf.tensor2d([[1, 2]]), { mask: tf.ones([1, 2]), counts: countsOf(tf.ones([1, 2])), aggregation: 'token-mean' }).dataSync() // [1.5]
 */
export const aggregate = (
  losses: tf.Tensor,
  {
    mask,
    counts,
    aggregation,
  }: { readonly mask: tf.Tensor; readonly counts: LossCounts; readonly aggregation: Aggregation },
): tf.Tensor => {
  const counted = masked(losses, mask)
  const completions = tf.maximum(counts.completions, 1)
  switch (aggregation) {
    case 'token-mean':
      return tf.div(tf.sum(counted), tf.maximum(counts.tokens, 1))
    case 'token-sum':
      return tf.sum(counted)
    case 'seq-mean-token-sum':
      return tf.div(tf.sum(counted), completions)
    case 'prompt-mean':
    case 'seq-mean-token-mean': {
      const rows = tf.div(tf.sum(counted, -1), tf.maximum(tf.sum(mask, -1), 1))
      return tf.div(tf.sum(rows), completions)
    }
    default:
      return tf.div(tf.sum(counted), tf.mul(completions, aggregation.length))
  }
}
