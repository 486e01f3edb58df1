import { checkOptions } from '@tandem-rl/base'
import { OVERLONG_REWARD_OPTIONS } from '../optionKinds.js'
/** The penalty of long completions: a soft limit before the hard one. */

export interface OverlongOptions {
  /** Maximum tokens of a completion. */
  readonly longest: number
  /** The number of last tokens that are penalized. */
  readonly cache: number
  /** Penalty of a completion of maximum length, in reward units. Default 1. */
  readonly factor?: number
}

/** Throws RangeError that lists all invalid options; `name` is the function that was called. */
export const checkOverlong = (name: string, { longest, cache, factor = 1 }: OverlongOptions): void => {
  const problems = [
    ...(Number.isInteger(longest) && longest >= 1 ? [] : [`longest must be at least 1, got ${longest}`]),
    ...(Number.isInteger(cache) && cache >= 1 && cache <= longest
      ? []
      : [`cache must be from 1 to ${longest}, got ${cache}`]),
    ...(factor >= 0 && Number.isFinite(factor) ? [] : [`factor must not be negative, got ${factor}`]),
  ]
  if (problems.length > 0) throw new RangeError(`${name}: ${problems.join('; ')}`)
}

/**
 * Returns the soft penalty of a completion near or above the maximum length.
 *
 * With at most `L` tokens and the last `c` of them penalized: 0 up to `L - c`, then `factor (L - c
 * - n) / c`, down to `-factor` at `L` and beyond.
 *
 * Units    tokens in, reward units out.
 * Errors   throws RangeError for a cache above the maximum, or numbers that are not positive.
 * Source   DAPO, Yu et al. 2025, arXiv:2503.14476, section 3.4, equation 13, whose longest is 20480
 *          and cache 4096; verl's `overlong_buffer`.
 *
 * @example
 * overlongReward(18, { longest: 20, cache: 4 }) // -0.5
 */
export const overlongReward = (tokens: number, options: OverlongOptions): number => {
  checkOptions('overlongReward', options, OVERLONG_REWARD_OPTIONS)
  checkOverlong('overlongReward', options)
  const { longest, cache, factor = 1 } = options
  const beyond = Math.min(tokens, longest) - (longest - cache)
  return beyond <= 0 ? 0 : (-factor * beyond) / cache
}
