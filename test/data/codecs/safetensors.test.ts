import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import {
  decodeSafetensors,
  encodeSafetensors,
  float16ToFloat32,
  type HostArray,
  type SafetensorsFile,
} from '../../../src/data/codecs/safetensors.js'

const decoded = (bytes: Uint8Array): SafetensorsFile => {
  const result = decodeSafetensors(bytes)
  if (E.isLeft(result)) throw new Error(result.left.reason)
  return result.right
}

const reasonOf = (bytes: Uint8Array): string => {
  const result = decodeSafetensors(bytes)
  if (E.isRight(result)) throw new Error('the file was accepted')
  expect(result.left).toMatchObject({ _tag: 'FormatFailure', format: 'safetensors' })
  return result.left.reason
}

/** A file with any header over any data: what another program, or a broken one, may have written. */
const fileOf = (header: unknown, data: readonly number[] = []): Uint8Array => {
  const text = new TextEncoder().encode(typeof header === 'string' ? header : JSON.stringify(header))
  const file = new Uint8Array(8 + text.length + data.length)
  new DataView(file.buffer).setBigUint64(0, BigInt(text.length), true)
  file.set(text, 8)
  file.set(data, 8 + text.length)
  return file
}

const headerOf = (file: Uint8Array): string => {
  const length = Number(new DataView(file.buffer, file.byteOffset).getBigUint64(0, true))
  return new TextDecoder().decode(file.subarray(8, 8 + length))
}

/** The bits of numbers: tells -0 from 0 and one NaN from another. */
const bitsOf = ({ buffer, byteOffset, length }: Float32Array | Int32Array): number[] => [
  ...new Uint32Array(buffer, byteOffset, length),
]

const shapes = fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 3 })

/** Any 32 bits as a float32, and any int32. */
const arrays: fc.Arbitrary<HostArray> = fc.tuple(shapes, fc.boolean()).chain(([shape, isFloat]) => {
  const length = shape.reduce((n, m) => n * m, 1)
  return fc.array(fc.integer(), { minLength: length, maxLength: length }).map((bits) => {
    const words = Int32Array.from(bits)
    return { shape, data: isFloat ? new Float32Array(words.buffer) : words }
  })
})

const names = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.constantFrom('__proto__', 'constructor', 'toString', '', '0', '10', '2', 'model.embed_tokens.weight', '"\\\u0000'),
)

const files: fc.Arbitrary<ReadonlyMap<string, HostArray>> = fc
  .uniqueArray(
    fc.tuple(
      names.filter((name) => name !== '__metadata__'),
      arrays,
    ),
    { selector: ([name]) => name, maxLength: 5 },
  )
  .map((entries) => new Map(entries))

const texts = fc.string({ unit: 'binary' })
const metadatas = fc.dictionary(
  texts.filter((key) => key !== '__proto__'),
  texts,
  { maxKeys: 3, noNullPrototype: true },
)

