/** Weights and masks for off-policy tokens: verl's numbers in float64, and laws. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type CorrectionWeights,
  type Rejection,
  type RolloutCorrectionOptions,
  rolloutCorrection,
} from '../../src/objectives/rolloutCorrection.js'
import { expectClose } from '../kit/close.js'

const X = [
  [0.1, -0.2, 5, 1],
  [0.05, 0.02, -0.1, 7],
  [-2, 3, 3, 3],
]
const MASK = [
  [1, 1, 0, 1],
  [1, 1, 1, 0],
  [1, 0, 0, 0],
]

const counted = (rows: readonly (readonly number[])[]): readonly number[] =>
  rows.flatMap((row, b) => row.filter((_, t) => MASK[b]![t] === 1))

const EIGHT = { absolute: 2e-8 }

interface GoldenWeights {
  readonly weights: CorrectionWeights
  readonly plain: readonly number[]
  readonly normalized: readonly number[]
  readonly mean: number
  readonly ess: number
}

const WEIGHTS: readonly GoldenWeights[] = [
  {
    weights: { level: 'token', limit: 2 },
    plain: [1.10517092, 0.81873075, 2, 1.0512711, 1.02020134, 0.90483742, 0.13533528],
    normalized: [1.09958709, 0.81459415, 1.98989509, 1.04595959, 1.01504682, 0.90026577, 0.13465151],
    mean: 1.00507811,
    ess: 0.79678566,
  },
  {
    weights: { level: 'token', limit: [0.5, 2] },
    plain: [1.10517092, 0.81873075, 0, 1.0512711, 1.02020134, 0.90483742, 0],
    normalized: [1.57874745, 1.16956487, 0, 1.50175103, 1.45736758, 1.29256909, 0],
    mean: 0.70003022,
    ess: 0.70634036,
  },
  {
    weights: { level: 'sequence', limit: 2 },
    plain: [2, 2, 2, 0.97044553, 0.97044553, 0.97044553, 0.13533528],
    normalized: [1.93188135, 1.93188135, 1.93188135, 0.93739281, 0.93739281, 0.93739281, 0.13072585],
    mean: 1.2923817,
    ess: 0.78766243,
  },
  {
    weights: { level: 'sequence', limit: [0.5, 2] },
    plain: [0, 0, 0, 0.97044553, 0.97044553, 0.97044553, 0],
    normalized: [0, 0, 0, 3, 3, 3, 0],
    mean: 0.41590523,
    ess: 0.42857145,
  },
]

const rejection = (statistic: Rejection['statistic'], limit: Rejection['limit']): Rejection => ({ statistic, limit })

const REJECTIONS: readonly (readonly [string, readonly Rejection[], readonly string[]])[] = [
  ['token-k1', [rejection('token-k1', [0.5, 2])], ['1100', '1110', '0000']],
  ['token-k1 by its upper bound', [rejection('token-k1', 2)], ['1100', '1110', '0000']],
  ['token-k2', [rejection('token-k2', 0.4)], ['1100', '1110', '0000']],
  ['token-k3', [rejection('token-k3', 0.5)], ['1100', '1110', '0000']],
  ['sequence-sum-k1', [rejection('sequence-sum-k1', [0.5, 2])], ['0000', '1110', '0000']],
  ['sequence-mean-k3', [rejection('sequence-mean-k3', 0.2)], ['0000', '1110', '0000']],
  ['sequence-max-k3', [rejection('sequence-max-k3', 0.5)], ['0000', '1110', '0000']],
  ['sequence-mean-k1', [rejection('sequence-mean-k1', [0.7, 1.5])], ['1101', '1110', '0000']],
  [
    'token-k1 and sequence-max-k2',
    [rejection('token-k1', [0.5, 2]), rejection('sequence-max-k2', 1)],
    ['1100', '1110', '0000'],
  ],
]

describe('rolloutCorrection against verl', () => {
  it.each(WEIGHTS)('weights by $weights.level, limit $weights.limit', ({ weights, plain, normalized, mean, ess }) => {
    const raw = rolloutCorrection(X, MASK, { weights })
    expectClose(counted(raw.weights), plain, EIGHT)
    expectClose([raw.metrics.meanWeight, raw.metrics.ess], [mean, ess], EIGHT)
    const scaled = rolloutCorrection(X, MASK, { weights: { ...weights, normalized: 'yes' } })
    expectClose(counted(scaled.weights), normalized, EIGHT)
  })

  it('the largest weight of a completion without a cap', () => {
    const { metrics } = rolloutCorrection(X, MASK, { weights: { level: 'sequence', limit: Number.POSITIVE_INFINITY } })
    expectClose([metrics.largest, metrics.above], [2.45960311, 0], EIGHT)
  })

  it.each(REJECTIONS)('rejection by %s', (_, reject, expected) => {
    expect(rolloutCorrection(X, MASK, { reject }).mask.map((row) => row.join(''))).toEqual(expected)
  })
})

const batch = fc.array(
  fc.array(fc.tuple(fc.double({ min: -3, max: 3, noNaN: true }), fc.constantFrom(0, 1)), { maxLength: 5 }),
  { minLength: 1, maxLength: 4 },
)

const options: fc.Arbitrary<RolloutCorrectionOptions> = fc.record(
  {
    weights: fc.record({
      level: fc.constantFrom('token' as const, 'sequence' as const),
      limit: fc.oneof(fc.constant(2), fc.constant([0.5, 2] as const)),
      normalized: fc.constantFrom('yes' as const, 'no' as const),
    }),
    reject: fc.subarray([rejection('token-k1', 2), rejection('token-k3', 0.5), rejection('sequence-mean-k2', 0.4)]),
  },
  { requiredKeys: [] },
)

describe('rolloutCorrection', () => {
  it('equal policies have weight 1 and lose nothing', () => {
    fc.assert(
      fc.property(batch, options, (rows, given) => {
        const mask = rows.map((row) => row.map(([, m]) => m))
        const { weights, mask: kept } = rolloutCorrection(
          rows.map((row) => row.map(() => 0)),
          mask,
          given,
        )
        expect(kept).toEqual(mask)
        expectClose(weights.flat(), mask.flat(), { absolute: 1e-7 })
      }),
    )
  })

  it('keeps no token that was not there, gives weights of at least 0, and does not look under the mask', () => {
    fc.assert(
      fc.property(batch, options, fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY, 50), (rows, given, junk) => {
        const mask = rows.map((row) => row.map(([, m]) => m))
        const clean = rolloutCorrection(
          rows.map((row) => row.map(([x]) => x)),
          mask,
          given,
        )
        const soiled = rolloutCorrection(
          rows.map((row) => row.map(([x, m]) => (m === 1 ? x : junk))),
          mask,
          given,
        )
        expect(soiled).toEqual(clean)
        for (const [b, row] of mask.entries())
          for (const [t, m] of row.entries()) {
            expect(clean.mask[b]![t]!).toBeLessThanOrEqual(m)
            expect(clean.weights[b]![t]!).toBeGreaterThanOrEqual(0)
            if (m === 0) expect(clean.weights[b]![t]).toBe(0)
          }
      }),
    )
  })

  it('refuses limits that make no sense, and rows that do not fit', () => {
    const refused = (given: RolloutCorrectionOptions) => () => rolloutCorrection(X, MASK, given)
    expect(refused({ weights: { level: 'token', limit: 0 } })).toThrow(/limits must be positive and in order, got 0/)
    expect(refused({ weights: { level: 'token', limit: [2, 1] } })).toThrow(/got 2,1/)
    expect(refused({ reject: [rejection('token-k2', [0.1, 0.2])] })).toThrow(/token-k2 has one limit, not two/)
    expect(() => rolloutCorrection([[0]], [[1, 1]], {})).toThrow(/row 0 of difference has 1 tokens, of mask 2/)
  })
})
