/** Numbers of the tokens of an optimizer step, row by row. */
import type { TokenTensors } from './stepMetrics.js'
import { type StepTokenRows, tokenNumbers } from './tokenRows.js'

/** Numbers of the tokens of a mini-batch: one list for each row. */
export type StepTokens = Readonly<Record<keyof TokenTensors, readonly ArrayLike<number>[]>>

/** Reads the measures of tokens of all micro-batches, row by row. */
export const stepTokens = (
  parts: readonly TokenTensors[],
  micros: readonly Pick<StepTokenRows<string>, 'completions'>[],
): StepTokens => {
  const read = (name: keyof TokenTensors): readonly ArrayLike<number>[] =>
    parts.flatMap((part, i) => tokenNumbers(part[name], micros[i]!.completions))
  return {
    ...{ logProbs: read('logProbs'), entropies: read('entropies') },
    ...{ ratios: read('ratios'), clipped: read('clipped') },
  }
}