describe('encodeSafetensors and decodeSafetensors', () => {
  it('round trip: names, order, shapes, bits and metadata', () => {
    const law = fc.property(files, metadatas, (original, metadata) => {
      const file = decoded(encodeSafetensors(original, { metadata }))
      expect(file.metadata).toEqual(metadata)
      expect([...file.arrays.keys()].sort()).toEqual([...original.keys()].sort())
      for (const [name, { shape, data }] of original) {
        const back = file.arrays.get(name)!
        expect(back.shape).toEqual(shape)
        expect(back.data.constructor).toBe(data.constructor)
        expect(bitsOf(back.data)).toEqual(bitsOf(data))
      }
    })
    fc.assert(law)
  })

  it('keep the order of the arrays', () => {
    const law = fc.property(files, (original) => {
      const filled = new Map([...original].filter(([, { data }]) => data.length > 0)) // empty ones lie anywhere
      expect([...decoded(encodeSafetensors(filled)).arrays.keys()]).toEqual([...filled.keys()])
    })
    fc.assert(law)
  })

  it('equal inputs give equal bytes, and what was read is written back the same', () => {
    const law = fc.property(files, metadatas, (original, metadata) => {
      const copy = new Map(
        [...original].map(([name, { shape, data }]) => [name, { shape: [...shape], data: data.slice() }]),
      )
      const bytes = encodeSafetensors(original, { metadata })
      expect(encodeSafetensors(copy, { metadata: { ...metadata } })).toEqual(bytes)
      const again = decoded(bytes)
      expect(decoded(encodeSafetensors(again.arrays, { metadata: again.metadata }))).toEqual(again)
    })
    fc.assert(law)
  })

  it('read from any place in a larger buffer, also an odd one, and from a Buffer, whose slice is a view', () => {
    const law = fc.property(files, fc.nat(9), (original, offset) => {
      const bytes = encodeSafetensors(original)
      const padded = Buffer.alloc(offset + bytes.length + 3, 0xff)
      padded.set(bytes, offset)
      const view = padded.subarray(offset, offset + bytes.length)
      const copy = Uint8Array.from(bytes)
      expect(decoded(view)).toEqual(decoded(copy))
      expect(decoded(new Uint8Array(padded.buffer, padded.byteOffset + offset, bytes.length))).toEqual(decoded(copy))
    })
    fc.assert(law)
  })

  it('give arrays that are copies: the bytes may be overwritten afterwards', () => {
    const bytes = encodeSafetensors(new Map([['x', { shape: [2], data: new Float32Array([1, 2]) }]]))
    const { arrays: read } = decoded(bytes)
    bytes.fill(0)
    expect([...read.get('x')!.data]).toEqual([1, 2])
  })

  it('align the data to 8 bytes, as the reference does', () => {
    const law = fc.property(files, (original) => {
      const length = new DataView(encodeSafetensors(original).buffer).getBigUint64(0, true)
      expect(length % 8n).toBe(0n)
    })
    fc.assert(law)
  })

  it('take views of larger arrays', () => {
    const data = new Float32Array([9, 1, 2, 9]).subarray(1, 3)
    const file = new Map([['x', { shape: [2], data }]])
    expect([...decoded(encodeSafetensors(file)).arrays.get('x')!.data]).toEqual([1, 2])
    expect([...decoded(encodeSafetensors(file, { float: 'BF16' })).arrays.get('x')!.data]).toEqual([1, 2])
  })

  it('write the bytes that the format description asks for', () => {
    const bytes = encodeSafetensors(new Map([['x', { shape: [1], data: new Float32Array([1]) }]]), {
      metadata: { format: 'pt' },
    })
    expect(headerOf(bytes).trimEnd()).toBe(
      '{"__metadata__":{"format":"pt"},"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
    )
    expect([...bytes.subarray(-4)]).toEqual([0, 0, 0x80, 0x3f])
  })

  it('refuse an array that does not fit its shape, and the one name that the format keeps for itself', () => {
    const wrong = new Map([['w', { shape: [2, 2], data: new Float32Array(3) }]])
    expect(() => encodeSafetensors(wrong)).toThrow(
      new RangeError("encodeSafetensors: 'w' has 3 elements, shape [2,2] needs 4"),
    )
    const reserved = new Map([['__metadata__', { shape: [1], data: new Float32Array(1) }]])
    expect(() => encodeSafetensors(reserved)).toThrow(RangeError)
  })
})

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

const throughBfloat16 = (values: readonly number[]): Float32Array | Int32Array => {
  const file = new Map([['x', { shape: [values.length], data: Float32Array.from(values) }]])
  return decoded(encodeSafetensors(file, { float: 'BF16' })).arrays.get('x')!.data
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

  it('leaves int32 arrays as they are', () => {
    const file = new Map([['n', { shape: [2], data: Int32Array.of(2 ** 24 + 1, -1) }]])
    expect([...decoded(encodeSafetensors(file, { float: 'BF16' })).arrays.get('n')!.data]).toEqual([2 ** 24 + 1, -1])
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
    expect(float16ToFloat32(bits)).toBe(expected)
  })

  it('grows with its bits from zero to infinity, and the sign bit negates', () => {
    for (let bits = 1; bits <= 0x7c00; bits++) {
      if (float16ToFloat32(bits) <= float16ToFloat32(bits - 1)) expect.fail(`bits ${bits} are not above those before`)
      if (float16ToFloat32(bits | 0x8000) !== -float16ToFloat32(bits)) expect.fail(`bits ${bits} have no opposite`)
    }
    expect(float16ToFloat32(0x7c00)).toBe(Number.POSITIVE_INFINITY)
  })

  it('is read from a file as float32', () => {
    const file = fileOf({ h: { dtype: 'F16', shape: [2], data_offsets: [0, 4] } }, [0x00, 0x3c, 0x01, 0x80])
    expect([...decoded(file).arrays.get('h')!.data]).toEqual([1, -(2 ** -24)])
  })
})

