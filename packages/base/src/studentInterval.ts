/** Student's t: its quantiles, and the interval of a mean. */

/**
 * Computes the probability that Student's t with `df` degrees of freedom lies between `-t` and `t`,
 * where $t = \sqrt{df} \tan \theta$.
 *
 * Source   Abramowitz and Stegun 1964, formulas 26.7.3 and 26.7.4, which are finite sums.
 */
const centralShare = (theta: number, df: number): number => {
  const [sine, cosine] = [Math.sin(theta), Math.cos(theta)]
  const isOdd = df % 2 === 1
  let [term, sum] = isOdd ? [cosine, df > 1 ? cosine : 0] : [1, 1]
  for (let k = isOdd ? 3 : 2; k <= df - 2; k += 2) {
    term *= ((k - 1) / k) * cosine ** 2
    sum += term
  }
  return isOdd ? (2 / Math.PI) * (theta + sine * sum) : sine * sum
}

/**
 * Computes the value that Student's t exceeds in absolute value with probability `1 - confidence`.
 *
 * Cost     60 sums of `df / 2` terms.
 *
 * @example
 * studentQuantile(4, 0.95) // 2.776
 */
export const studentQuantile = (df: number, confidence: number): number => {
  let [low, high] = [0, Math.PI / 2]
  for (let i = 0; i < 60; i++) {
    const middle = (low + high) / 2
    if (centralShare(middle, df) < confidence) low = middle
    else high = middle
  }
  return Math.sqrt(df) * Math.tan((low + high) / 2)
}

/** An estimate and its 95 % interval. */
export interface Interval {
  readonly estimate: number
  readonly low: number
  readonly high: number
}

const CONFIDENCE = 0.95

/**
 * Computes the mean of independent values from a bounded range, with Student's 95 % interval.
 *
 * Equal values have no spread to estimate an interval from. The interval then allows for the share
 * of other values that `n` draws miss with a probability of 5 %: $1 - 0.05^{1/n}$.
 *
 * Errors   throws RangeError without values.
 *
 * @example
 * meanInterval([1, 0, 1, 0], [0, 1]).estimate // 0.5
 */
export const meanInterval = (values: readonly number[], [lowest, highest]: readonly [number, number]): Interval => {
  const count = values.length
  if (count === 0) throw new RangeError('meanInterval: expected at least one value, got none')
  const mean = values.reduce((sum, value) => sum + value, 0) / count
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0)
  const margin =
    squares <= 1e-12 * count
      ? (1 - (1 - CONFIDENCE) ** (1 / count)) * (highest - lowest)
      : studentQuantile(count - 1, CONFIDENCE) * Math.sqrt(squares / (count - 1) / count)
  return { estimate: mean, low: Math.max(lowest, mean - margin), high: Math.min(highest, mean + margin) }
}
