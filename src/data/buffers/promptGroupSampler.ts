/** A sampler of groups, with the same number of rows from each. */
import { checkOptions, child, type Key, normOf, permutation, uniformInteger } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import { PROMPT_GROUP_SAMPLER_OPTIONS } from '../optionKinds.js'
import { isLeaf, raggedRow } from '../tensorDict/leaf.js'
import { find, findData, type TensorDict } from '../tensorDict/tensorDict.js'
import { type Drawn, type Sampler, STATELESS, type StoredRows } from './sampler.js'

/** The choice of rows in a group. */
export type GroupStrategy =
  /** At random. */
  | 'random'
  /** The newest rows. */
  | 'recency'
  /** The rows with the highest rewards. */
  | 'reward'
  /**
   * The rows whose rewards have the largest variance; of several such choices, the one with the
   * highest rewards.
   */
  | 'variance'

export interface PromptGroupOptions {
  /**
   * `groups`: the number of groups in a sample, with as many rows as fit. `rows`: the number of
   * rows of each group, with as many groups as fit.
   */
  readonly shape: { readonly groups: number } | { readonly rows: number }
  /** Default `random`. */
  readonly strategy?: GroupStrategy
  /** The entry with the id of a row's group: Data of strings or numbers. Default `groupId`. */
  readonly groupKey?: string | readonly string[]
  /** The entry with a row's reward. Several rewards are averaged. Default `next.reward`. */
  readonly rewardKey?: string | readonly string[]
}

const mean = (numbers: ArrayLike<number>): number => Array.from(numbers).reduce((sum, n) => sum + n, 0) / numbers.length

const nameOf = (row: TensorDict, key: string | readonly string[]): string | number => {
  const [name] = findData<unknown>(row, key) ?? []
  if (typeof name === 'string' || typeof name === 'number') return name
  throw new RangeError(`PromptGroupSampler: ${String(key)} must be data of strings or numbers`)
}

/** Returns the reward of a row: a number, or the mean of several. Internal to this folder. */
export const groupReward = (operation: string, row: TensorDict, key: string | readonly string[]): number => {
  const entry = find(row, key)
  if (entry !== undefined && isLeaf(entry)) {
    if (entry instanceof tf.Tensor) return mean(entry.dataSync())
    if ('_tag' in entry && entry._tag === 'Ragged') return mean(raggedRow(entry, 0))
    const [value] = findData<unknown>(row, key) ?? []
    if (typeof value === 'number') return value
  }
  throw new RangeError(`${operation}: ${String(key)} must be a tensor, ragged rows or data of numbers`)
}

const ascending =
  (of: (slot: number) => number) =>
  (a: number, b: number): number =>
    of(a) - of(b) || a - b

/**
 * Returns the `count` slots whose rewards have the largest variance: some of the lowest and some of
 * the highest. `slots` are ascending by reward.
 */
const mostVarying = (slots: readonly number[], count: number, of: (slot: number) => number): readonly number[] => {
  const choices = Array.from({ length: count + 1 }, (_, low) => {
    const chosen = [...slots.slice(0, low), ...slots.slice(slots.length - (count - low))]
    const rewards = chosen.slice(0, count).map(of)
    const center = mean(rewards)
    return {
      chosen: chosen.slice(0, count),
      total: center * count,
      deviation: normOf(rewards.map((r) => r - center)),
    }
  })
  const most = Math.max(...choices.map(({ deviation }) => deviation))
  return choices
    .filter(({ deviation }) => deviation >= most - 1e-12 * Math.max(1, most))
    .reduce((best, choice) => (choice.total > best.total ? choice : best)).chosen
}

const shapeOf = (
  shape: PromptGroupOptions['shape'],
  count: number,
): { readonly groups: number; readonly rows: number } => {
  const size = 'groups' in shape ? shape.groups : shape.rows
  if (!Number.isInteger(size) || size < 1)
    throw new RangeError(`PromptGroupSampler: shape must be at least 1, got ${size}`)
  if (count % size !== 0) throw new RangeError(`PromptGroupSampler: a sample of ${count} rows cannot be cut by ${size}`)
  return 'groups' in shape ? { groups: size, rows: count / size } : { groups: count / size, rows: size }
}

/**
 * Draws `count` items in a random order. If there are too few, all are used before any is repeated.
 */
const drawOf = <X>(items: readonly X[], count: number, key: Key): readonly X[] => {
  const order = Array.from(permutation(child(key, 'order'), items.length), (i) => items[i]!)
  const again = Math.max(0, count - items.length)
  return [
    ...order,
    ...Array.from({ length: again }, (_, i) => items[uniformInteger(child(key, 'again'), items.length, i)]!),
  ].slice(0, count)
}

/**
 * Draws groups with equal probability, and the same number of rows from each group, by a strategy.
 * Rows stay in the buffer.
 *
 * If there are too few groups, or too few rows in a group, some are repeated; `repeated` in the
 * sample counts these rows.
 *
 * Errors   throws RangeError for a shape that is not a natural number; from `draw` for a count that
 *          it does not divide, and for entries that are missing or of another kind.
 * Effects  reads the rewards, which computes them, for `reward` and `variance`.
 * Cost     O(rows of the buffer) for each sample.
 * Source   TorchRL `PromptGroupSampler`; the choice by variance is that of RePO, Li et al. 2025,
 *          arXiv:2506.09340.
 *
 * @example
 * PromptGroupSampler({ shape: { rows: 8 } }).initial // null
 */
export const PromptGroupSampler = (options: PromptGroupOptions): Sampler<null> => {
  checkOptions('PromptGroupSampler', options, PROMPT_GROUP_SAMPLER_OPTIONS)
  const { shape, strategy = 'random', groupKey = 'groupId', rewardKey = ['next', 'reward'] } = options
  shapeOf(shape, 0)
  const best = (slots: readonly number[], count: number, { rows, writes }: StoredRows): readonly number[] => {
    if (strategy === 'recency') return [...slots].sort(ascending((slot) => writes[slot]!)).slice(-count)
    const rewards = new Map(slots.map((slot) => [slot, groupReward('PromptGroupSampler', rows[slot]!, rewardKey)]))
    const sorted = [...slots].sort(ascending((slot) => rewards.get(slot)!))
    return strategy === 'reward' ? sorted.slice(-count) : mostVarying(sorted, count, (slot) => rewards.get(slot)!)
  }
  const within = (
    slots: readonly number[],
    count: number,
    from: { stored: StoredRows; key: Key },
  ): readonly number[] =>
    strategy === 'random' || slots.length <= count ? drawOf(slots, count, from.key) : best(slots, count, from.stored)
  return {
    ...STATELESS,
    draw: (_, stored, { count, key }): readonly [Drawn, null] => {
      const wanted = shapeOf(shape, count)
      const members = new Map<string | number, number[]>()
      for (const [slot, row] of stored.rows.entries()) {
        const name = nameOf(row, groupKey)
        members.set(name, [...(members.get(name) ?? []), slot])
      }
      const slots = drawOf([...members.values()], wanted.groups, child(key, 'groups')).flatMap((group, i) =>
        within(group, wanted.rows, { stored, key: child(child(key, 'rows'), i) }),
      )
      return [{ slots, repeated: slots.length - new Set(slots).size }, null]
    },
  }
}
