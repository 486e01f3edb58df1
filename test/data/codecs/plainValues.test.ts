import { anyHistory } from '@tandem-rl/testing'
import { sameHistory } from '@tandem-rl/text'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { List } from 'immutable'
import { describe, expect, it } from 'vitest'
import { decodeValue, encodeValue } from '../../../src/data/codecs/plainValues.js'
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
    { $type: { $type: 'record', fields: {} } },
    { $list: [1], $x: { $record: 2 }, nested: { $number: 'NaN' } },
    JSON.parse('{"__proto__":{"a":1},"2":1,"1":2,"$type":0}') as unknown,
    { _tag: 'History', messages: List([{ role: 'user' }]) },
    { _tag: 'History', messages: [] },
    10n ** 9_998n,
  ])('give back %o', (value) => {
    expect(through(value)).toStrictEqual(value)
  })

  it('give back conversations as such', () => {
    fc.assert(
      fc.property(anyHistory, (history) => {
        const back = through(history) as typeof history // a history was written
        expect(List.isList(back.messages)).toBe(true)
        expect(sameHistory(back, history)).toBe(true)
        expect(encodeValue(history)).toMatchObject({ right: { $type: 'History', messages: expect.any(Array) } })
      }),
    )
  })

  it('list everything that cannot be written, with its place', () => {
    const loop: Record<string, unknown> = { name: 'loop' }
    loop.self = { loop }
    expect(encodeValue({ f: () => 1, list: [new Map(), Symbol('s')], loop, bytes: Buffer.of(1) })).toEqual(
      E.left([
        { path: ['f'], reason: 'a function' },
        { path: ['list', '0'], reason: 'an object of class Map' },
        { path: ['list', '1'], reason: 'a symbol' },
        { path: ['loop', 'self', 'loop'], reason: 'a value that contains itself' },
        { path: ['bytes'], reason: 'an object of class Buffer' },
      ]),
    )
    const match = /a/.exec('a')
    const hidden = Object.defineProperty({}, 'x', { value: 1 })
    expect(encodeValue([match, new Array(1), hidden, { [Symbol('s')]: 1 }, 10n ** 9_999n, Object.create({})])).toEqual(
      E.left([
        { path: ['0'], reason: 'an array with holes or named properties' },
        { path: ['1'], reason: 'an array with holes or named properties' },
        { path: ['2'], reason: 'a record with keys that are symbols or hidden' },
        { path: ['3'], reason: 'a record with keys that are symbols or hidden' },
        { path: ['4'], reason: 'a bigint of 10000 digits or more' },
        { path: ['5'], reason: 'an object of class Object' },
      ]),
    )
    const shared = { a: 1 }
    expect(encodeValue([shared, shared])).toEqual(E.right([{ a: 1 }, { a: 1 }]))
  })

  it('refuse marks that say nothing, with their place, and never throw', () => {
    expect(decodeValue({ a: [{ $type: 'number', value: 'one' }] })).toEqual(
      E.left('a.0: a $type "number" with invalid content'),
    )
    expect(decodeValue({ $type: 'bigint', value: '1n' })).toEqual(E.left('a $type "bigint" with invalid content'))
    expect(decodeValue({ $type: 'Function' })).toEqual(E.left('unknown $type "Function"'))
    expect(decodeValue({ $type: 'History', messages: [{ role: 'user' }] })).toMatchObject({ _tag: 'Left' })
    expect(decodeValue({ $type: 'record', fields: [['a']] })).toEqual(E.left('a $type "record" with invalid content'))
    expect(decodeValue({ $type: 'Int32Array', values: ['a'] })).toEqual(
      E.left('a $type "Int32Array" with invalid content'),
    )
    const marks = fc.record(
      { $type: fc.constantFrom('number', 'bigint', 'Date', 'List', 'History', 'record', 'Uint8Array', 'x', 7) },
      {},
    )
    fc.assert(
      fc.property(
        fc.tuple(
          marks,
          fc.dictionary(fc.constantFrom('value', 'items', 'fields', 'values', 'messages'), fc.jsonValue()),
        ),
        ([mark, rest]) => {
          expect(['Left', 'Right']).toContain(decodeValue({ ...mark, ...rest })._tag)
        },
      ),
    )
  })

  it.each([
    { $type: 'undefined', value: 1 },
    { $type: 'number', value: 'NaN', more: 1 },
    { $type: 'number' },
    { $type: 'bigint', value: '-0' },
    { $type: 'bigint', value: '9'.repeat(10_001) },
    { $type: 'Date', value: '1' },
    { $type: 'Date', value: '2024-02-30T00:00:00.000Z' },
    { $type: 'Uint8Array', values: [256] },
    { $type: 'Int32Array', values: [0.5] },
    { $type: 'Float32Array', values: [1e300] },
    { $type: 'List', items: {} },
    { $type: 'record', fields: null },
    { $type: 'toString' },
    Number.POSITIVE_INFINITY,
    undefined,
    1n,
    new Date(0),
    { a: [new Map()] },
  ])('refuse %o, which encodeValue does not write', (json) => {
    expect(decodeValue(json)._tag).toBe('Left')
  })

  it('take 500 levels and refuse one more, of every kind and both ways', () => {
    const kinds: readonly (readonly [(inner: unknown) => unknown, (inner: unknown) => unknown])[] = [
      [(inner) => [inner], (inner) => [inner]],
      [(inner) => ({ a: inner }), (inner) => ({ a: inner })],
      [(inner) => List([inner]), (inner) => ({ $type: 'List', items: [inner] })],
      [(inner) => ({ $type: inner }), (inner) => ({ $type: 'record', fields: { $type: inner } })],
    ]
    const nested = (around: (inner: unknown) => unknown, levels: number, core: unknown): unknown =>
      Array.from({ length: levels }).reduce(around, core)
    for (const [value, json] of kinds) {
      expect(encodeValue(nested(value, 500, -0))).toEqual(E.right(nested(json, 500, { $type: 'number', value: '-0' })))
      expect(through(nested(value, 500, -0))).toStrictEqual(nested(value, 500, -0))
      expect(encodeValue(nested(value, 501, -0))).toMatchObject({
        left: [{ reason: 'a value more than 500 levels deep' }],
      })
      expect(decodeValue(nested(json, 501, 1))).toMatchObject({ left: expect.stringMatching(/more than 500 levels$/) })
      expect(decodeValue(nested(json, 100_000, 1))._tag).toBe('Left')
    }
    const text = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
    expect(decodeValue(JSON.parse(text))._tag).toBe('Left')
  })
})
