/** Statistics of games: intervals, ratings, seats, baselines, exploitability. */
import type { Interval } from '@tandem-rl/base'

/** The standard normal quantile of a two-sided 95 % interval. */
export const Z95 = 1.959963984540054

/**
 * Computes Wilson's 95 % interval of a share. Without trials, it is from 0 to 1.
 *
 * Errors   throws RangeError unless `0 <= successes <= trials`.
 * Source   Wilson 1927, "Probable inference, the law of succession, and statistical inference".
 *
 * @example
 * wilsonInterval(28, 50).low.toFixed(3) // '0.423'
 */
export const wilsonInterval = (successes: number, trials: number): Interval => {
  if (!(successes >= 0 && successes <= trials))
    throw new RangeError(`wilsonInterval: successes must be from 0 to ${trials}, got ${successes}`)
  if (trials === 0) return { estimate: Number.NaN, low: 0, high: 1 }
  const share = successes / trials
  const weight = Z95 ** 2 / trials
  const middle = (share + weight / 2) / (1 + weight)
  const margin = (Z95 * Math.sqrt((share * (1 - share)) / trials + weight / (4 * trials))) / (1 + weight)
  // The bounds are exactly 0 and 1 at the ends, where rounding would miss them.
  return {
    estimate: share,
    low: successes === 0 ? 0 : Math.max(0, middle - margin),
    high: successes === trials ? 1 : Math.min(1, middle + margin),
  }
}

/**
 * Computes Wilson's 95 % interval of a share of 0s and 1s that come in groups, such as games with
 * the same cards. Values of a group may depend on each other, so the number of trials is divided
 * by the design effect: the variance over groups divided by that of independent trials, at least 1.
 *
 * Source   Kish 1965, "Survey Sampling", section 8.2.
 *
 * @example
 * groupedShare([[1], [0], [1], [0]]).estimate // 0.5
 */
export const groupedShare = (groups: readonly (readonly number[])[]): Interval => {
  const trials = groups.reduce((sum, group) => sum + group.length, 0)
  const successes = groups.reduce((sum, group) => sum + group.reduce((own, value) => own + value, 0), 0)
  const independent = wilsonInterval(successes, trials)
  if (successes === 0 || successes === trials || groups.length < 2) return independent
  const share = successes / trials
  const squares = groups.reduce((sum, group) => sum + group.reduce((own, value) => own + value - share, 0) ** 2, 0)
  const variance = (squares * groups.length) / (groups.length - 1)
  const effect = Math.max(1, variance / (trials * share * (1 - share)))
  return { ...wilsonInterval(successes / effect, trials / effect), estimate: share }
}

/** The logarithms of 0!, 1!, ..., n!. */
const logFactorials = (n: number): Float64Array => {
  const logs = new Float64Array(n + 1)
  for (let i = 1; i <= n; i++) logs[i] = logs[i - 1]! + Math.log(i)
  return logs
}

/** The probabilities of 0 to `trials` successes. */
const binomial = (trials: number, probability: number): Float64Array => {
  const logs = logFactorials(trials)
  return Float64Array.from({ length: trials + 1 }, (_, successes) => {
    const failures = trials - successes
    if ((probability === 0 && successes > 0) || (probability === 1 && failures > 0)) return 0
    const log =
      logs[trials]! -
      logs[successes]! -
      logs[failures]! +
      (successes === 0 ? 0 : successes * Math.log(probability)) +
      (failures === 0 ? 0 : failures * Math.log1p(-probability))
    return Math.exp(log)
  })
}

/** The distribution of the sum of two independent counts. */
const convolved = (a: Float64Array, b: Float64Array): Float64Array => {
  const sum = new Float64Array(a.length + b.length - 1)
  for (let i = 0; i < a.length; i++) for (let j = 0; j < b.length; j++) sum[i + j]! += a[i]! * b[j]!
  return sum
}

/** Trials with the same probability of success. */
export interface Trials {
  readonly trials: number
  readonly probability: number
}

/**
 * Computes the exact two-sided p-value of a number of successes over several groups of trials: the
 * probability of all totals that are at most as likely as the one observed.
 *
 * Cost     quadratic in the number of trials.
 *
 * @example
 * binomialTest(9, [{ trials: 10, probability: 0.5 }]).toFixed(4) // '0.0215'
 */
export const binomialTest = (successes: number, groups: readonly Trials[]): number => {
  const chances = groups
    .map(({ trials, probability }) => binomial(trials, probability))
    .reduce(convolved, Float64Array.of(1))
  if (!Number.isInteger(successes) || successes < 0 || successes >= chances.length)
    throw new RangeError(`binomialTest: successes must be an integer from 0 to ${chances.length - 1}, got ${successes}`)
  const observed = chances[successes]! * (1 + 1e-9)
  return Math.min(
    1,
    chances.reduce((sum, chance) => sum + (chance <= observed ? chance : 0), 0),
  )
}
