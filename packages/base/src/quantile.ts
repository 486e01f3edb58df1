/**
 * Computes quantile `q` of some numbers, interpolated between neighbors.
 *
 * Errors   throws RangeError for an empty list.
 *
 * @example
 * quantile([1, 2, 4], 0.25) // 1.5
 */
export const quantile = (numbers: readonly number[], q: number): number => {
  if (numbers.length === 0) throw new RangeError('quantile: expected at least one number, got none')
  const sorted = [...numbers].sort((a, b) => a - b)
  const place = (sorted.length - 1) * q
  const [below, above] = [sorted[Math.floor(place)]!, sorted[Math.ceil(place)]!]
  return below + (above - below) * (place - Math.floor(place))
}

/** Computes the median. Throws RangeError for an empty list. */
export const median = (numbers: readonly number[]): number => quantile(numbers, 0.5)
