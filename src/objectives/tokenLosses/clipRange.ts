/**
 * The clip range of a ratio: `e` for `1 - e .. 1 + e`, or `[low, high]` for `1 - low .. 1 + high`.
 */
export type ClipEpsilon = number | readonly [low: number, high: number]

/**
 * Returns both sides of a clip range.
 *
 * Errors   throws RangeError, with the name of the loss, unless `0 <= low < 1` and `high >= 0`.
 *
 * @example
 * clipRange('GRPOLoss', 0.2) // [0.2, 0.2]
 */
export const clipRange = (loss: string, epsilon: ClipEpsilon): readonly [low: number, high: number] => {
  const [low, high] = typeof epsilon === 'number' ? [epsilon, epsilon] : epsilon
  if (!(low >= 0 && low < 1 && high >= 0 && Number.isFinite(high))) {
    throw new RangeError(`${loss}: clipEpsilon must have 0 <= low < 1 and high >= 0, got ${low} and ${high}`)
  }
  return [low, high]
}
