/** Losses as functions of parameters and a batch, without an optimizer. */
import { checkOptions, type Key } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import { requireEntries } from '../data/batchRows.js'
import type { TensorDict } from '../data/tensorDict/tensorDict.js'
import type { NamedTensors } from '../data/weights.js'
import type { DecoderConfig } from '../modules/transformer/config.js'
import { completionStates } from '../modules/transformer/score.js'
import { type AnyLoss, type Loss, type LossMetrics, type LossOutput, totalLoss } from '../objectives/loss.js'
import { withNoise } from '../objectives/lossRows.js'
import { BATCH_LOSS_OPTIONS } from './optionKinds.js'
import { modelOutputs } from './steps/readout.js'
import { countedTokens, lossTensors } from './steps/stepLoss.js'
import { checkTokenRows, learnedTokens, tensorsOfRows } from './steps/tokenRows.js'

export interface BatchLossOptions {
  /** The configuration of the decoder that the parameters belong to. */
  readonly config: DecoderConfig
  /** Other weights that the decoder needs; they get no gradient. Default: no other weights. */
  readonly frozen?: NamedTensors
  /** Random key for losses that select tokens at random. */
  readonly key?: Key
}

const NAME = 'batchLoss'

/**
 * Returns a function that computes a loss of a batch: the output of the loss, by TorchRL's names,
 * with `loss`, the sum of all of its terms, to be differentiated.
 *
 * Errors   throws RangeError for a loss that draws random numbers without a key. The function
 *          throws RangeError for a batch with missing entries (all are listed) and rows that do not
 *          match each other.
 * Effects  none: tensors belong to the enclosing scope.
 * Cost     one pass over all rows at once, and memory for all of them.
 * Source   TorchRL's `LossModule.forward(tensordict)`.
 *
 * @example
 * typeof batchLoss // 'function'
 */
export const batchLoss = <B, M extends LossMetrics, T, O extends LossOutput>(
  loss: Loss<B, M, T> & { readonly apply: (model: never, batch: T) => O },
  options: BatchLossOptions,
): ((params: NamedTensors, batch: TensorDict<B>) => O & { readonly loss: tf.Tensor }) => {
  checkOptions(NAME, options, BATCH_LOSS_OPTIONS)
  const { config, frozen = {}, key } = options
  const erased = loss as unknown as AnyLoss // it receives its own rows
  const isRandom = loss.needs.noise === 'uniform'
  if (isRandom && key === undefined)
    throw new RangeError(`${NAME}: the loss ${loss.name} draws random numbers: give a key`)
  return (params, batch) => {
    requireEntries(NAME, batch as TensorDict, loss.reads)
    const plain = loss.rows(batch)
    const rows = isRandom ? withNoise(plain, key!) : plain // checked above
    checkTokenRows(NAME, rows, config.vocabularySize)
    const tensors = tensorsOfRows(rows, config)
    const weights = { ...frozen, ...params }
    const readout = { states: completionStates(weights, config, tensors.batch), weights }
    const { counted } = erased.selection
    const tokens =
      counted === undefined
        ? tf.scalar(learnedTokens(rows))
        : countedTokens(config, { name: loss.name, counted }, { readout, rows: tensors })
    const counts = { tokens, completions: tf.scalar(rows.completions.length) }
    const given = { ...tensors, counts }
    const output = erased.apply(modelOutputs(config, erased, { readout, rows: given }), lossTensors(given)) as O // the loss is one of `O`
    return { ...output, loss: totalLoss(output) }
  }
}
