/** Exact fractions of integers of any size. */

/** A fraction in lowest terms: the denominator is positive, and 1 for an integer. */
export interface Rational {
  readonly numerator: bigint
  readonly denominator: bigint
}

const size = (n: bigint): bigint => (n < 0n ? -n : n)

const divisor = (a: bigint, b: bigint): bigint => {
  let [x, y] = [size(a), size(b)]
  while (y !== 0n) [x, y] = [y, x % y]
  return x
}

/**
 * Creates a fraction in lowest terms.
 *
 * Errors   throws RangeError for the denominator 0.
 *
 * @example
 * rational(6n, -4n) // { numerator: -3n, denominator: 2n }
 */
export const rational = (numerator: bigint, denominator = 1n): Rational => {
  if (denominator === 0n) throw new RangeError(`rational: the denominator of ${numerator} must not be 0`)
  const common = divisor(numerator, denominator) * (denominator < 0n ? -1n : 1n)
  return { numerator: numerator / common, denominator: denominator / common }
}

/** Returns the greatest integer that is not above the fraction. */
export const floorOf = ({ numerator, denominator }: Rational): bigint => {
  const quotient = numerator / denominator
  return numerator % denominator < 0n ? quotient - 1n : quotient
}

/**
 * Formats the fraction as a decimal number, rounded to `places` places, a half away from zero,
 * without trailing zeros.
 *
 * @example
 * decimalOf(rational(-2n, 3n), 4) // '-0.6667'
 */
export const decimalOf = ({ numerator, denominator }: Rational, places: number): string => {
  const scale = 10n ** BigInt(places)
  const scaled = (2n * size(numerator) * scale + denominator) / (2n * denominator)
  const digits = String(scaled).padStart(places + 1, '0')
  const [whole, rest] = [digits.slice(0, digits.length - places), digits.slice(digits.length - places)]
  const shown = rest.replace(/(?<!0)0+$/, '')
  return `${numerator < 0n && scaled !== 0n ? '-' : ''}${whole}${shown === '' ? '' : `.${shown}`}`
}
