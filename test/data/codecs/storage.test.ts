import { orThrow } from '@tandem-rl/base'
import fc from 'fast-check'
import { left, right } from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { decodeSafetensors, encodeSafetensors } from '../../../src/data/codecs/safetensors.js'
import { allFinite, asInt32, numbersFrom, STORAGE_TYPES, type StoredArray } from '../../../src/data/codecs/storage.js'
import { anyStoredArray, bitsOf } from '../../kit/storedArrays.js'

/** Numbers after a round trip through storage. */
const through = (values: readonly number[], type: 'F16' | 'BF16'): Float32Array => {
  const bytes = encodeSafetensors(new Map([['x', { shape: [values.length], data: Float32Array.from(values), type }]]))
  return orThrow(decodeSafetensors(bytes)).arrays.get('x')!.data as Float32Array // of a 16-bit type
}

/** The numbers of 16-bit words. */
const widened = (words: readonly number[], type: 'F16' | 'BF16'): Float32Array =>
  numbersFrom(type, new Uint8Array(Uint16Array.from(words).buffer), 'copy')

const throughBfloat16 = (values: readonly number[]): Float32Array => through(values, 'BF16')

/** IEEE half precision by its definition. */
const float16ToFloat32 = (bits: number): number => {
  const sign = bits & 0x8000 ? -1 : 1
  const exponent = (bits >> 10) & 0x1f
  const fraction = bits & 0x3ff
  if (exponent === 0) return sign * fraction * 2 ** -24
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15)
}

const EVERY_WORD = Array.from({ length: 2 ** 16 }, (_, bits) => bits)

/** The nearest number with 8 bits of precision, ties to the even one, in float64 arithmetic. */
const nearestBfloat16 = (x: number): number => {
  if (x === 0 || !Number.isFinite(x)) return x
  const exponent = Math.max(Math.floor(Math.log2(Math.abs(x))), -126)
  const quantum = 2 ** (exponent - 7)
  const steps = Math.abs(x) / quantum // exact: a division by a power of 2
  const below = Math.floor(steps)
  const rounded = steps - below > 0.5 || (steps - below === 0.5 && below % 2 === 1) ? below + 1 : below
  const result = Math.sign(x) * rounded * quantum
  return Math.abs(result) >= 2 ** 128 ? Math.sign(x) * Number.POSITIVE_INFINITY : result
}

describe('BF16', () => {
  it('rounds to the nearest, ties to even, like the float64 oracle', () => {
    const word = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 })
    // Words whose low half is near a tie, and any others.
    const ties = fc.tuple(word, fc.constantFrom(0x7fff, 0x8000, 0x8001)).map(([high, low]) => (high & 0xffff0000) | low)
    const law = fc.property(fc.array(fc.oneof(word, ties)), (words) => {
      const values = [...new Float32Array(Int32Array.from(words).buffer)]
      expect([...throughBfloat16(values)]).toEqual(values.map(nearestBfloat16))
    })
    fc.assert(law)
  })

  it('keeps zeros with their sign, infinities and NaN, and rounds what is too large to infinity', () => {
    const largest = 3.4028234663852886e38
    expect([...throughBfloat16([0, -0, Infinity, -Infinity, Number.NaN, largest, -largest, 1, 2 ** -149])]).toEqual([
      0,
      -0,
      Infinity,
      -Infinity,
      Number.NaN,
      Infinity,
      -Infinity,
      1,
      0,
    ])
  })

  it('is exact for numbers that have 8 bits', () => {
    const law = fc.property(fc.integer({ min: -255, max: 255 }), fc.integer({ min: -100, max: 100 }), (n, exponent) => {
      fc.pre(n !== 0)
      expect([...throughBfloat16([n * 2 ** exponent])]).toEqual([n * 2 ** exponent])
    })
    fc.assert(law)
  })
})

