import { aNumber, checkOptions } from '../../core/options.js'
/** The reward of a length: a soft end before the hard one. */

export interface OverlongOptions {
  /** Tokens that a completion may have. */
  readonly longest: number
  /** The last so many of them cost something. */
  readonly cache: number
  /** What a completion of the longest length costs, in reward units. Default 1. */
  readonly factor?: number
}

/**
 * Throws RangeError for options that make no sense, with all of them that do not; `name` is the
 * function that was called.
 */
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
 * The soft penalty of a completion that is nearly or really too long.
 *
 * With `L` tokens at most and the last `c` of them: 0 up to `L - c`, then `factor (L - c - n) / c`,
 * down to `-factor` at `L` and beyond.
 *
 * Units    tokens in, reward units out.
 * Errors   throws RangeError for a cache that is longer than all, or numbers that are not positive.
 * Source   DAPO, Yu et al. 2025, arXiv:2503.14476, section 3.4, equation 13, whose longest is 20480
 *          and cache 4096; verl's `overlong_buffer`.
 *
 * @example
 * overlongReward(18, { longest: 20, cache: 4 }) // -0.5
 */
export const overlongReward = (tokens: number, options: OverlongOptions): number => {
  checkOptions('overlongReward', options, { longest: aNumber, cache: aNumber, factor: aNumber })
  checkOverlong('overlongReward', options)
  const { longest, cache, factor = 1 } = options
  const beyond = Math.min(tokens, longest) - (longest - cache)
  return beyond <= 0 ? 0 : (-factor * beyond) / cache
}
