import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { expectClose } from '../../../test/kit/close.js'
import { meanOf, normOf } from '../src/moments.js'

const numbers = fc.array(fc.double({ min: -10, max: 10, noNaN: true }), { minLength: 1, maxLength: 8 })
const exponent = fc.integer({ min: -300, max: 300 })

describe('meanOf and normOf', () => {
  it('scale with their numbers, of any size', () => {
    const law = fc.property(numbers, exponent, (xs, power) => {
      fc.pre(xs.some((x) => Math.abs(x) > 1e-3))
      const scale = 10 ** power
      const scaled = xs.map((x) => x * scale)
      expectClose([normOf(scaled) / scale, meanOf(scaled) / scale], [Math.hypot(...xs), meanOf(xs)], { absolute: 1e-9 })
    })
    fc.assert(law)
  })

  it('hold at the ends of float64', () => {
    expect(meanOf([1.7e308, 1.7e308, 1.7e308])).toBeCloseTo(1.7e308, -295)
    expect(normOf([0, 0])).toBe(0)
    expect(normOf([])).toBe(0)
    expect(normOf([Number.POSITIVE_INFINITY, 1])).toBe(Number.POSITIVE_INFINITY)
    expect(normOf([Number.NaN, 1])).toBeNaN()
    expect(meanOf([Number.NaN, 1])).toBeNaN()
  })
})
