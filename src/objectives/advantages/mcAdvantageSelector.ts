/** Selection of trajectories from a group that is larger than what is learned from. */
import { checkOptions, refuse } from '@tandem-rl/base'
import { MC_ADVANTAGE_SELECTOR_OPTIONS } from '../optionKinds.js'

/** The size of the selection, and exclusive bounds of its mean return. */
interface SelectionRule {
  readonly groupSize: number
  readonly keepReturnBounds?: readonly [low: number, high: number]
}

/** Selects trajectories of a group by their returns. */
export interface MCAdvantageSelector {
  readonly name: string
  /**
   * Returns the indices of `groupSize` of the returns, or `undefined` if no selection is within the
   * bounds.
   */
  readonly select: (returns: readonly number[], rule: SelectionRule) => readonly number[] | undefined
}

export interface MCAdvantageSelectorOptions {
  /**
   * `first`: the first trajectories. `uniform`: spread evenly over the order of the returns.
   * `balanced`: the selection within the bounds whose mean is nearest to their middle, and of
   * several the one with the largest range; without bounds as `uniform`. Default `balanced`.
   */
  readonly strategy?: 'first' | 'uniform' | 'balanced'
  /**
   * The maximum number of selections that `balanced` compares. Larger groups start from the
   * `uniform` selection and exchange one trajectory at a time. Default 100,000.
   */
  readonly maxCombinations?: number
}

const accepted = (
  returns: readonly number[],
  indices: readonly number[],
  bounds: SelectionRule['keepReturnBounds'],
) => {
  if (bounds === undefined) return true
  const mean = indices.reduce((sum, i) => sum + returns[i]!, 0) / indices.length
  return bounds[0] < mean && mean < bounds[1]
}

/** Rounds halves to the even neighbor, as Python does. */
const rounded = (x: number): number => {
  const floor = Math.floor(x)
  if (x - floor !== 0.5) return Math.round(x)
  return floor % 2 === 0 ? floor : floor + 1
}

/** Returns the indices from the lowest return to the highest. */
const ascending = (returns: readonly number[]): readonly number[] =>
  returns.map((_, i) => i).sort((a, b) => returns[a]! - returns[b]! || a - b)

const uniform = (returns: readonly number[], size: number): readonly number[] => {
  const ordered = ascending(returns)
  if (size === 1) return [ordered[Math.floor(ordered.length / 2)]!]
  return Array.from({ length: size }, (_, place) => ordered[rounded((place * (ordered.length - 1)) / (size - 1))]!)
}

/** Returns the number of selections of `size` of `count`, or Infinity above `limit`. */
const combinations = (count: number, size: number, limit: number): number => {
  let found = 1
  for (let i = 1; i <= Math.min(size, count - size); i++) {
    found = (found * (count - i + 1)) / i
    if (found > limit) return Number.POSITIVE_INFINITY
  }
  return Math.round(found)
}

/** Returns the next selection in lexicographic order, or `undefined` after the last one. */
const following = (chosen: readonly number[], count: number): readonly number[] | undefined => {
  const size = chosen.length
  const at = chosen.findLastIndex((index, i) => index < count - size + i)
  if (at < 0) return undefined
  return chosen.map((index, i) => (i < at ? index : chosen[at]! + 1 + i - at))
}

const balanced = (returns: readonly number[], size: number, bounds: readonly [number, number]) => {
  const middle = (bounds[0] + bounds[1]) / 2
  let best: { readonly chosen: readonly number[]; readonly distance: number; readonly range: number } | undefined
  let chosen: readonly number[] | undefined = Array.from({ length: size }, (_, i) => i)
  for (; chosen !== undefined; chosen = following(chosen, returns.length)) {
    if (!accepted(returns, chosen, bounds)) continue
    const values = chosen.map((i) => returns[i]!)
    const distance = Math.abs(values.reduce((sum, x) => sum + x, 0) / size - middle)
    const range = Math.max(...values) - Math.min(...values)
    if (best === undefined || distance < best.distance || (distance === best.distance && range > best.range))
      best = { chosen, distance, range }
  }
  return best?.chosen
}

/** Exchanges trajectories of the uniform selection until the mean is within the bounds. */
const exchanged = (returns: readonly number[], size: number, bounds: readonly [number, number]) => {
  const indices = [...uniform(returns, size)]
  if (accepted(returns, indices, bounds)) return indices
  const isLow = indices.reduce((sum, i) => sum + returns[i]!, 0) / size <= bounds[0]
  const ordered = ascending(returns)
  const others = (isLow ? ordered.toReversed() : ordered).filter((i) => !indices.includes(i))
  const leaving = [...indices].sort((a, b) => (isLow ? 1 : -1) * (returns[a]! - returns[b]!))
  for (const [place, other] of others.slice(0, size).entries()) {
    indices[indices.indexOf(leaving[place]!)] = other
    if (accepted(returns, indices, bounds)) return indices
  }
  return undefined
}

/**
 * Creates a selector for `MCAdvantage({ candidateGroupSize })`.
 *
 * Errors   throws RangeError unless `maxCombinations` is at least 1. `select` throws RangeError for
 *          fewer returns than the selection has.
 * Cost     `balanced`: at most `maxCombinations` selections of a group.
 * Source   TorchRL 0.14.1 `MCAdvantageSelector`.
 *
 * @example
 * MCAdvantageSelector().select([0, 0, 0, 1], { groupSize: 2, keepReturnBounds: [0.1, 0.9] }) // [0, 3]
 */
export const MCAdvantageSelector = (options: MCAdvantageSelectorOptions = {}): MCAdvantageSelector => {
  checkOptions('MCAdvantageSelector', options, MC_ADVANTAGE_SELECTOR_OPTIONS)
  const { strategy = 'balanced', maxCombinations = 100_000 } = options
  refuse('MCAdvantageSelector', [
    !(maxCombinations >= 1) && `maxCombinations must be at least 1, got ${maxCombinations}`,
  ])
  return {
    name: strategy,
    select: (returns, { groupSize, keepReturnBounds: bounds }) => {
      const count = returns.length
      if (count < groupSize)
        throw new RangeError(`MCAdvantageSelector: needs at least ${groupSize} returns, got ${count}`)
      if (strategy === 'balanced' && bounds !== undefined && count > groupSize) {
        const isSmall = combinations(count, groupSize, maxCombinations) <= maxCombinations
        return isSmall ? balanced(returns, groupSize, bounds) : exchanged(returns, groupSize, bounds)
      }
      const isFirst = strategy === 'first' || count === groupSize
      const chosen = isFirst ? Array.from({ length: groupSize }, (_, i) => i) : uniform(returns, groupSize)
      return accepted(returns, chosen, bounds) ? chosen : undefined
    },
  }
}
