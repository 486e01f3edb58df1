import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type ProtobufWriter, protobufWriter } from '../src/protobuf.js'

const written = (write: (writer: ProtobufWriter) => void): number[] => {
  const writer = protobufWriter()
  write(writer)
  return [...writer.finish()]
}

/** A slow reader of varints, after the protobuf encoding guide: seven bits a byte, lowest first. */
const readVarint = (bytes: readonly number[]): { readonly value: bigint; readonly rest: readonly number[] } => {
  const last = bytes.findIndex((byte) => byte < 128)
  const value = bytes.slice(0, last + 1).reduce((sum, byte, i) => sum + (BigInt(byte & 127) << BigInt(7 * i)), 0n)
  return { value, rest: bytes.slice(last + 1) }
}

describe('protobufWriter', () => {
  // The examples of the protobuf encoding guide, and the edges of the varint.
  it.each([
    ['150 in field 1', (w: ProtobufWriter) => w.integer(1, 150), [0x08, 0x96, 0x01]],
    [
      '"testing" in field 2',
      (w: ProtobufWriter) => w.text(2, 'testing'),
      [0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67],
    ],
    [
      'a message in field 3',
      (w: ProtobufWriter) => w.message(3, (m) => m.integer(1, 150)),
      [0x1a, 0x03, 0x08, 0x96, 0x01],
    ],
    ['0', (w: ProtobufWriter) => w.integer(1, 0), [0x08, 0x00]],
    ['127', (w: ProtobufWriter) => w.integer(1, 127), [0x08, 0x7f]],
    ['128', (w: ProtobufWriter) => w.integer(1, 128), [0x08, 0x80, 0x01]],
    ['-1, in ten bytes', (w: ProtobufWriter) => w.integer(1, -1), [0x08, ...Array<number>(9).fill(0xff), 0x01]],
    ['2^31', (w: ProtobufWriter) => w.integer(1, 2 ** 31), [0x08, 0x80, 0x80, 0x80, 0x80, 0x08]],
    ['2^35', (w: ProtobufWriter) => w.integer(1, 2 ** 35), [0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01]],
    ['a field number above 15', (w: ProtobufWriter) => w.integer(20, 2), [0xa0, 0x01, 0x02]],
    ['a float, little end first', (w: ProtobufWriter) => w.float(2, 1), [0x15, 0x00, 0x00, 0x80, 0x3f]],
    ['a double, little end first', (w: ProtobufWriter) => w.double(1, 1), [0x09, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]],
    ['negative zero', (w: ProtobufWriter) => w.float(2, -0), [0x15, 0x00, 0x00, 0x00, 0x80]],
    ['an empty message', (w: ProtobufWriter) => w.message(1, () => {}), [0x0a, 0x00]],
    ['text outside of ASCII, in UTF-8', (w: ProtobufWriter) => w.text(1, 'ä'), [0x0a, 0x02, 0xc3, 0xa4]],
    ['nothing', () => {}, []],
  ])('writes %s', (_what, write, expected) => {
    expect(written(write)).toEqual(expected)
  })

  it('integers read back as 64-bit two-complement numbers', () => {
    const integer = fc.oneof(fc.maxSafeInteger(), fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n - 1n }), fc.integer())
    const law = fc.property(fc.integer({ min: 1, max: 5000 }), integer, (field, value) => {
      const tag = readVarint(written((writer) => writer.integer(field, value)))
      const read = readVarint(tag.rest)
      expect(tag.value).toBe(BigInt(field) << 3n)
      expect(read.value).toBe(BigInt.asUintN(64, BigInt(value)))
      expect(read.rest).toEqual([])
    })
    fc.assert(law)
  })

  it('bytes read back, whatever their number', () => {
    const law = fc.property(fc.uint8Array({ maxLength: 2000 }), (bytes) => {
      const tag = readVarint(written((writer) => writer.bytes(1, bytes)))
      const length = readVarint(tag.rest)
      expect(tag.value).toBe(0x0an)
      expect(length.value).toBe(BigInt(bytes.length))
      expect(length.rest).toEqual([...bytes])
    })
    fc.assert(law)
  })

  it('fields written one after another are the concatenation of each alone', () => {
    const field = fc.oneof(
      fc.integer().map((n) => (writer: ProtobufWriter) => writer.integer(1, n)),
      fc.string().map((text) => (writer: ProtobufWriter) => writer.text(2, text)),
      fc.float().map((x) => (writer: ProtobufWriter) => writer.float(3, x)),
      fc.uint8Array().map((bytes) => (writer: ProtobufWriter) => writer.bytes(4, bytes)),
    )
    const law = fc.property(fc.array(field, { maxLength: 40 }), (fields) => {
      const together = written((writer) => {
        for (const write of fields) write(writer)
      })
      expect(together).toEqual(fields.flatMap(written))
    })
    fc.assert(law)
  })

  it('a message in a message in a message holds its bytes, whatever their number', () => {
    const law = fc.property(fc.array(fc.uint8Array({ maxLength: 3000 }), { maxLength: 4 }), (arrays) => {
      const fields = (writer: Pick<ProtobufWriter, 'bytes'>): void => {
        for (const bytes of arrays) writer.bytes(1, bytes)
      }
      const inner = written(fields)
      const middle = written((writer) => writer.bytes(2, Uint8Array.from(inner)))
      const nested = written((writer) => writer.message(3, (outer) => outer.message(2, fields)))
      expect(nested).toEqual(written((writer) => writer.bytes(3, Uint8Array.from(middle))))
    })
    fc.assert(law)
  })

  it('what was finished does not change when more is written', () => {
    const writer = protobufWriter()
    writer.integer(1, 1)
    const first = writer.finish()
    writer.integer(1, 2)
    expect([...first]).toEqual([0x08, 0x01])
    expect([...writer.finish()]).toEqual([0x08, 0x01, 0x08, 0x02])
  })
})
