/** Divides the rows of a batch into mini-batches. */
import { type Key, permutation } from '../../core/key.js'
import { rowsAt } from './stepRows.js'

export interface MiniBatchOptions {
  /** Number of mini-batches, each for one optimizer step. */
  readonly count: number
  /** Random key of the order. */
  readonly key: Key
}

/** Indices of each group's rows, in order of first appearance. */
const placesOf = (groups: readonly string[]): readonly (readonly number[])[] => {
  const places = new Map<string, number[]>()
  for (const [i, group] of groups.entries()) {
    const own = places.get(group)
    if (own === undefined) places.set(group, [i])
    else own.push(i)
  }
  return [...places.values()]
}

/**
 * Divides a batch into mini-batches of whole groups, in a random order.
 *
 * Mini-batch `k` of `M` has the groups `floor(k G / M) .. floor((k + 1) G / M) - 1` of a random
 * order of all `G` groups, so group counts differ by at most one, and every row is in exactly one
 * mini-batch. With fewer groups than `M`, each group is a mini-batch. A single mini-batch is the
 * unchanged batch. Advantages and old log-probabilities remain those of the whole batch.
 *
 * Shapes   `groups` has the group of each row.
 * Errors   throws RangeError if the count is not a positive integer, or `groups` and rows differ in
 *          length.
 * Effects  none: equal keys give equal orders.
 * Source   PPO, Schulman et al. 2017, arXiv:1707.06347, algorithm 1; the mini-batches of verl's
 *          `ppo_mini_batch_size`, which counts prompts.
 *
 * @example
 * const rows = { prompts: [[1], [2]], completions: [[3], [4]], oldLogProbs: [[0], [0]], advantages: [1, -1], temperature: 1 }
 * miniBatches(rows, ['a', 'b'], { count: 2, key: keyFromSeed(1) }).length // 2
 */
export const miniBatches = <R extends { readonly prompts: readonly ArrayLike<number>[] }>(
  rows: R,
  groups: readonly string[],
  { count, key }: MiniBatchOptions,
): readonly R[] => {
  const size = rows.prompts.length
  if (!Number.isInteger(count) || count < 1) throw new RangeError(`miniBatches: count must be at least 1, got ${count}`)
  if (groups.length !== size) throw new RangeError(`miniBatches: ${size} rows but ${groups.length} groups`)
  if (size === 0) return []
  if (count === 1) return [rows]
  const places = placesOf(groups)
  const order = Array.from(permutation(key, places.length), (group) => places[group]!)
  const parts = Math.min(count, places.length)
  const start = (part: number): number => Math.floor((part * places.length) / parts)
  return Array.from({ length: parts }, (_, part) => rowsAt(rows, order.slice(start(part), start(part + 1)).flat()))
}
