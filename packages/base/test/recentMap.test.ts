import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type RecentMap, recall, recentMap, remember } from '../src/recentMap.js'

/** Keys of which many share their lowest bits. */
const key = fc.oneof(
  fc.nat(40),
  fc.maxSafeNat(),
  fc.tuple(fc.nat(3), fc.nat(2 ** 20)).map(([low, high]) => high * 2 ** 32 + low),
)
const entries = fc.array(fc.tuple(key, fc.nat(5)), { maxLength: 200 })

const filled = (capacity: number, pairs: readonly (readonly [number, number])[]): RecentMap<number> =>
  pairs.reduce((map, [each, value]) => remember(map, each, value), recentMap<number>(capacity))

describe('a memory of what was seen lately', () => {
  it('is a map while it has room', () => {
    fc.assert(
      fc.property(entries, key, (pairs, other) => {
        const map = filled(1000, pairs)
        const expected = new Map(pairs)
        for (const each of [other, ...expected.keys()]) expect(recall(map, each)).toBe(expected.get(each))
        expect(map.size).toBe(expected.size)
      }),
    )
  })

  it('keeps the last `capacity` keys with their newest values, and at most twice as many', () => {
    fc.assert(
      fc.property(entries, fc.integer({ min: 1, max: 20 }), (pairs, capacity) => {
        const map = filled(capacity, pairs)
        const newest = new Map<number, number>()
        for (const [each, value] of pairs) {
          newest.delete(each)
          newest.set(each, value)
        }
        const kept = [...newest.keys()].filter((each) => recall(map, each) !== undefined)
        expect(kept.length).toBeLessThanOrEqual(2 * capacity)
        for (const [each, value] of [...newest].slice(-capacity)) expect(recall(map, each)).toBe(value)
      }),
    )
  })

  it('never gives an older value than the newest that was remembered of a key it still knows', () => {
    fc.assert(
      fc.property(entries, fc.integer({ min: 1, max: 20 }), (pairs, capacity) => {
        const map = filled(capacity, pairs)
        const newest = new Map(pairs)
        for (const [each, value] of newest) expect([undefined, value]).toContain(recall(map, each))
      }),
    )
  })

  it('changes nothing that it was before', () => {
    fc.assert(
      fc.property(entries, key, (pairs, other) => {
        const map = filled(10, pairs)
        const before = pairs.map(([each]) => recall(map, each))
        remember(map, other, 9)
        expect(pairs.map(([each]) => recall(map, each))).toEqual(before)
      }),
    )
  })

  it.each([0, -1, 1.5, Number.NaN])('refuses a capacity of %d', (capacity) => {
    expect(() => recentMap(capacity)).toThrow(RangeError)
  })
})
