import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { constant, cosine, linear, warmUp } from '../src/schedule.js'

const steps = fc.integer({ min: 1, max: 100 })
const value = fc.double({ min: -5, max: 5, noNaN: true })

describe('schedules', () => {
  it('begin at the start, end at the end, stay there and never leave the range', () => {
    for (const schedule of [linear, cosine]) {
      fc.assert(
        fc.property(value, value, steps, fc.integer({ min: 0, max: 300 }), (start, end, count, step) => {
          const f = schedule(start, end, count)
          expect(f(0)).toBeCloseTo(start, 9)
          expect(f(count)).toBeCloseTo(end, 9)
          expect(f(count + step)).toBeCloseTo(end, 9)
          expect(f(step)).toBeGreaterThanOrEqual(Math.min(start, end) - 1e-9)
          expect(f(step)).toBeLessThanOrEqual(Math.max(start, end) + 1e-9)
        }),
      )
    }
  })

  it('warm up in equal parts to what comes after', () => {
    const f = warmUp(4, linear(8, 0, 2))
    expect([0, 1, 2, 3, 4, 5, 6, 7].map(f)).toEqual([2, 4, 6, 8, 8, 4, 0, 0])
  })

  it('are constant if requested', () => {
    fc.assert(
      fc.property(value, fc.nat(), (x, step) => {
        expect(constant(x)(step)).toBe(x)
      }),
    )
  })

  it('refuse a number of steps below 1', () => {
    for (const make of [() => linear(0, 1, 0), () => cosine(0, 1, -1), () => warmUp(0.5, constant(1))]) {
      expect(make).toThrow(RangeError)
    }
  })
})
