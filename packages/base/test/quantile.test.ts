import { describe, expect, it } from 'vitest'
import { median, quantile } from '../src/quantile.js'

describe('quantile', () => {
  it('returns the ends, the middle, and values between neighbors', () => {
    expect([0, 0.25, 0.5, 1].map((q) => quantile([3, 1, 2], q))).toEqual([1, 1.5, 2, 3])
    expect(median([1, 2])).toBe(1.5)
  })

  it('rejects an empty list', () => {
    expect(() => quantile([], 0.5)).toThrow(RangeError)
  })
})
