import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  BLOCK_SIZE,
  cachedBytes,
  makePrefixCache,
  type PrefixCache,
} from '../../../src/modules/generation/prefixCache.js'
import type { KeyValues } from '../../../src/modules/generation/runner/modelRunner.js'

/** Keys and values that are the tokens themselves. */
const readOf =
  (tokens: Int32Array) =>
  (from: number, to: number): KeyValues => ({
    length: to - from,
    layers: [{ keys: Float32Array.from(tokens.slice(from, to)), values: new Float32Array(to - from) }],
  })

const BLOCK_BYTES = cachedBytes(readOf(new Int32Array(BLOCK_SIZE))(0, BLOCK_SIZE))
const ROOM = 1000 * BLOCK_BYTES

const put = (cache: PrefixCache, tokens: Int32Array, space = '', bytes = ROOM): void =>
  cache.put(space, tokens, { read: readOf(tokens), bytes })

const tokensIn = (parts: readonly KeyValues[]): readonly number[] => parts.flatMap(({ layers }) => [...layers[0]!.keys])

/** Sequences that begin alike, in blocks of one token repeated, with an end of their own. */
const sequence = fc
  .tuple(fc.array(fc.nat(2), { maxLength: 5 }), fc.nat(BLOCK_SIZE - 1))
  .map(([blocks, end]) =>
    Int32Array.from([...blocks.flatMap((id) => Array(BLOCK_SIZE).fill(id)), ...Array(end).fill(9)]),
  )

const sharedBlocks = (a: Int32Array, b: Int32Array): number => {
  const differs = a.findIndex((id, i) => id !== b[i])
  return Math.floor((differs < 0 ? Math.min(a.length, b.length) : differs) / BLOCK_SIZE)
}

describe('a prefix cache', () => {
  it('finds the longest beginning in whole blocks that was put in, with the right numbers', () => {
    fc.assert(
      fc.property(fc.array(sequence), sequence, fc.nat(100), (known, wanted, limit) => {
        const cache = makePrefixCache()
        for (const tokens of known) put(cache, tokens)
        const expected = Math.min(
          Math.floor(limit / BLOCK_SIZE),
          known.reduce((most, tokens) => Math.max(most, sharedBlocks(tokens, wanted)), 0),
        )
        expect(tokensIn(cache.find('', wanted, limit))).toEqual([...wanted.subarray(0, expected * BLOCK_SIZE)])
        expect(cache.find('another', wanted, limit)).toEqual([])
      }),
    )
  })

  it('holds each block once, and asks only for those that it lacks', () => {
    fc.assert(
      fc.property(fc.array(sequence), (known) => {
        const cache = makePrefixCache()
        let asked = 0
        for (const tokens of known) {
          const read = readOf(tokens)
          cache.put('', tokens, {
            read: (from, to) => {
              asked++
              return read(from, to)
            },
            bytes: ROOM,
          })
        }
        const whole = known.flatMap((tokens) =>
          Array.from({ length: Math.floor(tokens.length / BLOCK_SIZE) }, (_, i) =>
            tokens.subarray(0, (i + 1) * BLOCK_SIZE).join(),
          ),
        )
        expect(asked).toBe(new Set(whole).size)
        expect(cache.bytes()).toBe(asked * BLOCK_BYTES)
      }),
    )
  })

  it('never holds more than it may, and what is left is found from its beginning', () => {
    fc.assert(
      fc.property(fc.array(sequence, { minLength: 1 }), fc.nat(6), (known, blocks) => {
        const cache = makePrefixCache()
        for (const tokens of known) {
          put(cache, tokens, '', blocks * BLOCK_BYTES)
          expect(cache.bytes()).toBeLessThanOrEqual(blocks * BLOCK_BYTES)
          const found = cache.find('', tokens, tokens.length).length
          expect(found).toBe(Math.min(blocks, Math.floor(tokens.length / BLOCK_SIZE)))
        }
        const reachable = new Set(known.flatMap((tokens) => cache.find('', tokens, tokens.length)))
        expect(reachable.size * BLOCK_BYTES).toBe(cache.bytes())
        cache.trim(0)
        expect(cache.bytes()).toBe(0)
      }),
    )
  })

  it('forgets what was not used for longest', () => {
    const [a, b, c] = [1, 2, 3].map((id) => new Int32Array(BLOCK_SIZE).fill(id)) as [Int32Array, Int32Array, Int32Array]
    const cache = makePrefixCache()
    put(cache, a)
    put(cache, b)
    cache.find('', a, BLOCK_SIZE)
    put(cache, c, '', 2 * BLOCK_BYTES)
    expect([a, b, c].map((tokens) => cache.find('', tokens, BLOCK_SIZE).length)).toEqual([1, 0, 1])
  })

  it('a space cannot be mistaken for the name of a block', () => {
    const tokens = new Int32Array(2 * BLOCK_SIZE).fill(4)
    const cache = makePrefixCache()
    put(cache, tokens)
    for (const space of ['0', '"0"', '0:4', '1']) expect(cache.find(space, tokens, tokens.length)).toEqual([])
  })
})
