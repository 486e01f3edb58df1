/** One optimizer step of distillation: from a teacher's log-probabilities of the tokens that were sampled, or from all of its distributions. */
import * as tf from '@tensorflow/tfjs-core'
import { aRecord, checkOptions, eitherOf, type OptionKinds, oneOf } from '../../core/options.js'
import type { NamedTensors } from '../../data/weights.js'
import { jit } from '../../engine/jit.js'
import { maskedSum } from '../../engine/masked.js'
import { own } from '../../engine/scope.js'
import type { DecoderConfig } from '../../modules/transformer/config.js'
import { completionBatch, groupPrompts, packCompletions } from '../../modules/transformer/pack.js'
import type { CompletionBatch } from '../../modules/transformer/score.js'
import { completionLogits } from '../../modules/transformer/score.js'
import {
  checkDivergence,
  type DistillationLoss,
  type VocabularyDivergence,
  vocabularyDivergence,
} from '../../objectives/distillationLoss.js'
import { type Aggregation, aggregate, anAggregation, checkAggregation } from '../../objectives/losses/aggregation.js'
import {
  LOSS_STEP_OPTIONS,
  type LossStep,
  type LossStepOptions,
  lossStep,
  type MeasuredLoss,
  type StepCase,
} from './lossStep.js'
import { rowLogits, rowLogProbs, summed } from './readout.js'
import type { StepTokenRows } from './tokenRows.js'

/** Completions to learn from, by the student if it is to be on policy. All lists have one element for each row. */
export interface DistilledRows {
  readonly prompts: readonly ArrayLike<number>[]
  readonly completions: readonly ArrayLike<number>[]
  /** Per token: 1 for what counts. Default: everything does. */
  readonly masks?: readonly ArrayLike<number>[]
  /** At which both models are compared. Default 1. */
  readonly temperature?: number
}

/** Rows with what the teacher says of their tokens, wherever it runs. */
export interface TaughtRows extends DistilledRows {
  /** Per token, in nats. */
  readonly teacherLogProbs: readonly ArrayLike<number>[]
}

const tokenRows = ({ prompts, completions, masks, temperature = 1 }: DistilledRows): StepTokenRows<never> => ({
  groups: groupPrompts(prompts),
  completions,
  ...(masks && { masks }),
  temperature,
  lists: {},
})

/** Means over the tokens that count, before the update. */
export interface DistillationMetrics extends MeasuredLoss {
  /** The estimate of the divergence, in nats. */
  readonly kl: number
  /** Share of tokens to which the teacher gives probability 1 exactly: near 1 it did not score them at all. */
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
  rows: ({ teacherLogProbs, ...rows }) => ({ ...tokenRows(rows), lists: { teacherLogProbs } }),
  loss: (readout, rows) => {
    const { mask, counts } = rows
    const logProbs = rowLogProbs(rowLogits(config, readout, rows), rows)
    const teacherLogProbs = rows.lists.teacherLogProbs! // rows have them
    const { lossDistillation, ...aux } = loss.apply({ logProbs, teacherLogProbs, mask, counts })
    return { value: lossDistillation, aux }
  },
  metrics: (parts, gradNorm) => ({ ...summed(parts), gradNorm }),
})

/** A model in this process with the student's vocabulary. */
export interface Teacher {
  readonly config: DecoderConfig
  readonly params: NamedTensors
}

export interface GKDStepOptions<S> extends LossStepOptions<S> {
  /** Its weights are kept until `release`. */
  readonly teacher: Teacher
  /** Default `reverse`. */
  readonly divergence?: VocabularyDivergence
  /** Default `token-mean`. */
  readonly aggregation?: Aggregation
}

/** Before the update. */
export interface GKDMetrics extends MeasuredLoss {
  /** Mean over the tokens that count, in nats. */
  readonly divergence: number
}

interface TeacherInput {
  readonly params: NamedTensors
  readonly batch: CompletionBatch
  readonly inverseTemperature: tf.Tensor
}

/** The teacher's logits of rows, `[B * T, V]`, divided by the temperature; compiled. */
const teacherLogits = ({ config, params }: Teacher) => {
  const kept = own(params)
  const compiled = jit((input: TeacherInput) =>
    tf.mul(completionLogits(input.params, config, input.batch), input.inverseTemperature),
  )
  return {
    of: ({ groups, completions, temperature }: StepTokenRows<never>): tf.Tensor =>
      compiled({
        params,
        batch: completionBatch(packCompletions(groups, completions), config),
        inverseTemperature: tf.scalar(1 / temperature),
      }),
    release: (): void => {
      compiled.release()
      kept.release()
    },
  }
}

const GKD_STEP_OPTIONS: OptionKinds<GKDStepOptions<never>> = {
  ...LOSS_STEP_OPTIONS,
  teacher: aRecord,
  divergence: eitherOf(aRecord, oneOf('reverse', 'forward')),
  aggregation: anAggregation,
}

/**
 * Makes the training step of distillation from whole distributions: at each token the exact divergence of student and teacher over the vocabulary.
 * See `lossStep` and `vocabularyDivergence`.
 *
 * Errors   as `lossStep`; throws RangeError for a teacher with another vocabulary and for settings that are none.
 * Effects  keeps `frozen`, the teacher's weights and the compiled graphs until `release`.
 * Cost     one pass forward of the teacher; logits of both models for the tokens of a micro-batch.
 * Source   Agarwal et al. 2024, arXiv:2306.13649, algorithm 1; TRL's `GKDTrainer`, on the rows that it is given.
 */
export const gkdStep = <S>(options: GKDStepOptions<S>): LossStep<S, DistilledRows, GKDMetrics> => {
  checkOptions('gkdStep', options, GKD_STEP_OPTIONS)
  const { teacher, divergence = 'reverse', aggregation = 'token-mean', ...rest } = options
  const { config } = rest
  if (teacher.config.vocabularySize !== config.vocabularySize)
    throw new RangeError(
      `gkdStep: the teacher has ${teacher.config.vocabularySize} tokens and the student ${config.vocabularySize}`,
    )
  checkDivergence(divergence)
  checkAggregation('gkdStep', aggregation)
  const taught = teacherLogits(teacher)
  const step = lossStep<S, DistilledRows, 'teacherLogits', { readonly divergence: tf.Tensor }, GKDMetrics>(
    {
      name: 'gkdStep',
      rows: tokenRows,
      made: (rows) => ({ teacherLogits: taught.of(rows) }),
      loss: (readout, rows) => {
        const { mask, counts } = rows
        const logits = rowLogits(config, readout, rows)
        const each = tf.reshape(vocabularyDivergence(logits, rows.lists.teacherLogits!, divergence), mask.shape) // made above
        return {
          value: aggregate(each, { mask, counts, aggregation }),
          aux: { divergence: tf.div(maskedSum(each, mask), tf.maximum(counts.tokens, 1)) },
        }
      },
      metrics: (parts, gradNorm) => ({ ...summed(parts), gradNorm }),
    },
    rest,
  )
  return {
    ...step,
    release: () => {
      step.release()
      taught.release()
    },
  }
}
