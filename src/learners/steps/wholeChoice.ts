/** Decisions of a loss over a whole mini-batch, so that its micro-batches add up to it. */
import { jit } from '@tandem-rl/tfjs-onnxruntime'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import type { NamedTensors } from '../../data/weights.js'
import type { DecoderConfig } from '../../modules/transformer/config.js'
import { completionStates } from '../../modules/transformer/score.js'
import type { AnyLoss } from '../../objectives/loss.js'
import type { MicroBatch } from './microBatches.js'
import { modelOutputs, NO_NEEDS } from './readout.js'
import { lossTensors } from './stepLoss.js'
import { listTensors, OF_ANY_PLACES, type RowTensors, type StepRows, tensorsOfRows, tokenNumbers } from './tokenRows.js'

/** Adds the list `chosen` to rows. */
export interface Chooser {
  readonly choose: (params: NamedTensors, rows: StepRows, micros: readonly MicroBatch[]) => StepRows
  readonly release: () => void
}

/**
 * Compiles the choice of a loss. It runs one forward pass per micro-batch and collects the
 * log-probabilities on the host.
 *
 * Effects  keeps the compiled graph until `release`.
 */
export const makeChooser = (config: DecoderConfig, choose: NonNullable<AnyLoss['selection']['choose']>): Chooser => {
  const read = jit(
    ({ params, ...rows }: { readonly params: NamedTensors } & Omit<RowTensors, 'counts'>) =>
      modelOutputs(
        config,
        { name: 'choose', needs: NO_NEEDS },
        { readout: { states: completionStates(params, config, rows.batch), weights: params }, rows },
      ).logProbs,
    OF_ANY_PLACES,
  )
  const readPart = (params: NamedTensors, rows: StepRows): readonly ArrayLike<number>[] =>
    scope(() => tokenNumbers(read({ params, ...tensorsOfRows(rows, config) }), rows.completions))
  return {
    choose: (params, rows, micros) =>
      scope(() => {
        const numbers = micros.flatMap((micro) => readPart(params, micro.rows)) // in the order of the rows
        const { mask, lists } = listTensors({ ...rows, lists: { ...rows.lists, 'read logProbs': numbers } })
        const { 'read logProbs': logProbs, ...own } = lists
        const chosen = choose({ logProbs: logProbs! }, lossTensors({ mask, lists: own })) // read just now
        return { ...rows, lists: { ...rows.lists, chosen: tokenNumbers(chosen, rows.completions) } }
      }),
    release: () => read.release(),
  }
}
