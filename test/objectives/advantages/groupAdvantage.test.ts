import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { type GroupAdvantageOptions, groupAdvantage } from '../../../src/objectives/advantages/groupAdvantage.js'
import { expectClose } from '../../kit/close.js'

const returns = fc.array(fc.double({ min: -10, max: 10, noNaN: true }), { minLength: 1, maxLength: 8 })

const options: fc.Arbitrary<GroupAdvantageOptions> = fc.record(
  { normalize: fc.constantFrom('mean-std' as const, 'mean' as const), epsilon: fc.constantFrom(1e-6, 0.1, 1) },
  { requiredKeys: [] },
)

const advantagesOf = (xs: readonly number[], given?: GroupAdvantageOptions): readonly number[] => {
  const result = groupAdvantage(xs, given)
  if (E.isLeft(result)) throw new Error(result.left.reason)
  return result.right
}

const mean = (xs: readonly number[]): number => xs.reduce((a, b) => a + b, 0) / xs.length

const deviation = (xs: readonly number[]): number =>
  Math.sqrt(xs.reduce((sum, x) => sum + (x - mean(xs)) ** 2, 0) / (xs.length - 1))

describe('groupAdvantage', () => {
  it('is the distance from the mean, in standard deviations or as it is', () => {
    fc.assert(
      fc.property(returns, options, (xs, given) => {
        fc.pre(xs.length > 1)
        const { normalize = 'mean-std', epsilon = 1e-6 } = given
        const unit = normalize === 'mean' ? 1 : Math.max(deviation(xs), epsilon)
        const expected = xs.map((x) => (x - mean(xs)) / unit)
        expectClose(advantagesOf(xs, given), expected, { absolute: 1e-9, relative: 1e-9 })
      }),
    )
  })

  it('gives each completion the same advantage wherever it stands in the group', () => {
    const orders = returns.chain((xs) =>
      fc.tuple(fc.constant(xs), fc.shuffledSubarray([...xs.keys()], { minLength: xs.length })),
    )
    fc.assert(
      fc.property(orders, options, ([xs, order], given) => {
        const moved = advantagesOf(
          order.map((i) => xs[i]!),
          given,
        )
        const original = advantagesOf(xs, given)
        expectClose(
          moved,
          order.map((i) => original[i]!),
          { absolute: 1e-6 },
        )
      }),
    )
  })

  it('changes its sign, and nothing else, with the sign of the rewards', () => {
    fc.assert(
      fc.property(returns, options, (xs, given) => {
        const negated = advantagesOf(
          xs.map((x) => -x),
          given,
        )
        expectClose(
          negated,
          advantagesOf(xs, given).map((a) => 0 - a),
          { absolute: 1e-9 },
        )
      }),
    )
  })

  it('never ranks a completion above one with a larger return', () => {
    fc.assert(
      fc.property(returns, options, (xs, given) => {
        const advantages = advantagesOf(xs, given)
        const ranked = [...xs.keys()].sort((i, j) => xs[i]! - xs[j]!)
        for (const [rank, i] of ranked.entries()) {
          if (rank > 0) expect(advantages[i]!).toBeGreaterThanOrEqual(advantages[ranked[rank - 1]!]!)
        }
      }),
    )
  })

  it('does not blow up returns that differ by less than epsilon', () => {
    expectClose(advantagesOf([0, 1e-9]), [-5e-4, 5e-4], { absolute: 1e-12 })
    expectClose(advantagesOf([0, 1], { epsilon: 100 }), [-0.005, 0.005], { absolute: 1e-12 })
  })

  it('is finite for any finite returns of a size that rewards have', () => {
    fc.assert(
      fc.property(fc.array(fc.double({ min: -1e100, max: 1e100, noNaN: true }), { minLength: 1 }), (xs) => {
        expect(advantagesOf(xs).every(Number.isFinite)).toBe(true)
      }),
    )
  })

  it.each([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])(
    'refuses a group with %d in it, wherever it stands',
    (bad) => {
      fc.assert(
        fc.property(returns, fc.nat(8), (xs, place) => {
          const soiled = [...xs.slice(0, place), bad, ...xs.slice(place)]
          expect(groupAdvantage(soiled)).toEqual(E.left({ _tag: 'DegenerateGroup', reason: 'not-finite' }))
        }),
      )
    },
  )
})
