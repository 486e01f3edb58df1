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

const range = (xs: readonly number[]): number => Math.max(...xs) - Math.min(...xs)

describe('groupAdvantage', () => {
  it.each([
    [
      [1, 0, 0, 1],
      [0.8660254, -0.8660254, -0.8660254, 0.8660254],
    ],
    [
      [0.1, 0.1, 1, 0],
      [-0.4264, -0.4264, 1.4924, -0.6396],
    ],
    [
      [0, 1],
      [-Math.SQRT1_2, Math.SQRT1_2],
    ],
    [
      [1, 1],
      [0, 0],
    ],
    [[0.3], [0]],
  ])('%j gives %j, as the MCAdvantage of TorchRL does', (rewards, expected) => {
    expectClose(advantagesOf(rewards), expected, { absolute: 5e-5 })
  })

  it('does not overflow in the squares of large rewards, nor underflow in those of small ones', () => {
    expectClose(advantagesOf([1e200, -1e200]), [Math.SQRT1_2, -Math.SQRT1_2], { absolute: 1e-12 })
    expectClose(advantagesOf([1.7e308, 1.6e308, 1.6e308]), [1.1547, -0.5774, -0.5774], { absolute: 1e-4 })
    const law = fc.property(returns, fc.integer({ min: -280, max: 280 }), (xs, power) => {
      fc.pre(range(xs) > 1e-3)
      const scaled = xs.map((x) => x * 10 ** power)
      expectClose(advantagesOf(scaled, { epsilon: 0 }), advantagesOf(xs, { epsilon: 0 }), { absolute: 1e-6 })
    })
    fc.assert(law)
  })

  it('is not changed by a shift of the rewards, nor by a positive scale', () => {
    fc.assert(
      fc.property(
        returns,
        fc.double({ min: -5, max: 5, noNaN: true }),
        fc.double({ min: 0.1, max: 9, noNaN: true }),
        (xs, shift, scale) => {
          fc.pre(range(xs) > 1e-3)
          expectClose(advantagesOf(xs.map((x) => x * scale + shift)), advantagesOf(xs), {
            absolute: 1e-6,
          })
        },
      ),
    )
  })

  it('has mean 0 and, divided by G - 1, variance 1', () => {
    fc.assert(
      fc.property(returns, (xs) => {
        fc.pre(range(xs) > 1e-3)
        const advantages = advantagesOf(xs)
        expect(Math.abs(advantages.reduce((a, b) => a + b, 0))).toBeLessThan(1e-9)
        expect(advantages.reduce((sum, a) => sum + a * a, 0) / (xs.length - 1)).toBeCloseTo(1, 9)
      }),
    )
  })

  it('only subtracts the mean when asked (Dr. GRPO)', () => {
    expect(advantagesOf([1, 0, 0, 3], { normalize: 'mean' })).toEqual([0, -1, -1, 2])
  })

  it('is exactly 0 for equal rewards, whatever their rounding', () => {
    fc.assert(
      fc.property(fc.double({ min: -10, max: 10, noNaN: true }), fc.integer({ min: 1, max: 9 }), (x, size) => {
        expect(advantagesOf(Array(size).fill(x))).toEqual(Array(size).fill(0))
      }),
    )
  })

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

  it('refuses an empty group', () => {
    expect(groupAdvantage([])).toEqual(E.left({ _tag: 'DegenerateGroup', reason: 'empty' }))
  })
})
