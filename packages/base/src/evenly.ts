/**
 * Picks `count` evenly spaced items, including the first and the last, or all of fewer.
 *
 * @example
 * evenly([1, 2, 3, 4, 5], 3) // [1, 3, 5]
 */
export const evenly = <T>(items: readonly T[], count: number): readonly T[] => {
  if (items.length <= count) return items
  return Array.from({ length: count }, (_, i) => items[Math.round((i * (items.length - 1)) / (count - 1))]!)
}
