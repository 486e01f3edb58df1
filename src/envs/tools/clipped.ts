/**
 * Truncates a text to `length` UTF-16 units and appends three dots. Surrogate pairs are not split.
 *
 * @example
 * clipped('abcdef', 4) // 'abcd...'
 */
export const clipped = (text: string, length: number): string => {
  if (text.length <= length) return text
  const last = text.charCodeAt(length - 1)
  const isSplit = last >= 0xd800 && last < 0xdc00 // the first half of a pair
  return `${text.slice(0, isSplit ? length - 1 : length)}...`
}
