/** Numbers of the trained tokens of a batch, over all optimizer steps of an update. */
import type { TokenTensors } from '../../objectives/loss.js'
import type { MicroBatch } from './microBatches.js'
import { tokenNumbers } from './tokenRows.js'

/** Numbers of tokens: one list for each row of a batch. Rows that were not trained are empty. */
export interface TrainedTokens {
  /** Under the trainer before the first optimizer step that has the row, in nats. */
  readonly logProbs: readonly ArrayLike<number>[]
  /** Entropy of the distribution at the same time, in nats. */
  readonly entropies: readonly ArrayLike<number>[]
  /** Ratio of the trained to the old probability before the last optimizer step with the row. */
  readonly ratios: readonly ArrayLike<number>[]
  /** 1 for tokens whose gradient was clipped to 0 in any optimizer step. */
  readonly clipped: readonly ArrayLike<number>[]
}

/** The tokens of one optimizer step, with the batch's row of each of its rows. */
export interface PlacedTokens {
  readonly tokens: TrainedTokens
  readonly places: readonly number[]
}

const larger = (a: ArrayLike<number> | undefined, b: ArrayLike<number>): ArrayLike<number> =>
  a === undefined ? b : Array.from(b, (x, t) => Math.max(x, a[t]!)) // of the same row

/** Combines the tokens of optimizer steps, in their order, for a batch of `rows` rows. */
export const trainedTokens = (steps: readonly PlacedTokens[], rows: number): TrainedTokens => {
  const empty = (): ArrayLike<number>[] => Array.from({ length: rows }, () => [])
  const [logProbs, entropies, ratios, clipped] = [empty(), empty(), empty(), empty()]
  const seen = new Set<number>()
  for (const { tokens, places } of steps)
    for (const [i, place] of places.entries()) {
      const isFirst = !seen.has(place)
      seen.add(place)
      if (isFirst) {
        logProbs[place] = tokens.logProbs[i]!
        entropies[place] = tokens.entropies[i]!
      }
      ratios[place] = tokens.ratios[i]!
      clipped[place] = larger(isFirst ? undefined : clipped[place], tokens.clipped[i]!)
    }
  return { logProbs, entropies, ratios, clipped }
}

/** Reads the measures of tokens of all micro-batches, in the order of the mini-batch's rows. */
export const stepTokens = (
  parts: readonly TokenTensors[],
  micros: readonly Pick<MicroBatch, 'rows' | 'places'>[],
): TrainedTokens => {
  const read = (name: keyof TokenTensors): readonly ArrayLike<number>[] => {
    const numbers: ArrayLike<number>[] = []
    for (const [i, { rows, places }] of micros.entries()) {
      const values = tokenNumbers(parts[i]![name], rows.completions)
      for (const [row, place] of places.entries()) numbers[place] = values[row]!
    }
    return numbers
  }
  return {
    logProbs: read('logProbs'),
    entropies: read('entropies'),
    ratios: read('ratios'),
    clipped: read('clipped'),
  }
}
