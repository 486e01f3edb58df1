/** The rows that a step of a policy loss learns from. */
import { child, type Key, uniforms } from '../core/key.js'

/** Rows to learn from, on the host. All lists have one element for each row. */
export interface TrainingRows {
  readonly prompts: readonly ArrayLike<number>[]
  readonly completions: readonly ArrayLike<number>[]
  /** Per token, under the policy that the ratio is taken against: the one that sampled, or the trainer's own before the update. */
  readonly oldLogProbs: readonly ArrayLike<number>[]
  /** Per token, under the policy that sampled, where `oldLogProbs` are others. */
  readonly behaviorLogProbs?: readonly ArrayLike<number>[]
  readonly refLogProbs?: readonly ArrayLike<number>[]
  /** Per token: 1 for what is learned, 0 for what only stands between, such as the results of tools. Default: everything is learned. */
  readonly masks?: readonly ArrayLike<number>[]
  /** Per token: its objective is multiplied by it. Default 1. */
  readonly weights?: readonly ArrayLike<number>[]
  /** Per token, uniform in [0, 1), for objectives that choose at random: see `withNoise`. */
  readonly noise?: readonly ArrayLike<number>[]
  /** One for each row, or one for each token of each row. */
  readonly advantages: readonly number[] | readonly ArrayLike<number>[]
  /** At which the rows were sampled: their log-probabilities are compared at it. */
  readonly temperature: number
}

const picked = (value: unknown, places: readonly number[]): unknown => {
  if (Array.isArray(value)) return places.map((i) => value[i] as unknown)
  return typeof value === 'object' && value !== null ? rowsAt(value, places) : value
}

/** The rows at some places, in the order of the places, with all that they have. Lists may stand in records. */
export const rowsAt = <R extends object>(rows: R, places: readonly number[]): R =>
  Object.fromEntries(Object.entries(rows).map(([name, value]) => [name, picked(value, places)])) as R // the same names and kinds

/**
 * The rows with some of them left out of the loss: their tokens count for nothing, neither in the objective nor in what it is divided by.
 * Advantages stay what they are, those of a whole group.
 *
 * Errors   throws RangeError unless `isLeftOut` has one entry for each row.
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

/** Random numbers for objectives that choose at random, from a key: those of row i are of its child i, whatever the micro-batches. */
export const withNoise = (rows: TrainingRows, key: Key): TrainingRows => ({
  ...rows,
  noise: rows.completions.map((row, i) => uniforms(child(key, i), row.length)),
})
