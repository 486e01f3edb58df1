import { readFileSync } from 'node:fs'
import { type GgufType, restoreBlocks } from '@tandem-rl/gguf'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { GGUF_TYPES } from '../src/blocks.js'

/** Numbers that the Python package gguf restores, made by test/golden/generate/ggufFiles.py. */
const golden = JSON.parse(readFileSync('packages/gguf/test/golden/blocks.json', 'utf8')) as Readonly<
  Record<GgufType, { readonly bytes: string; readonly numbers: string }>
> // the generator's own format

const bits = (numbers: Float32Array): Uint32Array => new Uint32Array(numbers.buffer, numbers.byteOffset, numbers.length)

const numbersOf = (text: string): Float32Array => {
  const bytes = new Uint8Array(Buffer.from(text, 'base64'))
  return new Float32Array(bytes.buffer)
}

describe('restoreBlocks', () => {
  it.each(GGUF_TYPES)('restores every bit of the numbers that gguf restores from %s', (type) => {
    const bytes = new Uint8Array(Buffer.from(golden[type].bytes, 'base64'))
    const wanted = numbersOf(golden[type].numbers)
    const restored = new Float32Array(wanted.length)
    restoreBlocks(type, bytes, restored)
    expect(bits(restored)).toEqual(bits(wanted))
  })

  it.each(GGUF_TYPES)('restores the blocks of %s one by one as all at once', (type) => {
    const bytes = new Uint8Array(Buffer.from(golden[type].bytes, 'base64'))
    const whole = numbersOf(golden[type].numbers)
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 4 }), (blocks) => {
        const [size, numbers] = [bytes.length / whole.length, whole.length / (bytes.length / sizeOf(type))]
        expect(size).toBeGreaterThan(0)
        const part = new Float32Array(blocks * numbers)
        restoreBlocks(type, bytes.subarray(0, blocks * sizeOf(type)), part)
        expect(bits(part)).toEqual(bits(whole.slice(0, part.length)))
      }),
    )
  })

  it('refuses bytes that are not whole blocks', () => {
    expect(() => restoreBlocks('Q4_0', new Uint8Array(17), new Float32Array(32))).toThrow(
      /Q4_0 has 32 numbers in 18 bytes/,
    )
    expect(() => restoreBlocks('Q4_0', new Uint8Array(18), new Float32Array(31))).toThrow(RangeError)
  })
})

const SIZES: Readonly<Record<GgufType, number>> = {
  F32: 4,
  F16: 2,
  BF16: 2,
  Q4_0: 18,
  Q4_1: 20,
  Q5_0: 22,
  Q5_1: 24,
  Q8_0: 34,
  Q4_K: 144,
  Q5_K: 176,
  Q6_K: 210,
}

const sizeOf = (type: GgufType): number => SIZES[type]