describe('F16', () => {
  // IEEE 754-2019, binary16.
  it.each([
    [0x0000, 0],
    [0x8000, -0],
    [0x0001, 2 ** -24],
    [0x03ff, 1023 * 2 ** -24],
    [0x0400, 2 ** -14],
    [0x3c00, 1],
    [0x3c01, 1 + 2 ** -10],
    [0xc000, -2],
    [0x3555, 0.333251953125],
    [0x7bff, 65504],
    [0xfbff, -65504],
    [0x7c00, Number.POSITIVE_INFINITY],
    [0xfc00, Number.NEGATIVE_INFINITY],
    [0x7e00, Number.NaN],
    [0xfc01, Number.NaN],
  ])('bits %i are %d', (bits, expected) => {
    expect(widened([bits], 'F16')[0]).toBe(expected)
  })

  it('every word is the number that the definition says', () => {
    expect([...widened(EVERY_WORD, 'F16')]).toEqual(EVERY_WORD.map(float16ToFloat32))
  })

  it('every word is written back to the same bits, NaN included; so is every BF16', () => {
    for (const type of ['F16', 'BF16'] as const) {
      const bytes = new Uint8Array(Uint16Array.from(EVERY_WORD).buffer)
      const file = encodeSafetensors(
        new Map([['x', { type, shape: [2 ** 16], data: numbersFrom(type, bytes, 'copy') }]]),
      )
      expect(Buffer.compare(file.subarray(-bytes.length), bytes)).toBe(0)
    }
  })

  it('rounds to the nearest, ties to even: no word is nearer than the one that was chosen', () => {
    const finite = EVERY_WORD.filter((bits) => bits < 0x7c00).map(float16ToFloat32)
    const near = fc.tuple(
      fc.nat(0x7bff),
      fc.constantFrom(-(2 ** -13), 0, 2 ** -13, 2 ** -20, -(2 ** -20)),
      fc.boolean(),
    )
    const law = fc.property(fc.oneof(near, near), ([bits, shift, isNegative]) => {
      const middle = (finite[bits]! + (finite[bits + 1] ?? 65536)) / 2
      const value = Math.fround(middle * (1 + shift))
      const [actual] = through([isNegative ? -value : value], 'F16')
      const distance = (i: number): number => Math.abs((finite[i] ?? 65536) - value)
      const candidates = [bits - 1, bits, bits + 1, bits + 2].filter((i) => i >= 0 && i <= 0x7c00)
      const best = candidates.reduce((a, b) =>
        distance(b) < distance(a) || (distance(b) === distance(a) && b % 2 === 0) ? b : a,
      )
      const expected = finite[best] ?? Number.POSITIVE_INFINITY
      expect(actual).toBe(isNegative ? -expected : expected)
    })
    fc.assert(law, { numRuns: 1000 })
  })

  it('is zero with its sign below half of the smallest number, and infinity from 65520 on', () => {
    const tiny = 2 ** -25
    expect([...through([tiny, -tiny, tiny * 1.0001, 1e-45, 65519.99, 65520, -1e30], 'F16')]).toEqual([
      0,
      -0,
      2 ** -24,
      0,
      65504,
      Number.POSITIVE_INFINITY,
      Number.NEGATIVE_INFINITY,
    ])
  })
})

describe('a NaN whose payload does not fit into 16 bits', () => {
  it.each(['F16', 'BF16'] as const)('stays a NaN as %s', (type) => {
    const nan = new Float32Array(Uint32Array.of(0x7f800001, 0xff800001).buffer)
    const bytes = encodeSafetensors(new Map([['x', { shape: [2], data: nan, type }]]))
    expect([...orThrow(decodeSafetensors(bytes)).arrays.get('x')!.data]).toEqual([Number.NaN, Number.NaN])
  })
})

describe('allFinite', () => {
  it('is true unless a number is NaN or infinite, wherever it stands', () => {
    fc.assert(
      fc.property(fc.float32Array({ maxLength: 20 }), (numbers) => {
        expect(allFinite(numbers)).toBe(numbers.every(Number.isFinite))
      }),
    )
    expect(allFinite(Float32Array.of(3.4028234663852886e38, -3.4028234663852886e38, 1e-45, -0))).toBe(true)
  })
})

describe('numbersFrom', () => {
  it('shares memory or copies it, to the same numbers', () => {
    const law = fc.property(anyStoredArray, fc.nat(8), ({ type, data }, offset) => {
      fc.pre(type !== 'F16' && type !== 'BF16')
      const bytes = new Uint8Array(offset + data.byteLength)
      bytes.set(bitsOf(data), offset)
      const place = bytes.subarray(offset)
      const [copied, shared] = [numbersFrom(type, place, 'copy'), numbersFrom(type, place, 'share')]
      expect([bitsOf(copied), bitsOf(shared)]).toEqual([bitsOf(data), bitsOf(data)])
      expect(copied.buffer).not.toBe(bytes.buffer)
      expect(shared.buffer === bytes.buffer).toBe(offset % data.BYTES_PER_ELEMENT === 0)
    })
    fc.assert(law)
  })
})

describe('asInt32', () => {
  it('keeps every number that fits, of every type of whole numbers', () => {
    const law = fc.property(anyStoredArray, (array) => {
      const result = asInt32(array)
      const isWhole = !/^B?F/.test(array.type)
      const fits = isWhole && [...array.data].every((n) => Number(n) === (Number(n) | 0))
      expect(result._tag).toBe(fits ? 'Right' : 'Left')
      if (result._tag === 'Right') expect([...result.right.data]).toEqual(Array.from(array.data, Number))
    })
    fc.assert(law, { numRuns: 500 })
  })

  it.each<[StoredArray, string]>([
    [
      { type: 'I64', shape: [2], data: BigInt64Array.of(1n, 2n ** 31n) },
      'element 1 is 2147483648, which is beyond int32',
    ],
    [
      { type: 'I64', shape: [], data: BigInt64Array.of(-(2n ** 63n)) },
      'element 0 is -9223372036854775808, which is beyond int32',
    ],
    [{ type: 'U32', shape: [1], data: Uint32Array.of(2 ** 32 - 1) }, 'element 0 is 4294967295, which is beyond int32'],
    [{ type: 'F32', shape: [1], data: Float32Array.of(1) }, 'F32 does not hold integers'],
  ])('names what it cannot hold (%#)', (array, reason) => {
    expect(asInt32(array)).toEqual(left({ _tag: 'FormatFailure', format: 'int32', reason }))
  })

  it('gives an int32 array back', () => {
    const data = BigInt64Array.of(-(2n ** 31n), 2n ** 31n - 1n)
    expect(asInt32({ type: 'I64', shape: [1, 2], data })).toEqual(
      right({ type: 'I32', shape: [1, 2], data: Int32Array.of(-(2 ** 31), 2 ** 31 - 1) }),
    )
  })

  it('knows every type', () => {
    expect(STORAGE_TYPES).toHaveLength(18)
  })
})
