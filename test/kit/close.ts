/** Comparing floating-point results. */
import { expect } from 'vitest'

/** How far two numbers may be apart: `absolute + relative * |expected|`. */
export interface Tolerance {
  readonly absolute?: number
  readonly relative?: number
}

const isClose = (actual: number, expected: number, { absolute = 1e-6, relative = 1e-5 }: Tolerance): boolean =>
  Object.is(actual, expected) ||
  actual === expected ||
  (Number.isNaN(actual) && Number.isNaN(expected)) ||
  Math.abs(actual - expected) <= absolute + relative * Math.abs(expected)

/** Fails, naming the first place, unless all elements are close. NaN equals NaN; an infinity equals only itself. */
export const expectClose = (
  actual: ArrayLike<number>,
  expected: ArrayLike<number>,
  tolerance: Tolerance = {},
): void => {
  expect(actual.length, 'length').toBe(expected.length)
  for (let i = 0; i < expected.length; i++) {
    if (!isClose(actual[i]!, expected[i]!, tolerance)) {
      expect.fail(`element ${i}: ${actual[i]} is not close to ${expected[i]} (${JSON.stringify(tolerance)})`)
    }
  }
}
