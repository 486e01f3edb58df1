/** Counts the work of functions on inputs of growing sizes. */
import { expect } from 'vitest'

/** Objects whose fields count how often they are read. */
export const countedReads = <T extends object>(
  items: readonly T[],
): { readonly items: readonly T[]; readonly reads: () => number } => {
  let reads = 0
  const counted = items.map((item) => {
    const fields = Object.entries(item).map(([name, value]) => [
      name,
      {
        enumerable: true,
        get: () => {
          reads++
          return value
        },
      },
    ])
    return Object.defineProperties({}, Object.fromEntries(fields) as PropertyDescriptorMap) as T // the same fields
  })
  return { items: counted, reads: () => reads }
}

/** CPU seconds of this process for a run, the least of three. */
export const cpuSeconds = (run: () => unknown): number => {
  const once = (): number => {
    const before = process.cpuUsage()
    run()
    const { user, system } = process.cpuUsage(before)
    return (user + system) / 1e6
  }
  return Math.min(once(), once(), once())
}

/**
 * Expects that work grows about as its input does: of four times the size it is at most eight times
 * as much, where quadratic work is sixteen times as much.
 */
export const expectLinear = (workOf: (size: number) => number, size: number): void => {
  const [small, double, large] = [size, 2 * size, 4 * size].map(workOf)
  const shown = `work ${small}, ${double} and ${large} for ${size}, ${2 * size} and ${4 * size}`
  expect(large! / small!, shown).toBeLessThan(8)
}
