/** Damaged files give an error or a correct read, within the memory that the file needs. */
import { checkLaws, codecLaws } from '@tandem-rl/testing'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decodeSafetensors, encodeSafetensors } from '../../../src/data/codecs/safetensors.js'
import { bytesOf } from '../../../src/data/codecs/storage.js'
import { mutated } from '../../kit/mutations.js'
import { anyStoredArrays, contentsOf, fileOf } from '../../kit/storedArrays.js'

const samples = anyStoredArrays.map((arrays) => ({ build: () => arrays }))

describe('safetensors as a codec', () => {
  checkLaws(
    it,
    codecLaws(
      {
        encode: encodeSafetensors,
        decode: (bytes) => {
          const result = decodeSafetensors(bytes)
          return result._tag === 'Left' ? result : { _tag: 'Right', right: result.right.arrays }
        },
        equals: (a, b) => JSON.stringify(contentsOf(a)) === JSON.stringify(contentsOf(b)),
        damage: 'survived', // the format has no checksum
      },
      samples,
    ),
  )
})

const MUTANTS = 10_000

describe('10,000 damaged files', () => {
  const originals = fc.sample(anyStoredArrays, { seed: 1, numRuns: 200 }).map((arrays) => encodeSafetensors(arrays))
  const mutants = mutated(originals, { seed: 1, count: MUTANTS })

  it('law 86: they are refused or read correctly, and no array is larger than its part of the file', () => {
    let [refused, read] = [0, 0]
    for (const bytes of mutants) {
      const before = Uint8Array.from(bytes)
      const result = decodeSafetensors(bytes)
      if (result._tag === 'Left') {
        refused++
        expect(result.left.reason).not.toBe('')
      } else {
        read++
        const { arrays } = result.right
        const stored = [...arrays.values()].reduce(
          (sum, { type, data }) => sum + bytesOf(data).length / (type === 'F16' || type === 'BF16' ? 2 : 1),
          0,
        )
        const header = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true))
        if (stored !== bytes.length - 8 - header) expect.fail(`${stored} bytes of numbers in a file of ${bytes.length}`)
      }
      if (Buffer.compare(before, bytes) !== 0) expect.fail('the bytes were changed')
    }
    expect(refused + read).toBe(MUTANTS)
    expect(refused).toBeGreaterThan(MUTANTS / 2)
    expect(read).toBeGreaterThan(MUTANTS / 20)
  })

  it('law 86: files that claim more than they hold make no array for it', () => {
    const huge = 2 ** 28
    const claims = [
      fileOf({ x: { dtype: 'U8', shape: [huge], data_offsets: [0, huge] } }, [1, 2, 3]),
      fileOf({ x: { dtype: 'F16', shape: [huge], data_offsets: [0, 2 * huge] } }, [1, 2, 3]),
      fileOf(
        {
          a: { dtype: 'U8', shape: [3], data_offsets: [0, 3] },
          b: { dtype: 'I8', shape: [huge], data_offsets: [3, 3 + huge] },
        },
        [1, 2, 3],
      ),
      fileOf('{}').fill(0x0f, 0, 4), // a header of 252 million bytes
    ]
    const before = process.memoryUsage().arrayBuffers
    for (const bytes of claims) expect(decodeSafetensors(bytes)._tag).toBe('Left')
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(huge / 100)
  })
})
