/** Training rows of a policy loss. */
import { child, type Key, uniforms } from '../../core/key.js'

/** Training rows on the host. All lists have one element per row. */
export interface TrainingRows {
  readonly prompts: readonly ArrayLike<number>[]
  readonly completions: readonly ArrayLike<number>[]
  /**
   * Per token: the denominator of the ratio, from the sampler or from the trainer before the
   * update.
   */
  readonly oldLogProbs: readonly ArrayLike<number>[]
  /** Per token: log-probabilities of the sampler, if `oldLogProbs` are the trainer's. */
  readonly behaviorLogProbs?: readonly ArrayLike<number>[]
  readonly refLogProbs?: readonly ArrayLike<number>[]
  /** Per token: 1 for trained tokens, 0 for others, such as tool results. Default: all 1. */
  readonly masks?: readonly ArrayLike<number>[]
  /** Per token: factor of the objective. Default 1. */
  readonly weights?: readonly ArrayLike<number>[]
  /** Per token: uniform in [0, 1), for objectives that select tokens at random. See `withNoise`. */
  readonly noise?: readonly ArrayLike<number>[]
  /** One per row, or one per token. */
  readonly advantages: readonly number[] | readonly ArrayLike<number>[]
  /** Sampling temperature of the rows, at which log-probabilities are compared. */
  readonly temperature: number
}

const picked = (value: unknown, places: readonly number[]): unknown => {
  if (Array.isArray(value)) return places.map((i) => value[i] as unknown)
  return typeof value === 'object' && value !== null ? rowsAt(value, places) : value
}

/** Selects rows in the given order, with all of their lists. Lists may be nested in records. */
export const rowsAt = <R extends object>(rows: R, places: readonly number[]): R =>
  Object.fromEntries(Object.entries(rows).map(([name, value]) => [name, picked(value, places)])) as R // the same names and kinds

/**
 * Masks rows out of the loss: their tokens count neither in the objective nor in its normalization.
 * Advantages are unchanged, because they belong to the whole group.
 *
 * Errors   throws RangeError unless `isLeftOut` has one entry per row.
 *
 * @example
 * const rows = { prompts: [[1], [1]], completions: [[2], [3]], oldLogProbs: [[0], [0]], advantages: [1, -1], temperature: 1 }
 * withoutRows(rows, [true, false]).masks // [[0], [1]]
 */
export const withoutRows = (rows: TrainingRows, isLeftOut: readonly boolean[]): TrainingRows => {
  const size = rows.completions.length
  if (isLeftOut.length !== size)
    throw new RangeError(`withoutRows: ${size} completions but ${isLeftOut.length} entries of isLeftOut`)
  const { completions, masks } = rows
  return isLeftOut.includes(true)
    ? {
        ...rows,
        masks: completions.map((row, i) => Array.from(row, (_, t) => (isLeftOut[i] ? 0 : (masks?.[i]?.[t] ?? 1)))),
      }
    : rows
}

/** Adds random numbers from a key. Row i uses child i, independent of micro-batches. */
export const withNoise = (rows: TrainingRows, key: Key): TrainingRows => ({
  ...rows,
  noise: rows.completions.map((row, i) => uniforms(child(key, i), row.length)),
})