describe('a file that is not valid', () => {
  it('is Left for every truncation of a valid file', () => {
    const law = fc.property(files, fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), (original, part) => {
      const bytes = encodeSafetensors(original)
      const cut = bytes.subarray(0, Math.floor(part * bytes.length))
      expect(reasonOf(cut)).not.toBe('')
    })
    fc.assert(law, { numRuns: 300 })
  })

  it('never throws, whatever bits of it are flipped', () => {
    const law = fc.property(files, fc.array(fc.nat(), { minLength: 1, maxLength: 8 }), (original, flips) => {
      const bytes = encodeSafetensors(original)
      const header = 8 + headerOf(bytes).length
      for (const flip of flips) bytes[flip % header] = bytes[flip % header]! ^ (1 << (flip % 8))
      expect(['Left', 'Right']).toContain(decodeSafetensors(bytes)._tag)
    })
    fc.assert(law, { numRuns: 500 })
  })

  it('never throws, whatever bytes or JSON it is', () => {
    const anyFile = fc.oneof(
      fc.uint8Array({ maxLength: 64 }),
      fc.json().map((text) => fileOf(text)),
      fc
        .dictionary(
          fc.string(),
          fc.record({
            dtype: fc.constantFrom('F32', 'I32', 'X'),
            shape: fc.array(fc.integer()),
            data_offsets: fc.array(fc.integer()),
          }),
        )
        .map((header) => fileOf(header, [0, 0, 0, 0])),
    )
    const law = fc.property(anyFile, (bytes) => {
      expect(['Left', 'Right']).toContain(decodeSafetensors(bytes)._tag)
    })
    fc.assert(law, { numRuns: 500 })
  })

  const entry = (over: object): object => ({ x: { dtype: 'F32', shape: [1], data_offsets: [0, 4], ...over } })

  it.each<[string, Uint8Array, RegExp]>([
    ['no bytes', new Uint8Array(0), /0 bytes/],
    ['a header length beyond the file', fileOf('{}').fill(0xff, 0, 8), /cut off or not safetensors/],
    ['a header that is not JSON', fileOf('{'), /not JSON/],
    ['a header that is a list', fileOf([]), /not a JSON object/],
    ['a header that is null', fileOf('null'), /not a JSON object/],
    ['an entry that is a number', fileOf({ x: 1 }), /tensor 'x'/],
    ['an unknown field', fileOf(entry({ extra: 1 }), [0, 0, 0, 0]), /tensor 'x'/],
    ['an unknown dtype', fileOf(entry({ dtype: 'F64' }), [0, 0, 0, 0]), /dtype F64 is not supported/],
    [
      'a dtype that is a method of every object',
      fileOf(entry({ dtype: 'toString' }), [0, 0, 0, 0]),
      /toString is not supported/,
    ],
    ['a negative size', fileOf(entry({ shape: [-1] }), [0, 0, 0, 0]), /tensor 'x'/],
    ['a fractional size', fileOf(entry({ shape: [0.5] }), [0, 0, 0, 0]), /tensor 'x'/],
    ['a size beyond every number', fileOf(entry({ shape: [2 ** 53 - 1, 2 ** 53 - 1] }), [0, 0, 0, 0]), /do not hold/],
    ['offsets that end before they begin', fileOf(entry({ data_offsets: [4, 0] }), [0, 0, 0, 0]), /bytes 4 to 0/],
    ['negative offsets', fileOf(entry({ data_offsets: [-4, 0] }), [0, 0, 0, 0]), /tensor 'x'/],
    ['three offsets', fileOf(entry({ data_offsets: [0, 4, 8] }), [0, 0, 0, 0]), /tensor 'x'/],
    ['offsets that do not fit the shape', fileOf(entry({ shape: [2] }), [0, 0, 0, 0]), /takes 8/],
    ['offsets beyond the data', fileOf(entry({ data_offsets: [4, 8] }), [0, 0, 0, 0]), /only 4: it is cut off/],
    ['metadata that are not text', fileOf({ __metadata__: { n: 1 } }), /__metadata__/],
  ])('is Left for %s', (_what, bytes, reason) => {
    expect(reasonOf(bytes)).toMatch(reason)
  })

  it('is Left for ranges that overlap, in whatever order they come', () => {
    const range = fc
      .tuple(fc.nat(6), fc.integer({ min: 1, max: 3 }))
      .map(([begin, size]) => [4 * begin, 4 * (begin + size)] as const)
    const law = fc.property(fc.array(range, { minLength: 2, maxLength: 4 }), (ranges) => {
      const header = Object.fromEntries(
        ranges.map(([begin, end], i) => [
          `t${i}`,
          { dtype: 'I32', shape: [(end - begin) / 4], data_offsets: [begin, end] },
        ]),
      )
      const overlap = ranges.some(([a, b], i) => ranges.some(([c, d], j) => i < j && a < d && c < b))
      const result = decodeSafetensors(fileOf(header, new Array<number>(36).fill(0)))
      expect(E.isLeft(result)).toBe(overlap)
      if (E.isLeft(result)) expect(result.left.reason).toContain('overlaps')
    })
    fc.assert(law)
  })
})
