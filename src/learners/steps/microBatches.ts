/** The division of a mini-batch into micro-batches. */
import { promptsPerRun } from '../../modules/transformer/scorer.js'
import { selectRows } from '../../objectives/lossRows.js'
import type { StepRows } from './tokenRows.js'

/** The sizes of micro-batches. */
interface MicroBatchCut {
  /** Approximate number of tokens in each. */
  readonly tokens: number
  /** The number of micro-batches is a multiple of this if there are enough groups. */
  readonly multipleOf: number
}

/** A part of a mini-batch that is computed at once. */
export interface MicroBatch {
  readonly rows: StepRows
  /** The place of each row in the mini-batch. */
  readonly places: readonly number[]
  /** `zero` if it is known before: then only loss and measures are computed. */
  readonly gradient: 'computed' | 'zero'
}

/** Returns the order of the groups, with those without a gradient last. */
const gradientFirst = (isZero: readonly boolean[]): readonly number[] => {
  const places = [...isZero.keys()]
  return [...places.filter((place) => !isZero[place]), ...places.filter((place) => isZero[place])]
}

const range = (from: number, to: number): readonly number[] => Array.from({ length: to - from }, (_, i) => from + i)

/**
 * Divides rows into micro-batches of about `tokens` tokens: whole groups, as even as possible.
 *
 * `isZero` has for each group whether its gradient is zero. Such groups come after the others,
 * and a micro-batch that consists of them has the gradient `zero`. Otherwise groups keep their
 * order. If there are such groups, each of several workers gets at least two micro-batches, so that
 * all workers have gradients to compute.
 */
export const microBatches = (
  rows: StepRows,
  { tokens, multipleOf }: MicroBatchCut,
  isZero: readonly boolean[] = range(0, rows.prompts.length / rows.shared).map(() => false),
): readonly MicroBatch[] => {
  const { shared } = rows
  const groups = rows.prompts.length / shared
  const size = Math.min(groups, promptsPerRun(rows, tokens))
  const multiple = multipleOf > 1 && isZero.includes(true) ? 2 * multipleOf : multipleOf
  const count = Math.min(groups, Math.ceil(Math.ceil(groups / size) / multiple) * multiple)
  const order = gradientFirst(isZero)
  const start = (i: number): number => Math.floor((i * groups) / count)
  return range(0, count).map((i): MicroBatch => {
    const own = order.slice(start(i), start(i + 1))
    const places = own.flatMap((place) => range(place * shared, (place + 1) * shared))
    return {
      rows: selectRows(rows, places),
      places,
      gradient: own.every((place) => isZero[place]) ? 'zero' : 'computed',
    }
  })
}
