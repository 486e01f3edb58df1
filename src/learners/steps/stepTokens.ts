/** Numbers of the tokens of an optimizer step, row by row. */

import type { TokenTensors } from '../../objectives/loss.js'
import type { MicroBatch } from './microBatches.js'
import { tokenNumbers } from './tokenRows.js'

/** Numbers of the tokens of a mini-batch: one list for each row. */
export type StepTokens = Readonly<Record<keyof TokenTensors, readonly ArrayLike<number>[]>>

/** Reads the measures of tokens of all micro-batches, in the order of the mini-batch's rows. */
export const stepTokens = (
  parts: readonly TokenTensors[],
  micros: readonly Pick<MicroBatch, 'rows' | 'places'>[],
): StepTokens => {
  const read = (name: keyof TokenTensors): readonly ArrayLike<number>[] => {
    const numbers: ArrayLike<number>[] = []
    for (const [i, { rows, places }] of micros.entries()) {
      const values = tokenNumbers(parts[i]![name], rows.completions)
      for (const [row, place] of places.entries()) numbers[place] = values[row]!
    }
    return numbers
  }
  return {
    ...{ logProbs: read('logProbs'), entropies: read('entropies') },
    ...{ ratios: read('ratios'), clipped: read('clipped') },
  }
}
