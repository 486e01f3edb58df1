import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { sipHash } from '../src/sipHash.js'

const golden = JSON.parse(readFileSync('test/golden/sipHash.json', 'utf8')) as { readonly hashes: readonly string[] } // made by sipHash.py

const bytesTo = (count: number): Uint8Array => Uint8Array.from({ length: count }, (_, i) => i)

describe('sipHash', () => {
  it("gives the paper's value for its test message", () => {
    expect(sipHash(bytesTo(15), bytesTo(16))).toBe('a129ca6149be45e5')
  })

  it("gives OpenSSL's values for messages of 0 to 63 bytes", () => {
    expect(golden.hashes.map((_, count) => sipHash(bytesTo(count), bytesTo(16)))).toEqual(golden.hashes)
    expect(golden.hashes).toHaveLength(64)
  })

  it('law: a view into a larger buffer has the hash of its bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.uint8Array({ minLength: 16, maxLength: 16 }), fc.nat(9), (bytes, key, start) => {
        const around = new Uint8Array(bytes.length + start + 3).fill(7)
        around.set(bytes, start)
        expect(sipHash(around.subarray(start, start + bytes.length), key)).toBe(sipHash(bytes, key))
      }),
    )
  })

  it('law: another length, byte or key is another hash', () => {
    const key = fc.uint8Array({ minLength: 16, maxLength: 16 })
    fc.assert(
      fc.property(
        fc.uint8Array({ minLength: 1 }),
        key,
        fc.nat(),
        fc.integer({ min: 1, max: 255 }),
        (bytes, k, at, by) => {
          const changed = Uint8Array.from(bytes, (byte, i) => (i === at % bytes.length ? byte ^ by : byte))
          const other = Uint8Array.from(k, (byte, i) => (i === at % 16 ? byte ^ by : byte))
          const hashes = [
            sipHash(bytes, k),
            sipHash(changed, k),
            sipHash(bytes, other),
            sipHash(Uint8Array.from([...bytes, 0]), k),
          ]
          expect(new Set(hashes).size).toBe(4)
        },
      ),
    )
  })

  it('refuses a key of another length', () => {
    expect(() => sipHash(bytesTo(3), bytesTo(8))).toThrow(new RangeError('sipHash: the key must have 16 bytes, got 8'))
  })
})
