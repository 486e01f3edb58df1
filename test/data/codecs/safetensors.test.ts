import { orThrow } from '@tandem-rl/base'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import {
  decodeSafetensors,
  encodeSafetensors,
  type SafetensorsFile,
  safetensorsParts,
  type WritableArray,
} from '../../../src/data/codecs/safetensors.js'
import { STORAGE_TYPES, storageBytes } from '../../../src/data/codecs/storage.js'
import { anyStoredArrays, contentsOf, fileOf } from '../../kit/storedArrays.js'

const decoded = (bytes: Uint8Array): SafetensorsFile => orThrow(decodeSafetensors(bytes))

const reasonOf = (bytes: Uint8Array): string => {
  const result = decodeSafetensors(bytes)
  if (E.isRight(result)) throw new Error('the file was accepted')
  expect(result.left).toMatchObject({ _tag: 'FormatFailure', format: 'safetensors' })
  return result.left.reason
}

const headerOf = (file: Uint8Array): string => {
  const length = Number(new DataView(file.buffer, file.byteOffset).getBigUint64(0, true))
  return new TextDecoder().decode(file.subarray(8, 8 + length))
}

const texts = fc.string({ unit: 'binary' })
const metadatas = fc.dictionary(
  texts.filter((key) => key !== '__proto__'),
  texts,
  { maxKeys: 3, noNullPrototype: true },
)

