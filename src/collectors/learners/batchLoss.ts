/** Losses as functions of parameters and a batch, without an optimizer. */
import * as tf from '@tensorflow/tfjs-core'
import type { Key } from '../../core/key.js'
import { aRecord, checkOptions } from '../../core/options.js'
import type { TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { NamedTensors } from '../../data/weights.js'
import type { DecoderConfig } from '../../modules/transformer/config.js'
import { completionStates } from '../../modules/transformer/score.js'
import type { PolicyLossOutput } from '../../objectives/policyLoss.js'
import { type TrainingRows, withNoise } from '../steps/stepRows.js'
import { checkTokenRows, learnedTokens, tensorsOfRows } from '../steps/tokenRows.js'
import { requireEntries } from './batchEntries.js'
import { lossCase } from './lossCases.js'
import type { BatchOf, LearnableLoss } from './lossKinds.js'

export interface BatchLossOptions {
  /** The configuration of the decoder that the parameters belong to. */
  readonly config: DecoderConfig
  /** Other weights that the decoder needs; they get no gradient. Default: no other weights. */
  readonly frozen?: NamedTensors
  /** Random key for losses that select tokens at random. */
  readonly key?: Key
}

/** Scalars by TorchRL's names. `loss` is the sum of all terms, and is differentiated. */
export type LossOutput<T = unknown> = { readonly loss: tf.Tensor } & T

type Scalars<N extends string> = { readonly [K in N]: tf.Tensor }

/** The outputs of each kind of loss. */
export interface LossOutputs {
  readonly policy: PolicyLossOutput
  readonly ppo: PolicyLossOutput & Scalars<'lossValue' | 'valueCutFraction'>
  readonly value: Scalars<'lossValue' | 'valueCutFraction'>
  readonly sft: Scalars<'lossSft' | 'nll' | 'accuracy' | 'tokens'> & Partial<Scalars<'klToRef' | 'lossKlToRef'>>
  readonly dpo: Scalars<
    'lossDpo' | 'chosenReward' | 'rejectedReward' | 'accuracy' | 'chosenLogProb' | 'rejectedLogProb'
  >
  readonly distillation: Scalars<'lossDistillation' | 'kl' | 'teacherZeros'>
  readonly rewardModel: Scalars<'lossRewardModel' | 'chosenReward' | 'rejectedReward' | 'accuracy'>
}

/** The output of a loss. */
export type OutputOf<L extends LearnableLoss> = LossOutput<LossOutputs[L['kind']]>

const NAME = 'batchLoss'

/**
 * Makes a function of parameters and a batch from a loss. It runs one forward pass of the whole
 * batch and is differentiable with respect to the parameters.
 *
 * Shapes   all outputs are scalars.
 * Errors   throws RangeError for a batch with missing entries (all are listed), for rows that do
 *          not match each other, and for a loss that draws random numbers without a key.
 * Effects  makes tensors that belong to the enclosing scope.
 * Cost     memory for all rows at once. `localLearner` computes the same in micro-batches.
 * Source   TorchRL's `LossModule.forward(tensordict)`.
 *
 * @example
 * typeof batchLoss // 'function'
 */
export const batchLoss = <L extends LearnableLoss>(
  loss: L,
  options: BatchLossOptions,
): ((params: NamedTensors, batch: TensorDict<BatchOf<L>>) => OutputOf<L>) => {
  checkOptions('batchLoss', options, { config: aRecord, frozen: aRecord, key: aRecord })
  const { config, frozen = {}, key } = options

  const made = lossCase(loss, config)
  if (made.noise === 'yes' && key === undefined)
    throw new RangeError(`${NAME}: the loss ${loss.name} draws random numbers: give a key`)
  return (params, given) => {
    const batch = given as TensorDict
    requireEntries(NAME, batch, made.reads)
    const plain = made.rows(batch)
    const noisy = made.noise === 'yes' ? withNoise(plain as unknown as TrainingRows, key!) : plain // such losses have these rows
    const rows = made.stepCase.rows(noisy)
    checkTokenRows(NAME, rows, config.vocabularySize)
    const tensors = tensorsOfRows(rows, config)
    const weights = { ...frozen, ...params }
    const readout = { states: completionStates(weights, config, tensors.batch), weights }
    const counted = made.stepCase.counted
    const tokens = counted === undefined ? tf.scalar(learnedTokens(rows)) : tf.sum(counted(readout, tensors))
    const counts = { tokens, completions: tf.scalar(rows.completions.length) }
    const { value, aux } = made.stepCase.loss(readout, { ...tensors, counts })
    return { loss: value, ...made.outputs(value, aux) } as unknown as OutputOf<L> // the outputs of the case of the loss
  }
}
