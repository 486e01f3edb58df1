/** Equality and hashes of plain values. */
import { Map as ImmutableMap, List } from 'immutable'
import { describe, expect, it } from 'vitest'
import { equalValues, hashNumbers, hashValue, mix, sameNumbers } from '../../../src/data/tensorDict/values.js'

const bare = (fields: object): object => Object.assign(Object.create(null), fields)

const instance = new Date(0)

const EQUAL: readonly (readonly [unknown, unknown])[] = [
  [Number.NaN, Number.NaN],
  [null, null],
  ['a', 'a'],
  [[], []],
  [
    [1, ['a', { b: null }]],
    [1, ['a', { b: null }]],
  ],
  [List([1, [2]]), List([1, [2]])],
  [
    { a: 1, b: [2] },
    { b: [2], a: 1 },
  ],
  [{ a: undefined }, { a: undefined }],
  [{ a: 1 }, bare({ a: 1 })],
  [Int32Array.of(1, 2), Int32Array.of(1, 2)],
  [Float32Array.of(Number.NaN), Float32Array.of(Number.NaN)],
  [ImmutableMap({ a: 1 }), ImmutableMap({ a: 1 })],
  [instance, instance],
]

const UNEQUAL: readonly (readonly [unknown, unknown])[] = [
  [1, 2],
  [1, '1'],
  [null, {}],
  [undefined, null],
  [{}, undefined],
  [[], {}],
  [[1], [1, 2]],
  [
    [1, 2],
    [2, 1],
  ],
  [[1], List([1])],
  [List([1]), List([1, 2])],
  [List(), {}],
  [{ a: 1 }, { a: 1, b: 2 }],
  [{ a: undefined }, { b: undefined }],
  [{ a: 1 }, { a: 2 }],
  [Int32Array.of(1), Float32Array.of(1)],
  [Int32Array.of(1), [1]],
  [Int32Array.of(1), { 0: 1 }],
  [Int32Array.of(1), Int32Array.of(2)],
  [Float32Array.of(0), Float32Array.of(-0)],
  [new DataView(new ArrayBuffer(1)), new DataView(new ArrayBuffer(1))],
  [new Error('a'), new Error('a')],
  [new (class A {})(), {}],
  [{ a: 1 }, ImmutableMap({ a: 1 })],
]

describe('equalValues', () => {
  it.each(EQUAL.map(([a, b], i) => ({ i, a, b })))(
    'holds for pair $i, both ways, and their hashes are equal',
    ({ a, b }) => {
      expect([equalValues(a, b), equalValues(b, a)]).toEqual([true, true])
      expect(hashValue(a)).toBe(hashValue(b))
    },
  )

  it.each(UNEQUAL.map(([a, b], i) => ({ i, a, b })))('does not hold for pair $i, either way', ({ a, b }) => {
    expect([equalValues(a, b), equalValues(b, a)]).toEqual([false, false])
  })
})

describe('hashes', () => {
  const values = [
    ['a', 'b'],
    ['b', 'a'],
    { a: 1, b: 2 },
    { a: 2, b: 1 },
    Int32Array.of(1, 2),
    Int32Array.of(2, 1),
    Int32Array.of(1, 2, 0),
    List(['a']),
    { a: ['a'] },
    { a: ['b'] },
    null,
    true,
    {},
    [],
    [[]],
    new Date(5),
  ]

  it('of different values are different, where nothing speaks for a collision', () => {
    expect(new Set(values.map(hashValue)).size).toBe(values.length)
  })

  it('are whole numbers of 32 bits', () => {
    for (const value of [...values, 'a long text, many times over and over', [1e300, -1e300]])
      expect(hashValue(value) | 0).toBe(hashValue(value))
    expect(mix(2 ** 30, 2 ** 30) | 0).toBe(mix(2 ** 30, 2 ** 30))
  })

  it('of numbers tell their order, their number and their sign apart, not their kinds of NaN', () => {
    const lists = [[1, 2], [2, 1], [1, 2, 0], [-1, 2], [], [0]]
    expect(new Set(lists.map(hashNumbers)).size).toBe(lists.length)
    expect(hashNumbers([Number.NaN])).toBe(hashNumbers(Float64Array.of(Number.NaN)))
  })
})

describe('sameNumbers', () => {
  it('is bit for bit, of lists of one length', () => {
    expect(sameNumbers([1, Number.NaN], Float32Array.of(1, Number.NaN))).toBe(true)
    expect(sameNumbers([], [])).toBe(true)
    expect([sameNumbers([0], [-0]), sameNumbers([1], [1, 2]), sameNumbers([1, 2], [1]), sameNumbers([1], [2])]).toEqual(
      [false, false, false, false],
    )
  })
})
