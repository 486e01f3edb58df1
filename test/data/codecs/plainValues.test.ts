import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { List } from 'immutable'
import { describe, expect, it } from 'vitest'
import { decodeValue, encodeValue } from '../../../src/data/codecs/plainValues.js'
import { sameHistory } from '../../../src/data/history.js'
import { anyHistory } from '../../../src/testing/arbitraries.js'
import { anyAwkwardValue } from '../../kit/trajectories.js'

/** Through text, as a file has it. */
const through = (value: unknown): unknown => {
  const json = encodeValue(value)
  if (E.isLeft(json)) throw new Error(JSON.stringify(json.left))
  const back = decodeValue(JSON.parse(JSON.stringify(json.right)))
  if (E.isLeft(back)) throw new Error(back.left)
  return back.right
}

describe('encodeValue and decodeValue', () => {
  it('give back every value, in every bit', () => {
    fc.assert(
      fc.property(fc.oneof(anyAwkwardValue, fc.array(anyAwkwardValue, { maxLength: 3 })), (value) => {
        expect(through(value)).toStrictEqual(value)
      }),
    )
  })

  it('leave what JSON has as it is', () => {
    const law = fc.property(fc.jsonValue({ maxDepth: 3 }), (value) => {
      const plain: unknown = JSON.parse(JSON.stringify(value)) // without -0, which JSON does not have
      fc.pre(!JSON.stringify(plain).includes('$type'))
      expect(encodeValue(plain)).toEqual(E.right(plain))
    })
    fc.assert(law, { numRuns: 50 })
  })

  it.each([
    new Float32Array([1, Number.NaN, -0]),
    new Int32Array([-1]),
    new Uint8Array(0),
    List([List([1n])]),
    new Date(Number.NaN),
    Object.fromEntries([['__proto__', 1]]),
    [undefined, [undefined]],
  ])('give back %o', (value) => {
    expect(through(value)).toStrictEqual(value)
  })

  it('give back conversations as such', () => {
    fc.assert(
      fc.property(anyHistory, (history) => {
        expect(
          sameHistory(through({ history }) === undefined ? history : (through(history) as typeof history), history),
        ).toBe(true)
      }),
    )
  })

  it('list everything that cannot be written, with its place', () => {
    const loop: Record<string, unknown> = { name: 'loop' }
    loop.self = { loop }
    expect(encodeValue({ f: () => 1, list: [new Map(), Symbol('s')], loop, bytes: new BigInt64Array(1) })).toEqual(
      E.left([
        { path: ['f'], reason: 'a function' },
        { path: ['list', '0'], reason: 'an object of class Map' },
        { path: ['list', '1'], reason: 'a symbol' },
        { path: ['loop', 'self', 'loop'], reason: 'a value that contains itself' },
        { path: ['bytes'], reason: 'an object of class BigInt64Array' },
      ]),
    )
    const shared = { a: 1 }
    expect(encodeValue([shared, shared])).toEqual(E.right([{ a: 1 }, { a: 1 }]))
  })

  it('refuse marks that say nothing, with their place, and never throw', () => {
    expect(decodeValue({ a: [{ $type: 'number', value: 'one' }] })).toEqual(E.left('a.0: number that is none'))
    expect(decodeValue({ $type: 'bigint', value: '1n' })).toEqual(E.left('bigint that is none'))
    expect(decodeValue({ $type: 'Function' })).toEqual(E.left('unknown $type "Function"'))
    expect(decodeValue({ $type: 'History', messages: [{ role: 'user' }] })).toMatchObject({ _tag: 'Left' })
    expect(decodeValue({ $type: 'record', entries: [['a']] })).toEqual(E.left('record without pairs'))
    expect(decodeValue({ $type: 'Int32Array', values: ['a'] })).toEqual(
      E.left('Int32Array with values that are no numbers'),
    )
    const marks = fc.record(
      { $type: fc.constantFrom('number', 'bigint', 'Date', 'List', 'History', 'record', 'Uint8Array', 'x', 7) },
      {},
    )
    fc.assert(
      fc.property(
        fc.tuple(
          marks,
          fc.dictionary(fc.constantFrom('value', 'items', 'entries', 'values', 'messages'), fc.jsonValue()),
        ),
        ([mark, rest]) => {
          expect(['Left', 'Right']).toContain(decodeValue({ ...mark, ...rest })._tag)
        },
      ),
    )
  })
})
