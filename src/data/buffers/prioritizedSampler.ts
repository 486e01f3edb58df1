/** Prioritized sampling of rows, with the importance weights that correct for it. */
import { checkOptions, uniform } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { PRIORITIZED_SAMPLER_OPTIONS } from '../optionKinds.js'
import type { Sampler } from './sampler.js'
import { type SumTree, setWeight, slotAt, sumTree, weightAt, weightsOf } from './sumTree.js'

/** Settings of prioritization and of its correction. */
export interface PrioritizedOptions {
  /** Exponent of the priorities: 0 draws uniformly, 1 in proportion. */
  readonly alpha: number
  /** Exponent of the importance weights: 0 corrects nothing, 1 everything. */
  readonly beta: number
  /** Added to every priority, so that each row can be drawn. Must be above 0. Default 1e-8. */
  readonly epsilon?: number
  /**
   * `independent`: each draw is from all rows. `stratified`: one draw from each of `count` equal
   * shares of the sum. Default `independent`.
   */
  readonly draws?: 'independent' | 'stratified'
}

/** Priorities of rows, raised to alpha. */
export interface PriorityState {
  readonly tree: SumTree
  /** The largest priority so far, which new rows get. 1 before the first. */
  readonly maxPriority: number
}

/** New priorities of rows, one for each slot. */
export interface PriorityUpdate {
  readonly slots: readonly number[]
  /** At least 0: an error, a loss, an absolute advantage. */
  readonly priorities: readonly number[]
}

export interface PrioritizedSampler extends Sampler<PriorityState> {
  /**
   * Replaces priorities. If a slot occurs twice, its last priority counts.
   *
   * Errors   throws RangeError, with all problems, for slots without a row, for a number of
   *          priorities other than the number of slots, and for priorities that are negative,
   *          infinite or NaN.
   */
  readonly updatePriority: (state: PriorityState, update: PriorityUpdate) => PriorityState
}

const settingProblems = ({ alpha, beta, epsilon = 1e-8 }: PrioritizedOptions): readonly string[] =>
  Object.entries({ alpha, beta, epsilon }).flatMap(([name, value]) =>
    value >= 0 && Number.isFinite(value) && !(name === 'epsilon' && value === 0)
      ? []
      : [`${name} must be a number ${name === 'epsilon' ? 'above' : 'from'} 0, got ${value}`],
  )

const updateProblems = ({ tree }: PriorityState, { slots, priorities }: PriorityUpdate): readonly string[] => [
  ...(slots.length === priorities.length ? [] : [`${slots.length} slots but ${priorities.length} priorities`]),
  ...slots.flatMap((slot) =>
    Number.isInteger(slot) && slot >= 0 && slot < tree.size ? [] : [`slot ${slot} has no row, there are ${tree.size}`],
  ),
  ...priorities.flatMap((priority) =>
    priority >= 0 && Number.isFinite(priority) ? [] : [`priority ${priority} must be a number from 0`],
  ),
]

const isWeights = (value: unknown, size: number): value is readonly number[] =>
  Array.isArray(value) && value.length === size && value.every((weight) => Number.isFinite(weight) && weight >= 0)

const stateFrom = (value: unknown, size: number): E.Either<string, PriorityState> => {
  const { weights, maxPriority }: { readonly weights?: unknown; readonly maxPriority?: unknown } =
    typeof value === 'object' && value !== null ? value : {}
  if (!isWeights(weights, size)) return E.left(`expected ${size} weights from 0`)
  if (typeof maxPriority !== 'number' || !(maxPriority >= 0 && Number.isFinite(maxPriority)))
    return E.left(`expected a maxPriority from 0, got ${String(maxPriority)}`)
  return E.right({ tree: sumTree(weights), maxPriority })
}

/**
 * Draws row i with probability `P(i) = w_i / sum(w)`, `w_i = (priority_i + epsilon)^alpha`. The
 * importance weight of a draw is `(P(i) / min(P))^-beta`, which is `(N P(i))^-beta` divided by the
 * largest of them over the whole buffer.
 *
 * New rows get the largest priority so far, so that each is likely to be drawn once.
 *
 * Errors   throws RangeError, with all problems, for settings that are negative or not finite; from
 *          `draw` if a weight underflows to 0, or if their sum overflows.
 * Effects  none.
 * Cost     O(log N) for a draw and for a new priority; O(N) when the buffer grows.
 * Source   Schaul et al. 2016, arXiv:1511.05952, section 3.3, 3.4 and, for `stratified`, appendix
 *          B.2.1; TorchRL `PrioritizedSampler`.
 *
 * @example
 * PrioritizedSampler({ alpha: 0.6, beta: 0.4 }).initial.maxPriority // 1
 */
export const PrioritizedSampler = (options: PrioritizedOptions): PrioritizedSampler => {
  checkOptions('PrioritizedSampler', options, PRIORITIZED_SAMPLER_OPTIONS)
  const { alpha, beta, epsilon = 1e-8, draws = 'independent' } = options
  const problems = settingProblems(options)
  if (problems.length > 0) throw new RangeError(`PrioritizedSampler: ${problems.join('; ')}`)
  const weigh = (priority: number): number => (priority + epsilon) ** alpha
  return {
    initial: { tree: sumTree([]), maxPriority: 1 },
    written: ({ tree, maxPriority }, slots, { rows }) => {
      const weight = weigh(maxPriority)
      const missing = Math.max(0, rows.length - tree.size)
      const grown = missing === 0 ? tree : sumTree([...weightsOf(tree), ...Array<number>(missing).fill(weight)])
      return { tree: slots.reduce((next, slot) => setWeight(next, slot, weight), grown), maxPriority }
    },
    draw: (state, _, { count, key }) => {
      const { tree } = state
      if (!(tree.min > 0 && tree.sum > 0 && Number.isFinite(tree.sum)))
        throw new RangeError(`PrioritizedSampler: weights from ${tree.min}, ${tree.sum} in all, have no shares`)
      const slots = Array.from({ length: count }, (_, i) => {
        const share = uniform(key, i)
        return slotAt(tree, (draws === 'independent' ? share : (i + share) / count) * tree.sum)
      })
      return [{ slots, weights: slots.map((slot) => (weightAt(tree, slot) / tree.min) ** -beta) }, state]
    },
    plain: ({ tree, maxPriority }) => ({ weights: [...weightsOf(tree)], maxPriority }),
    fromPlain: stateFrom,
    updatePriority: (state, update) => {
      const wrong = updateProblems(state, update)
      if (wrong.length > 0) throw new RangeError(`updatePriority: ${wrong.join('; ')}`)
      const { slots, priorities } = update
      return {
        tree: slots.reduce((tree, slot, i) => setWeight(tree, slot, weigh(priorities[i]!)), state.tree),
        maxPriority: priorities.reduce((a, b) => Math.max(a, b), state.maxPriority),
      }
    },
  }
}
