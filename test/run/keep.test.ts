/** The older checkpoints that a run keeps. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { spreadSteps } from '../../src/run/train/keep.js'

/** Saves checkpoints one after the other and keeps `count` older ones, as a run does. */
const keptAfter = (saves: number, count: number): readonly number[] =>
  Array.from({ length: saves }, (_, i) => 10 * (i + 1)).reduce<readonly number[]>(
    (kept, end) => [...spreadSteps(kept, { count, end }), end],
    [],
  )

describe('spreadSteps', () => {
  it('keeps at most `count` of the given steps, in order', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.nat(500)), fc.nat(20), (given, count) => {
        const steps = [...given].sort((a, b) => a - b)
        const kept = spreadSteps(steps, { count, end: 501 })
        expect(kept.length).toBe(Math.min(count, steps.length))
        expect(kept).toEqual(steps.filter((step) => kept.includes(step)))
      }),
    )
  })

  it('leaves no gap larger than four times an even one, however long the run is', () => {
    for (const saves of [20, 37, 64, 200]) {
      const kept = keptAfter(saves, 16)
      const gaps = kept.map((step, i) => step - (kept[i - 1] ?? 0))
      expect(Math.max(...gaps)).toBeLessThanOrEqual((4 * 10 * saves) / kept.length)
    }
  })
})
