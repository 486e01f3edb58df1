import fc from 'fast-check'
import { is, OrderedMap } from 'immutable'
import { describe, expect, it } from 'vitest'
import {
  mapOf,
  mapValues,
  namesOf,
  type Spine,
  sameNames,
  someValue,
  spineFrom,
  spineOf,
  valueAt,
  valuesOf,
  withValue,
} from '../../../src/data/tensorDict/spine.js'

/**
 * Entries on both sides of the limit of 32, where arrays become an OrderedMap; names like
 * `__proto__` and `7` among them.
 */
const entries = fc.oneof(
  fc.uniqueArray(fc.tuple(fc.string(), fc.integer()), { selector: ([name]) => name, maxLength: 6 }),
  fc
    .integer({ min: 30, max: 35 })
    .map((size) => Array.from({ length: size }, (_, i): [string, number] => [`name ${i}`, i])),
  fc.constant<[string, number][]>([
    ['__proto__', 1],
    ['7', 2],
    ['constructor', 3],
    ['1', 4],
  ]),
)

const made = (pairs: readonly (readonly [string, number])[]): Spine<number> =>
  spineFrom(
    pairs.map(([name]) => name),
    pairs.map(([, value]) => value),
  )

const pairsOf = (spine: Spine<number>): readonly (readonly [string, number])[] => {
  const values = [...valuesOf(spine)]
  return [...namesOf(spine)].map((name, i) => [name, values[i]!])
}

const name = fc.oneof(
  fc.string(),
  fc.integer({ min: 0, max: 35 }).map((i) => `name ${i}`),
)

describe('spine', () => {
  it('holds the entries of an OrderedMap, in its order', () => {
    fc.assert(
      fc.property(entries, name, (pairs, other) => {
        const model = OrderedMap(pairs)
        for (const spine of [made(pairs), spineOf(model)]) {
          expect(pairsOf(spine)).toEqual([...model])
          expect(is(mapOf(spine), model)).toBe(true)
          for (const key of [...model.keys(), other]) expect(valueAt(spine, key)).toBe(model.get(key))
          expect(someValue(spine, (value) => value === 2)).toBe(model.some((value) => value === 2))
        }
      }),
    )
  })

  it('gives the same map whenever it is asked, and the one that it was made from', () => {
    fc.assert(
      fc.property(entries, (pairs) => {
        const spine = made(pairs)
        expect(mapOf(spine)).toBe(mapOf(spine))
        const model = OrderedMap(pairs)
        expect(mapOf(spineOf(model))).toBe(model)
      }),
    )
  })

  it('changes as an OrderedMap does, and leaves the spine that it came from as it was', () => {
    fc.assert(
      fc.property(entries, fc.array(fc.tuple(name, fc.integer()), { maxLength: 8 }), (pairs, changes) => {
        const before = made(pairs)
        const after = changes.reduce((spine, [key, value]) => withValue(spine, key, value), before)
        const model = changes.reduce((map, [key, value]) => map.set(key, value), OrderedMap(pairs))
        expect(pairsOf(after)).toEqual([...model])
        expect(pairsOf(before)).toEqual(pairs)
        expect(after._tag).toBe(model.size > 32 ? 'Many' : 'Few')
      }),
    )
  })

  it('is the same object when a value is set that is there', () => {
    fc.assert(
      fc.property(entries, (pairs) => {
        const spine = made(pairs)
        for (const [key, value] of pairs) expect(withValue(spine, key, value)).toBe(spine)
      }),
    )
  })

  it('maps values with their names, and keeps the names', () => {
    fc.assert(
      fc.property(entries, (pairs) => {
        const mapped = mapValues(made(pairs), (value, key) => `${key} ${value}`)
        expect([...valuesOf(mapped)]).toEqual(pairs.map(([key, value]) => `${key} ${value}`))
        expect(sameNames(mapped, made(pairs))).toBe(true)
      }),
    )
  })

  it('has the same names as another in any order, and not as one that lacks or adds a name', () => {
    fc.assert(
      fc.property(entries, (pairs) => {
        const spine = made(pairs)
        expect(sameNames(spine, made(pairs.toReversed()))).toBe(true)
        const more = withValue(spine, 'a name that nothing else has', 0)
        expect(sameNames(spine, more)).toBe(false)
        expect(sameNames(more, spine)).toBe(false)
      }),
    )
  })
})
