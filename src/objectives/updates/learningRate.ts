/** The learning rate that an optimizer is configured with. */
import { type Json, notAWeight, refuse, type Schedule } from '@tandem-rl/base'
import type { Optimizer } from './optimizer.js'

/** A constant learning rate, or one by the number of updates done before. */
export type LearningRate = number | Schedule

/** Settings that every optimizer has. */
export interface RateOptions {
  /**
   * The learning rate of a learner. Default: none, so that every call of `update` passes its own.
   */
  readonly learningRate?: LearningRate
}

/** Numbers of updates at which a schedule is sampled for its description. */
const SAMPLED_AT = [0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000] as const

const described = (rate: LearningRate): Json =>
  typeof rate === 'number' ? rate : { values: SAMPLED_AT.map(rate), at: [...SAMPLED_AT] }

/**
 * Adds the learning rate and a description of the settings to an optimizer.
 *
 * Errors   throws RangeError for a constant learning rate that is negative or not finite.
 */
export const configured = <S>(optimizer: Optimizer<S>, { learningRate, ...rest }: RateOptions): Optimizer<S> => {
  if (typeof learningRate === 'number') refuse(optimizer.name, [notAWeight('learningRate', learningRate)])
  const settings = rest as { readonly [name: string]: Json } // only the learning rate may be a function
  return learningRate === undefined
    ? { ...optimizer, options: settings }
    : {
        ...optimizer,
        options: { ...settings, learningRate: described(learningRate) },
        learningRate: typeof learningRate === 'number' ? () => learningRate : learningRate,
      }
}
