/** The optimizer step of distillation from a teacher's log-probabilities of sampled tokens. */
import type * as tf from '@tensorflow/tfjs-core'
import type { DecoderConfig } from '../../modules/transformer/config.js'
import { groupPrompts } from '../../modules/transformer/pack.js'
import type { DistillationLoss } from '../../objectives/distillationLoss.js'
import type { MeasuredLoss, StepCase } from './lossStep.js'
import { rowLogits, rowLogProbs, summed } from './readout.js'

/**
 * Completions with the teacher's log-probabilities of their tokens. All lists have one element for
 * each row.
 */
export interface TaughtRows {
  readonly prompts: readonly ArrayLike<number>[]
  readonly completions: readonly ArrayLike<number>[]
  /** Per token, in nats. */
  readonly teacherLogProbs: readonly ArrayLike<number>[]
  /** Per token: 1 for trained tokens. Default: all tokens. */
  readonly masks?: readonly ArrayLike<number>[]
  /** The temperature at which both models are compared. Default 1. */
  readonly temperature?: number
}

/** Means over the trained tokens, before the update. */
export interface DistillationMetrics extends MeasuredLoss {
  /** The estimate of the divergence, in nats. */
  readonly kl: number
  /**
   * Share of tokens with teacher probability exactly 1. A share near 1 means that the teacher did
   * not score them.
   */
  readonly teacherZeros: number
}

/** Returns the step case of a distillation loss. */
export const distillationCase = (
  config: DecoderConfig,
  loss: DistillationLoss,
): StepCase<
  TaughtRows,
  'teacherLogProbs',
  { readonly kl: tf.Tensor; readonly teacherZeros: tf.Tensor },
  DistillationMetrics
> => ({
  name: 'distillationStep',
  rows: ({ prompts, completions, teacherLogProbs, masks, temperature = 1 }) => ({
    groups: groupPrompts(prompts),
    completions,
    ...(masks && { masks }),
    temperature,
    lists: { teacherLogProbs },
  }),
  loss: (readout, rows) => {
    const { mask, counts } = rows
    const logProbs = rowLogProbs(rowLogits(config, readout, rows), rows)
    const teacherLogProbs = rows.lists.teacherLogProbs! // rows have them
    const { lossDistillation, ...aux } = loss.apply({ logProbs, teacherLogProbs, mask, counts })
    return { value: lossDistillation, aux }
  },
  metrics: (parts, gradNorm) => ({ ...summed(parts), gradNorm }),
})
