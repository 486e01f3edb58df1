/** Figures from timed runs. */

/** Quantile `q` of some numbers, interpolated between neighbors. Errors: throws RangeError for no numbers. */
export const quantile = (numbers: readonly number[], q: number): number => {
  if (numbers.length === 0) throw new RangeError('quantile: no numbers')
  const sorted = [...numbers].sort((a, b) => a - b)
  const place = (sorted.length - 1) * q
  const [below, above] = [sorted[Math.floor(place)]!, sorted[Math.ceil(place)]!]
  return below + (above - below) * (place - Math.floor(place))
}

/** A median and the middle half around it. */
export interface Spread {
  readonly median: number
  readonly low: number
  readonly high: number
}

export const spreadOf = (numbers: readonly number[]): Spread => ({
  median: quantile(numbers, 0.5),
  low: quantile(numbers, 0.25),
  high: quantile(numbers, 0.75),
})

/** Seconds of single runs, turn by turn. */
export type Turns = readonly (readonly number[])[]

/**
 * How many times longer `theirs` took than `ours`, from the medians of the turns that both had: turns of one round lie next to each other in
 * time, so a machine that slows down slows both. Undefined if they share no round.
 */
export const ratioOf = (theirs: Turns, ours: Turns): Spread | undefined => {
  const shared = Math.min(theirs.length, ours.length)
  if (shared === 0) return undefined
  return spreadOf(Array.from({ length: shared }, (_, i) => quantile(theirs[i]!, 0.5) / quantile(ours[i]!, 0.5)))
}

/** Relative difference of two results that counts as rounding: the wasm backend's exponential is good to three digits. */
export const TOLERANCE = 5e-3

/** Whether two programs found the same number, up to rounding. */
export const agree = (a: number, b: number): boolean =>
  Math.abs(a - b) <= TOLERANCE * Math.max(Math.abs(a), Math.abs(b))
