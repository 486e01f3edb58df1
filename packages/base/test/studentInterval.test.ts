import { describe, expect, it } from 'vitest'
import { meanInterval, studentQuantile } from '../src/studentInterval.js'

describe('studentQuantile', () => {
  it('returns the values of published tables', () => {
    // Abramowitz and Stegun, table 26.10.
    const table = [
      [1, 12.706],
      [2, 4.303],
      [3, 3.182],
      [4, 2.776],
      [9, 2.262],
      [30, 2.042],
      [120, 1.98],
    ] as const
    for (const [df, t] of table) expect(studentQuantile(df, 0.95)).toBeCloseTo(t, 3)
    expect(studentQuantile(5, 0.99)).toBeCloseTo(4.032, 3)
  })
})

describe('meanInterval', () => {
  it("is Student's, and allows for what equal values have missed", () => {
    const { low, high } = meanInterval([1, 0, 1, 0, 1], [-1, 1])
    expect([low, high].map((each) => each.toFixed(4))).toEqual(['-0.0801', '1.0000'])
    expect(meanInterval([1, 1], [-1, 1])).toMatchObject({
      estimate: 1,
      high: 1,
      low: expect.closeTo(1 - 2 * (1 - 0.05 ** 0.5), 9),
    })
    expect(meanInterval([0], [-1, 1])).toMatchObject({ low: -1, high: 1 })
    expect(meanInterval(Array(100).fill(0), [-1, 1]).high).toBeLessThan(0.06)
    expect(() => meanInterval([], [0, 1])).toThrow('at least one value')
  })
})
