/** Mean and norm of numbers of any size. */

/**
 * Computes the mean, also if the sum of the numbers is too large for a float64. The mean of no
 * numbers is NaN.
 *
 * @example
 * meanOf([1.5e308, 1.5e308]) // 1.5e308
 */
export const meanOf = (numbers: readonly number[]): number => {
  const mean = numbers.reduce((sum, x) => sum + x, 0) / numbers.length
  return Number.isFinite(mean) ? mean : numbers.reduce((sum, x) => sum + x / numbers.length, 0)
}

/** Below this norm, squares lose digits, because they are below the smallest normal number. */
const SMALLEST = 1e-140

/**
 * Computes the square root of the sum of squares, also if the squares are too large or too small
 * for a float64.
 *
 * @example
 * normOf([3, 4]) // 5
 */
export const normOf = (numbers: readonly number[]): number => {
  const norm = Math.sqrt(numbers.reduce((sum, x) => sum + x * x, 0))
  if (Number.isFinite(norm) && norm > SMALLEST) return norm
  const largest = numbers.reduce((most, x) => Math.max(most, Math.abs(x)), 0)
  if (largest === 0 || !Number.isFinite(largest)) return largest
  return largest * Math.sqrt(numbers.reduce((sum, x) => sum + (x / largest) ** 2, 0))
}
