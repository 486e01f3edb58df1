/**
 * Parts of a text.
 *
 * This folder holds text: conversations, templates, tokenizers and formats of tool calls, each in
 * a folder of its own. It does not hold tensors or TensorDicts (`src/data/tensorDict`).
 */

/** A half-open range of a text, in UTF-16 code units. */
export interface TextRange {
  readonly start: number
  readonly end: number
}

/** Ranges in the order of the text, those that touch or overlap joined, empty ones left out. */
export const joinRanges = (ranges: readonly TextRange[]): readonly TextRange[] => {
  const result: TextRange[] = []
  for (const range of ranges.filter(({ start, end }) => end > start).toSorted((a, b) => a.start - b.start)) {
    const last = result.at(-1)
    if (last === undefined || range.start > last.end) result.push(range)
    else result[result.length - 1] = { start: last.start, end: Math.max(last.end, range.end) }
  }
  return result
}

/** Ranges of a text and of one that is put after it, which begins at `offset`. Both are joined already. */
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

/** The ranges as they lie between two places of their text, told from the first of them. */
export const cutRanges = (ranges: readonly TextRange[], start: number, end: number): readonly TextRange[] =>
  ranges
    .filter((range) => range.start < end && range.end > start)
    .map((range) => ({ start: Math.max(range.start, start) - start, end: Math.min(range.end, end) - start }))
