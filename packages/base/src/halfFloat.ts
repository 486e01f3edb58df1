/** Half-precision numbers. */

/**
 * Converts the bits of IEEE half precision to those of single precision. NaN keeps its payload.
 *
 * @example
 * widenHalf(0x3c00) // 0x3f800000
 */
export const widenHalf = (bits: number): number => {
  const sign = (bits & 0x8000) << 16
  const exponent = (bits >> 10) & 0x1f
  const fraction = bits & 0x3ff
  if (exponent === 31) return sign | 0x7f800000 | (fraction << 13)
  if (exponent > 0) return sign | ((exponent + 112) << 23) | (fraction << 13)
  if (fraction === 0) return sign
  const shift = Math.clz32(fraction) - 21 // brings the first bit of the fraction to where the hidden one is
  return sign | ((113 - shift) << 23) | (((fraction << shift) & 0x3ff) << 13)
}
