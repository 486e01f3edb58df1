/** Comparisons of timed runs. */
import { median } from '@tandem-rl/base'
import type { Spread } from '@tandem-rl/bench'
import { spreadOf } from '../../packages/bench/src/statistics.js'

/** Seconds of single runs, turn by turn. */
export type Turns = readonly (readonly number[])[]

/**
 * How many times longer `theirs` took than `ours`, from the medians of the turns that both had: turns of one round lie next to each other in
 * time, so a machine that slows down slows both. Undefined if they share no round.
 */
export const ratioOf = (theirs: Turns, ours: Turns): Spread | undefined => {
  const shared = Math.min(theirs.length, ours.length)
  if (shared === 0) return undefined
  return spreadOf(Array.from({ length: shared }, (_, i) => median(theirs[i]!) / median(ours[i]!)))
}

/** Relative difference of two results that counts as rounding: the wasm backend's exponential is good to three digits. */
export const TOLERANCE = 5e-3

/** Returns true if two programs found the same number, up to rounding. */
export const agree = (a: number, b: number): boolean =>
  Math.abs(a - b) <= TOLERANCE * Math.max(Math.abs(a), Math.abs(b))
