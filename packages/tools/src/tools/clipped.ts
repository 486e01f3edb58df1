/** Returns the first `length` UTF-16 units of a text, without splitting a surrogate pair. */
export const beginning = (text: string, length: number): string => {
  if (text.length <= length) return text
  const last = text.charCodeAt(length - 1)
  const isSplit = last >= 0xd800 && last < 0xdc00 // the first half of a pair
  return text.slice(0, isSplit ? length - 1 : length)
}

/**
 * Truncates a text to `length` UTF-16 units and appends three dots. Surrogate pairs are not split.
 *
 * @example
 * clipped('abcdef', 4) // 'abcd...'
 */
export const clipped = (text: string, length: number): string =>
  text.length <= length ? text : `${beginning(text, length)}...`

/**
 * Truncates a text to `length` UTF-16 units and appends a note with the number of omitted ones.
 *
 * @example
 * truncated('abcdef', 4) // 'abcd...\n[2 more characters]'
 */
export const truncated = (text: string, length: number): string => {
  const kept = beginning(text, length)
  return kept === text ? text : `${kept}...\n[${text.length - kept.length} more characters]`
}
