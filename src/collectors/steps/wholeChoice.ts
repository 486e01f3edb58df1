/** Decisions of a loss over a whole mini-batch, so that its micro-batches add up to it. */
import type * as tf from '@tensorflow/tfjs-core'
import type { NamedTensors } from '../../data/weights.js'
import { jit } from '../../engine/jit.js'
import { scope } from '../../engine/scope.js'
import type { DecoderConfig } from '../../modules/transformer/config.js'
import type { Readout } from '../../modules/transformer/layerwise.js'
import { completionStates } from '../../modules/transformer/score.js'
import type { MicroBatch } from './microBatches.js'
import {
  listTensors,
  OF_ANY_PLACES,
  type RowTensors,
  type StepTokenRows,
  tensorsOfRows,
  tokenNumbers,
} from './tokenRows.js'

/** A decision for each token that depends on all tokens of the mini-batch. */
export interface WholeChoice<K extends string> {
  /**
   * The list in which micro-batches receive the decision. Without the list, the loss decides
   * itself.
   */
  readonly list: K
  /** The input of the decision other than the lists, `[B, T]`, read from a micro-batch. */
  readonly read: (readout: Readout, rows: Omit<RowTensors<K>, 'counts'>) => tf.Tensor
  /** Decides for all rows of the mini-batch, `[B, T]`, from the readings. */
  readonly decide: (read: tf.Tensor, rows: Pick<RowTensors<K>, 'mask' | 'lists'>) => tf.Tensor
}

/** Adds the decision to the lists of rows. */
export interface Chooser<K extends string> {
  readonly choose: (params: NamedTensors, rows: StepTokenRows<K>, micros: readonly MicroBatch<K>[]) => StepTokenRows<K>
  readonly release: () => void
}

/**
 * Compiles a decision. It runs one forward pass per micro-batch and collects the readings on the
 * host.
 *
 * Effects  keeps the compiled graph until `release`.
 */
export const makeChooser = <K extends string>(config: DecoderConfig, choice: WholeChoice<K>): Chooser<K> => {
  const read = jit(
    ({ params, ...rows }: { readonly params: NamedTensors } & Omit<RowTensors<K>, 'counts'>) =>
      choice.read({ states: completionStates(params, config, rows.batch), weights: params }, rows),
    OF_ANY_PLACES,
  )
  const readPart = (params: NamedTensors, rows: StepTokenRows<K>): readonly ArrayLike<number>[] =>
    scope(() => tokenNumbers(read({ params, ...tensorsOfRows(rows, config) }), rows.completions))
  return {
    choose: (params, rows, micros) =>
      scope(() => {
        const numbers = micros.flatMap((micro) => readPart(params, micro.rows)) // in the order of the rows
        const { lists } = listTensors<'read'>({ ...rows, lists: { read: numbers } })
        const chosen = choice.decide(lists.read!, listTensors(rows)) // it was given just now
        return { ...rows, lists: { ...rows.lists, [choice.list]: tokenNumbers(chosen, rows.completions) } }
      }),
    release: () => read.release(),
  }
}
