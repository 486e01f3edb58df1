/** Ranges of a text. */

/** A half-open range of a text, in UTF-16 code units. */
export interface TextRange {
  readonly start: number
  readonly end: number
}

/** Sorts ranges, joins those that touch or overlap, and drops empty ones. */
export const joinRanges = (ranges: readonly TextRange[]): readonly TextRange[] => {
  const result: TextRange[] = []
  for (const range of ranges.filter(({ start, end }) => end > start).toSorted((a, b) => a.start - b.start)) {
    const last = result.at(-1)
    if (last === undefined || range.start > last.end) result.push(range)
    else result[result.length - 1] = { start: last.start, end: Math.max(last.end, range.end) }
  }
  return result
}

/**
 * Returns a test for half-open ranges that overlap one of these.
 *
 * Cost     sorting the ranges once, then logarithmic in their number for each test.
 */
export const overlapTest = (ranges: readonly TextRange[]): ((start: number, end: number) => boolean) => {
  const joined = joinRanges(ranges)
  return (start, end) => {
    let [low, high] = [0, joined.length] // the first range that ends after `start`
    while (low < high) {
      const middle = (low + high) >>> 1
      if (joined[middle]!.end > start) high = middle
      else low = middle + 1
    }
    return low < joined.length && joined[low]!.start < end
  }
}

/**
 * Joins the ranges of a text with those of a text appended at `offset`. Both lists are joined
 * already.
 */
export const appendRanges = (
  first: readonly TextRange[],
  second: readonly TextRange[],
  offset: number,
): readonly TextRange[] => {
  if (second.length === 0) return first
  const moved = second.map(({ start, end }) => ({ start: start + offset, end: end + offset }))
  const last = first.at(-1)
  return last === undefined || last.end < moved[0]!.start
    ? [...first, ...moved]
    : [...first.slice(0, -1), { start: last.start, end: moved[0]!.end }, ...moved.slice(1)]
}

/** Cuts ranges to a part of their text, relative to the start of the part. */
export const cutRanges = (ranges: readonly TextRange[], start: number, end: number): readonly TextRange[] =>
  ranges
    .filter((range) => range.start < end && range.end > start)
    .map((range) => ({ start: Math.max(range.start, start) - start, end: Math.min(range.end, end) - start }))
