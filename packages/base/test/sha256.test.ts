/** SHA-256 in JavaScript against Node's. */
import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { liveDigest } from '../src/host/digest.js'
import { sha256 } from '../src/sha256.js'

const expected = (contents: Uint8Array | string): string => createHash('sha256').update(contents).digest('hex')

it('agrees with Node for every length around the blocks of 64 bytes', () => {
  for (let length = 0; length <= 200; length++) {
    const bytes = Uint8Array.from({ length }, (_, i) => (i * 37) % 256)
    expect(sha256(bytes)).toBe(expected(bytes))
  }
})

it('agrees with Node for every text', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 300 }), (text) => {
      expect(sha256(text)).toBe(expected(text))
    }),
  )
})

it.each([
  ['JavaScript', sha256],
  ['Node', liveDigest],
])('of pieces is that of the whole, at every time, in %s', (_, digest) => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 150 }), { maxLength: 6 }), (pieces) => {
      const running = digest.start()
      const all: number[] = []
      for (const piece of pieces) {
        running.add(piece)
        all.push(...piece)
        expect(running.value()).toBe(expected(Uint8Array.from(all)))
      }
    }),
  )
})
