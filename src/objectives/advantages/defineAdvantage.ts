/** Advantages of one's own: functions of arrays, and functions of batches. */
import { checkOptions, type Json } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import type { AdvantageEntry } from '../../data/batch.js'
import type { TensorDict } from '../../data/tensorDict/tensorDict.js'
import { DEFINE_ADVANTAGE_OPTIONS } from '../optionKinds.js'
import { ADVANTAGE_SPEC, type Advantage, type RewardedTurns } from './advantage.js'
import { batchAdvantage, type GroupRule } from './batchAdvantage.js'
import { lengthsOf, returnsOf, spread } from './rows.js'

/** The options of `defineAdvantage`. */
export interface AdvantageOptions extends GroupRule {
  readonly name: string
  /**
   * Computes an advantage for each trajectory from its return, in reward units, and the name of its
   * group. Both arrays are in the order of trajectories.
   */
  readonly compute: (rewards: readonly number[], groups: readonly string[]) => readonly number[]
  /** Settings of the function, which runs store and compare on resume. Default: none. */
  readonly settings?: { readonly [setting: string]: Json | undefined }
  /** `batch` if trajectories are compared with those of other groups. Default `group`. */
  readonly over?: 'group' | 'batch'
}

/**
 * Defines an advantage by a function of arrays. All trained tokens of a trajectory get its
 * advantage.
 *
 * Equation $A_{i,t} = f(R, g)_i$ for the returns $R$ and the groups $g$ of all trajectories
 * When     for an estimator that the package does not have.
 * Used by  runs with an advantage of their own
 * Shapes   `rewards` and `groups` `[N]`, one for each trajectory with trained tokens; the result
 *          `[N]`.
 * Errors   throws RangeError for unknown options. The advantage throws RangeError if the function
 *          returns another number of values, or one that is not finite.
 *
 * @example
 * defineAdvantage({ name: 'plain', compute: (rewards) => rewards }).name // 'plain'
 */
export const defineAdvantage = (options: AdvantageOptions): Advantage => {
  checkOptions('defineAdvantage', options, DEFINE_ADVANTAGE_OPTIONS)
  const { name, compute, ...rest } = options
  return batchAdvantage(
    (rows) => {
      const [returns, lengths] = [returnsOf(rows), lengthsOf(rows.mask)]
      const trained = returns.flatMap((_, i) => (lengths[i]! > 0 ? [i] : []))
      const values = compute(
        trained.map((i) => returns[i]!),
        trained.map((i) => rows.groups[i]!),
      )
      const wrong = values.findIndex((value) => !Number.isFinite(value))
      if (values.length !== trained.length)
        throw new RangeError(`${name}: compute must return ${trained.length} advantages, got ${values.length}`)
      if (wrong >= 0) throw new RangeError(`${name}: advantage ${wrong} must be finite, got ${values[wrong]}`)
      const all = new Array<number>(returns.length).fill(0)
      for (const [place, i] of trained.entries()) all[i] = values[place]!
      return E.right(spread(all, rows.mask))
    },
    { name, ...rest },
  )
}

/** A function that adds `advantage` to a batch. */
export type BatchAdvantage = (batch: TensorDict<RewardedTurns>) => TensorDict<AdvantageEntry>

const isAdvantage = (given: BatchAdvantage | Advantage): given is Advantage => 'writes' in given

/** Returns the advantage of a function of batches. It may compare all trajectories. */
export const asAdvantage = (given: BatchAdvantage | Advantage): Advantage => {
  if (isAdvantage(given)) return given
  const name = given.name || 'advantage'
  const batchwise = (batch: TensorDict<RewardedTurns>) => given(batch)
  const description = { advantage: name }
  const properties = { description, over: 'batch', reads: [], writes: ADVANTAGE_SPEC, dropped: () => [] }
  const advantage = Object.defineProperty(Object.assign(batchwise, properties), 'name', { value: name })
  return advantage as unknown as Advantage // it keeps the other entries of a batch, by its contract
}
