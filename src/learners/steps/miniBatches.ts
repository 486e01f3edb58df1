/** Divides the rows of a batch into mini-batches. */
import { child, type Key, permutation } from '@tandem-rl/base'
import type { AnyLoss } from '../../objectives/loss.js'
import { type LossRows, rowsAt, withNoise } from '../../objectives/lossRows.js'

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
 * Divides the rows of a batch into mini-batches of whole groups, in a random order, and returns the
 * places of their rows.
 *
 * Mini-batch `k` of `M` has the groups `floor(k G / M) .. floor((k + 1) G / M) - 1` of a random
 * order of all `G` groups, so group counts differ by at most one, and every row is in exactly one
 * mini-batch. With fewer groups than `M`, each group is a mini-batch. A single mini-batch has the
 * order of the batch. Advantages and old log-probabilities remain those of the whole batch.
 *
 * Shapes   `groups` has the group of each row.
 * Errors   throws RangeError if the count is not a positive integer.
 * Effects  none: equal keys give equal orders.
 * Source   PPO, Schulman et al. 2017, arXiv:1707.06347, algorithm 1; the mini-batches of verl's
 *          `ppo_mini_batch_size`, which counts prompts.
 *
 * @example
 * miniBatches(['a', 'b'], { count: 2, key: keyFromSeed(1) }).length // 2
 */
export const miniBatches = (
  groups: readonly string[],
  { count, key }: MiniBatchOptions,
): readonly (readonly number[])[] => {
  if (!Number.isInteger(count) || count < 1) throw new RangeError(`miniBatches: count must be at least 1, got ${count}`)
  if (groups.length === 0) return []
  if (count === 1) return [[...groups.keys()]]
  const places = placesOf(groups)
  const order = Array.from(permutation(key, places.length), (group) => places[group]!)
  const parts = Math.min(count, places.length)
  const start = (part: number): number => Math.floor((part * places.length) / parts)
  return Array.from({ length: parts }, (_, part) => order.slice(start(part), start(part + 1)).flat())
}

/** The passes of an update over its batch. */
export interface UpdatePasses {
  readonly epochs: number
  /** Number of optimizer steps per pass. */
  readonly miniBatches: number
  /** Random key of the order, and of the numbers that the loss draws. */
  readonly key: Key
  /** Number of the update, counted from 1. */
  readonly version: number
}

/** The rows of an optimizer step, and their places in the batch. */
export interface PlacedRows {
  readonly rows: LossRows
  readonly places: readonly number[]
}

/**
 * Returns the rows of each optimizer step of an update. The order comes from `child(key, 'order')`,
 * and random numbers of a loss from `child(key, 'noise')`.
 */
export const updateRows = (
  { needs }: Pick<AnyLoss, 'needs'>,
  { rows, units }: { readonly rows: LossRows; readonly units: readonly string[] },
  { epochs, miniBatches: count, key, version }: UpdatePasses,
): readonly PlacedRows[] =>
  Array.from({ length: epochs }, (_, epoch) => {
    const noise = child(child(key, 'noise'), version)
    const order = child(child(key, 'order'), version)
    const all = needs.noise === 'uniform' ? withNoise(rows, epoch === 0 ? noise : child(noise, `epoch ${epoch}`)) : rows
    return miniBatches(units, { count, key: child(order, epoch) }).map((places) => ({
      places,
      rows: rowsAt(all, places),
    }))
  }).flat()
