/**
 * Statistics of benchmarks: medians, quartiles, and the ratio of two speeds with its confidence
 * interval.
 */
import { median, quantile, studentQuantile } from '@tandem-rl/base'

/** A median and its quartiles. */
export interface Spread {
  readonly median: number
  readonly low: number
  readonly high: number
}

/** Computes the median and the quartiles. Throws RangeError for an empty list. */
export const spreadOf = (numbers: readonly number[]): Spread => ({
  median: median(numbers),
  low: quantile(numbers, 0.25),
  high: quantile(numbers, 0.75),
})

/** The share of intervals that contain the true ratio. */
const CONFIDENCE = 0.95

/** A ratio of two speeds with its confidence interval. Above 1, the candidate is faster. */
export interface SpeedRatio {
  readonly estimate: number
  readonly low: number
  readonly high: number
  /** The share of such intervals that contain the true ratio: 0.95. */
  readonly confidence: number
}

/**
 * Computes how many times as fast a candidate is as a baseline, from rounds that took place in
 * pairs.
 *
 * With $d_i = \log c_i - \log b_i$ of $n$ rounds, the estimate is $\exp \bar d$ and the interval is
 * $\exp(\bar d \pm t_{n-1} s / \sqrt n)$: Student's interval for paired differences. It holds for
 * as few as two rounds, where the bootstrap does not, and drift that affects both halves of a pair
 * cancels out.
 *
 * Errors   throws RangeError unless there are at least two speeds of each, equally many, all finite
 *          and above 0.
 * Source   Student 1908, "The probable error of a mean".
 *
 * @example
 * speedRatio([10, 10], [20, 20]) // { estimate: 2, low: 2, high: 2, confidence: 0.95 }
 */
export const speedRatio = (baseline: readonly number[], candidate: readonly number[]): SpeedRatio => {
  const count = baseline.length
  if (count < 2 || candidate.length !== count) {
    const got = `${count} and ${candidate.length}`
    throw new RangeError(`speedRatio: expected two lists of at least 2 speeds, equally long, got ${got}`)
  }
  const wrong = [...baseline, ...candidate].find((speed) => !(speed > 0 && Number.isFinite(speed)))
  if (wrong !== undefined) throw new RangeError(`speedRatio: expected speeds above 0, got ${wrong}`)
  const differences = baseline.map((speed, i) => Math.log(candidate[i]! / speed))
  const mean = differences.reduce((sum, x) => sum + x, 0) / count
  const variance = differences.reduce((sum, x) => sum + (x - mean) ** 2, 0) / (count - 1)
  const margin = studentQuantile(count - 1, CONFIDENCE) * Math.sqrt(variance / count)
  return {
    estimate: Math.exp(mean),
    low: Math.exp(mean - margin),
    high: Math.exp(mean + margin),
    confidence: CONFIDENCE,
  }
}

/**
 * The conclusion from a ratio. `same`: no difference was found, and the interval excludes one of
 * more than 5 %. `unclear`: the interval includes 1 and larger differences, so more rounds are
 * needed.
 */
export type SpeedVerdict = 'faster' | 'slower' | 'same' | 'unclear'

/** The largest difference that counts as the same speed. */
const SAME = 1.05

/**
 * Draws the conclusion about the candidate.
 *
 * @example
 * verdictOf({ estimate: 1.1, low: 1.02, high: 1.2, confidence: 0.95 }) // 'faster'
 */
export const verdictOf = ({ low, high }: SpeedRatio): SpeedVerdict => {
  if (low > 1) return 'faster'
  if (high < 1) return 'slower'
  return low >= 1 / SAME && high <= SAME ? 'same' : 'unclear'
}
