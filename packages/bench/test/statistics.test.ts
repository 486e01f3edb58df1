/**
 * Laws of the statistics of benchmarks, and the coverage of their confidence intervals by
 * simulation.
 */
import { child, type Key, keyFromSeed, normals, quantile, uniforms } from '@tandem-rl/base'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type SpeedRatio, speedRatio, spreadOf, verdictOf } from '../src/statistics.js'

const times = fc.array(fc.double({ min: 1e-6, max: 1e3, noNaN: true }), { minLength: 1, maxLength: 20 })

describe('spreadOf', () => {
  it('gives spreads whose quartiles enclose the median', () => {
    fc.assert(
      fc.property(times, (numbers) => {
        const { low, median: middle, high } = spreadOf(numbers)
        expect(low).toBeLessThanOrEqual(middle)
        expect(middle).toBeLessThanOrEqual(high)
        expect(low).toBeGreaterThanOrEqual(Math.min(...numbers))
        expect(high).toBeLessThanOrEqual(Math.max(...numbers))
      }),
    )
  })
})

const speeds = fc.double({ min: 0.01, max: 1e4, noNaN: true })
const pairs = fc.array(fc.tuple(speeds, speeds), { minLength: 2, maxLength: 12 })
const halves = (rounds: readonly (readonly [number, number])[]) =>
  [rounds.map(([a]) => a), rounds.map(([, b]) => b)] as const

describe('speedRatio', () => {
  it('has its estimate within the interval, and inverts when the sides are swapped', () => {
    fc.assert(
      fc.property(pairs, (rounds) => {
        const [a, b] = halves(rounds)
        const [ratio, inverse] = [speedRatio(a, b), speedRatio(b, a)]
        expect(ratio.low).toBeLessThanOrEqual(ratio.estimate)
        expect(ratio.estimate).toBeLessThanOrEqual(ratio.high)
        expect(Math.log(ratio.estimate)).toBeCloseTo(-Math.log(inverse.estimate), 9)
        expect(Math.log(ratio.low)).toBeCloseTo(-Math.log(inverse.high), 6)
      }),
    )
  })

  it('does not depend on drift that affects both halves of each pair', () => {
    fc.assert(
      fc.property(pairs, fc.array(speeds, { minLength: 12, maxLength: 12 }), (rounds, drift) => {
        const [a, b] = halves(rounds)
        const drifted = halves(rounds.map(([x, y], i) => [x * drift[i]!, y * drift[i]!] as const))
        const [before, after] = [speedRatio(a, b), speedRatio(...drifted)]
        for (const field of ['estimate', 'low', 'high'] as const)
          expect(Math.log(after[field])).toBeCloseTo(Math.log(before[field]), 6)
      }),
    )
  })

  it('rejects lists that are short, of different lengths, or have a speed that is not above 0', () => {
    expect(() => speedRatio([1], [1])).toThrow('equally long, got 1 and 1')
    expect(() => speedRatio([1, 2], [1, 2, 3])).toThrow('got 2 and 3')
    for (const wrong of [0, -1, Number.NaN, Number.POSITIVE_INFINITY])
      expect(() => speedRatio([1, 2], [1, wrong])).toThrow(`expected speeds above 0, got ${wrong}`)
  })
})

interface Simulation {
  readonly rounds: number
  readonly ratio: number
  /** Draws the seconds of ten rounds. */
  readonly noise: (key: Key) => Float64Array
  readonly trials?: number
  readonly interval?: (baseline: readonly number[], candidate: readonly number[]) => Pick<SpeedRatio, 'low' | 'high'>
}

/** Simulates comparisons and returns the share whose interval contains the true ratio. */
const coverage = ({ rounds, ratio, noise, trials = 4000, interval = speedRatio }: Simulation): number => {
  let held = 0
  for (let trial = 0; trial < trials; trial++) {
    const key = child(keyFromSeed(20), trial)
    const [own, other] = [noise(child(key, 'baseline')), noise(child(key, 'candidate'))]
    const drift = (i: number): number => 100 * (1 + i / 4) // a machine that becomes faster
    const { low, high } = interval(
      Array.from({ length: rounds }, (_, i) => drift(i) / own[i]!),
      Array.from({ length: rounds }, (_, i) => (ratio * drift(i)) / other[i]!),
    )
    if (low <= ratio && ratio <= high) held++
  }
  return held / trials
}

describe('the confidence interval of a ratio', () => {
  const logNormal = (key: Key) => Float64Array.from(normals(key, 10), (x) => Math.exp(0.1 * x))
  /** Rounds that take 1 s and pauses: most are short, a few are long. */
  const pauses = (key: Key) => uniforms(key, 10).map((u) => 1 - 0.2 * Math.log(1 - u))

  it('contains the true ratio in 95 % of simulated comparisons, for any number of rounds', () => {
    for (const rounds of [2, 3, 5, 10]) {
      const share = coverage({ rounds, ratio: 1.2, noise: logNormal })
      expect(share, `${rounds} rounds`).toBeGreaterThan(0.94)
      expect(share, `${rounds} rounds`).toBeLessThan(0.96)
    }
  })

  it('contains it in at least 94 % when a few rounds are much longer than the others', () => {
    for (const rounds of [3, 5, 10])
      expect(coverage({ rounds, ratio: 0.8, noise: pauses }), `${rounds} rounds`).toBeGreaterThan(0.94)
  })

  it('contains it more often than the percentile bootstrap, which docs/decisions compares with it', () => {
    const resamples = 400
    const bootstrap = (baseline: readonly number[], candidate: readonly number[]) => {
      const differences = baseline.map((speed, i) => Math.log(candidate[i]! / speed))
      const draws = uniforms(keyFromSeed(Math.floor(1e6 * Math.abs(differences[0]!))), resamples * baseline.length)
      const means = Array.from({ length: resamples }, (_, k) => {
        const drawn = differences.map(
          (_each, i) => differences[Math.floor(draws[k * baseline.length + i]! * baseline.length)]!,
        )
        return drawn.reduce((sum, x) => sum + x, 0) / drawn.length
      })
      return { low: Math.exp(quantile(means, 0.025)), high: Math.exp(quantile(means, 0.975)) }
    }
    const simulation = { rounds: 5, ratio: 1.2, noise: logNormal, trials: 1000 }
    expect(coverage({ ...simulation, interval: bootstrap })).toBeLessThan(0.88)
    expect(coverage(simulation)).toBeGreaterThan(0.93)
  })
})

describe('verdictOf', () => {
  const verdict = (low: number, high: number) => verdictOf({ estimate: (low + high) / 2, low, high, confidence: 0.95 })

  it('names a difference only if the interval excludes 1, and equality only if it excludes one of 5 %', () => {
    expect(verdict(1.001, 1.02)).toBe('faster')
    expect(verdict(0.5, 0.999)).toBe('slower')
    expect(verdict(0.96, 1.04)).toBe('same')
    expect(verdict(0.9, 1.04)).toBe('unclear')
    expect(verdict(0.99, 1.2)).toBe('unclear')
  })
})