describe('encodeSafetensors and decodeSafetensors', () => {
  it('round trip: names, types, shapes, bits and metadata', () => {
    const law = fc.property(anyStoredArrays, metadatas, (original, metadata) => {
      const file = decoded(encodeSafetensors(original, { metadata }))
      expect(file.metadata).toEqual(metadata)
      expect(contentsOf(file.arrays)).toEqual(contentsOf(original))
    })
    fc.assert(law)
  })

  it('put larger types first, so that every array is aligned, and then sort by the UTF-8 of the names', () => {
    const law = fc.property(anyStoredArrays, (original) => {
      const { arrays } = decoded(encodeSafetensors(original))
      const rows = [...arrays].map(([name, { type }]) => ({
        rank: STORAGE_TYPES.indexOf(type),
        name: Buffer.from(name),
      }))
      for (const [i, row] of rows.entries()) {
        if (i === 0 || arrays.size === 0) continue
        const before = rows[i - 1]!
        const isEmpty = [...arrays.values()].some(({ data }) => data.length === 0) // empty arrays lie anywhere
        if (!isEmpty) expect(before.rank - row.rank || Buffer.compare(row.name, before.name)).toBeGreaterThan(0)
      }
    })
    fc.assert(law)
  })

  it('equal arrays in any order give equal bytes, and what was read is written back to the same bytes', () => {
    const law = fc.property(anyStoredArrays, metadatas, (original, metadata) => {
      const reversed = new Map([...original].reverse())
      const bytes = encodeSafetensors(original, { metadata })
      expect(encodeSafetensors(reversed, { metadata: { ...metadata } })).toEqual(bytes)
      const again = decoded(bytes)
      expect(encodeSafetensors(again.arrays, { metadata: again.metadata })).toEqual(bytes)
    })
    fc.assert(law)
  })

  it('read from any place in a larger buffer, also an odd one, and from a Buffer, whose slice is a view', () => {
    const law = fc.property(anyStoredArrays, fc.nat(9), (original, offset) => {
      const bytes = encodeSafetensors(original)
      const padded = Buffer.alloc(offset + bytes.length + 3, 0xff)
      padded.set(bytes, offset)
      const view = padded.subarray(offset, offset + bytes.length)
      const copy = Uint8Array.from(bytes)
      const expected = contentsOf(decoded(copy).arrays)
      for (const memory of ['copy', 'share'] as const) {
        expect(contentsOf(orThrow(decodeSafetensors(view, { memory })).arrays)).toEqual(expected)
      }
    })
    fc.assert(law)
  })

  it('give arrays that are copies: the bytes may be overwritten afterwards', () => {
    const bytes = encodeSafetensors(new Map([['x', { shape: [2], data: new Float32Array([1, 2]) }]]))
    const { arrays: read } = decoded(bytes)
    bytes.fill(0)
    expect([...read.get('x')!.data]).toEqual([1, 2])
  })

  it('share the memory of the bytes if they are asked to, where that is possible', () => {
    const bytes = encodeSafetensors(
      new Map<string, WritableArray>([
        ['x', { shape: [2], data: Float32Array.of(1, 2) }],
        ['h', { shape: [1], data: Float32Array.of(1), type: 'F16' }],
      ]),
    )
    const { arrays } = orThrow(decodeSafetensors(bytes, { memory: 'share' }))
    expect(arrays.get('x')!.data.buffer).toBe(bytes.buffer)
    expect(arrays.get('h')!.data.buffer).not.toBe(bytes.buffer)
  })

  it('come in pieces that together are the file, as often as they are asked for', () => {
    const law = fc.property(anyStoredArrays, (original) => {
      const parts = safetensorsParts(original)
      for (const _ of [1, 2]) expect(Buffer.concat([...parts])).toEqual(Buffer.from(encodeSafetensors(original)))
      expect(parts.byteLength).toBe(encodeSafetensors(original).length)
    })
    fc.assert(law)
  })

  it('align the data to 8 bytes, as the reference does', () => {
    const law = fc.property(anyStoredArrays, (original) => {
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

  it('refuse arrays that cannot be written, all of them at once', () => {
    const arrays = new Map<string, WritableArray>([
      ['w', { shape: [2, 2], data: new Float32Array(3) }],
      ['__metadata__', { shape: [1], data: new Float32Array(1) }],
      ['\ud800', { shape: [1], data: new Float32Array(1) }],
      ['n', { shape: [-1], data: new Float32Array(0) }],
      ['t', { shape: [1], data: new Float32Array(1), type: 'I64' }],
      ['fine', { shape: [1], data: new Float32Array(1) }],
    ])
    expect(() => encodeSafetensors(arrays)).toThrow(
      new RangeError(
        [
          'safetensors: "w": 3 elements, shape [2,2] needs 4',
          '"__metadata__": the format reserves this name',
          '"\\ud800": the name has half of a surrogate pair, which UTF-8 cannot hold',
          '"n": 0 elements, shape [-1] needs sizes that are natural numbers',
          '"t": Float32Array does not hold I64',
        ].join('; '),
      ),
    )
    expect(() => encodeSafetensors(new Map(), { metadata: { a: '\udfff' } })).toThrow(/metadata "a"/)
  })

  it('take each type from one kind of array, and no other', () => {
    const data = [new Float64Array(1), new Float32Array(1), new BigInt64Array(1), new BigUint64Array(1)]
    const small = [
      new Int32Array(1),
      new Uint32Array(1),
      new Int16Array(1),
      new Uint16Array(1),
      new Int8Array(1),
      new Uint8Array(1),
    ]
    for (const type of STORAGE_TYPES) {
      const fitting = [...data, ...small].filter((array) => {
        try {
          encodeSafetensors(new Map([['x', { shape: [1], data: array, type }]]))
          return true
        } catch (error) {
          expect(error).toBeInstanceOf(RangeError)
          return false
        }
      })
      expect(fitting, type).toHaveLength(1)
      expect(fitting[0]!.BYTES_PER_ELEMENT).toBe(type === 'F16' || type === 'BF16' ? 4 : storageBytes(type))
    }
  })
})

describe('a file that is not valid', () => {
  it('is Left for every truncation of a valid file', () => {
    const law = fc.property(
      anyStoredArrays,
      fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
      (original, part) => {
        const bytes = encodeSafetensors(original)
        const cut = bytes.subarray(0, Math.floor(part * bytes.length))
        expect(reasonOf(cut)).not.toBe('')
      },
    )
    fc.assert(law, { numRuns: 300 })
  })

  it('never throws, whatever bits of it are flipped', () => {
    const law = fc.property(anyStoredArrays, fc.array(fc.nat(), { minLength: 1, maxLength: 8 }), (original, flips) => {
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
    ['a header length beyond the file', fileOf('{}').fill(0xff, 0, 8), /truncated or not safetensors/],
    ['a header that is not JSON', fileOf('{'), /not JSON/],
    ['a header that is a list', fileOf([]), /not a JSON object/],
    ['a header that is null', fileOf('null'), /not a JSON object/],
    ['an entry that is a number', fileOf({ x: 1 }), /tensor "x"/],
    ['an unknown dtype', fileOf(entry({ dtype: 'C64' }), [0, 0, 0, 0]), /dtype C64 is not supported/],
    [
      'a dtype that is a method of every object',
      fileOf(entry({ dtype: 'toString' }), [0, 0, 0, 0]),
      /toString is not supported/,
    ],
    ['a negative size', fileOf(entry({ shape: [-1] }), [0, 0, 0, 0]), /tensor "x"/],
    ['a fractional size', fileOf(entry({ shape: [0.5] }), [0, 0, 0, 0]), /tensor "x"/],
    [
      'a size beyond every number',
      fileOf(entry({ shape: [2 ** 53 - 1, 2 ** 53 - 1] }), [0, 0, 0, 0]),
      /more bytes than/,
    ],
    ['offsets that end before they begin', fileOf(entry({ data_offsets: [4, 0] }), [0, 0, 0, 0]), /bytes 4 to 0/],
    ['negative offsets', fileOf(entry({ data_offsets: [-4, 0] }), [0, 0, 0, 0]), /tensor "x"/],
    ['three offsets', fileOf(entry({ data_offsets: [0, 4, 8] }), [0, 0, 0, 0]), /tensor "x"/],
    ['offsets that do not fit the shape', fileOf(entry({ shape: [2] }), [0, 0, 0, 0]), /takes 8/],
    [
      'offsets beyond the data',
      fileOf(entry({ data_offsets: [0, 8], shape: [2] }), [0, 0, 0, 0]),
      /only 4: it is truncated/,
    ],
    ['metadata that are not text', fileOf({ __metadata__: { n: 1 } }), /__metadata__/],
  ])('is Left for %s', (_what, bytes, reason) => {
    expect(reasonOf(bytes)).toMatch(reason)
  })

  it('is Left as soon as one range moves: the others must fill the data without gap or overlap', () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 2, maxLength: 4 })
    const law = fc.property(sizes, fc.nat(), fc.integer({ min: -3, max: 3 }), (lengths, choice, shift) => {
      const moved = choice % lengths.length
      const entries = lengths.map((length, i) => {
        const begin = lengths.slice(0, i).reduce((a, b) => a + b, 0) + (i === moved ? shift : 0)
        return [`t${i}`, { dtype: 'U8', shape: [length], data_offsets: [begin, begin + length] }] as const
      })
      fc.pre(entries[moved]![1].data_offsets[0] >= 0)
      const total = lengths.reduce((a, b) => a + b, 0)
      const result = decodeSafetensors(fileOf(Object.fromEntries(entries.reverse()), new Array<number>(total).fill(7)))
      expect(E.isRight(result)).toBe(shift === 0)
      if (E.isLeft(result)) expect(result.left.reason).toMatch(/overlaps|belong to no|belong to none|truncated/)
    })
    fc.assert(law)
  })
})
