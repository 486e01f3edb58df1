/** A pass over the rows of a batch: which of them each optimizer step learns from. */
import { type Key, permutation } from '../core/key.js'
import { aNumber, aRecord, checkOptions } from '../core/options.js'
import { rowsAt } from './stepRows.js'

export interface MiniBatchOptions {
  /** Optimizer steps of the pass. */
  readonly count: number
  /** Of the order. */
  readonly key: Key
}

/** Places of each group, in order of first appearance. */
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
 * Cuts a batch into mini-batches of whole groups, in an order drawn from the key.
 *
 * Mini-batch `k` of `M` has the groups `floor(k G / M) .. floor((k + 1) G / M) - 1` of a random order of all `G`: their numbers differ by
 * one at most, and every row is in exactly one mini-batch. With fewer groups than `M` each group is a mini-batch. One mini-batch is the
 * batch as it is. Advantages and old log-probabilities stay those of the whole batch.
 *
 * Shapes   `groups` names the group of each row.
 * Errors   throws RangeError for a count that is no positive integer, or as many groups as there are not rows.
 * Effects  none: equal keys give equal orders.
 * Source   PPO, Schulman et al. 2017, arXiv:1707.06347, algorithm 1; the mini-batches of verl's `ppo_mini_batch_size`, which counts prompts.
 *
 * @example
 * const rows = { prompts: [[1], [2]], completions: [[3], [4]], oldLogProbs: [[0], [0]], advantages: [1, -1], temperature: 1 }
 * miniBatches(rows, ['a', 'b'], { count: 2, key: keyFromSeed(1) }).length // 2
 */
export const miniBatches = <R extends { readonly prompts: readonly ArrayLike<number>[] }>(
  rows: R,
  groups: readonly string[],
  options: MiniBatchOptions,
): readonly R[] => {
  checkOptions('miniBatches', options, { count: aNumber, key: aRecord })
  const { count, key } = options

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
