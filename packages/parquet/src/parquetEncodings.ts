/**
 * Walks Parquet's encodings without decoding them, to check that a page holds as many values as it
 * declares, and bytes for all of them.
 */
import type { ColumnMetaData } from 'hyparquet'

/** A problem of a Parquet file. The reader converts it to a failure. */
export class ParquetProblem extends Error {}

/** Throws ParquetProblem unless the condition holds. */
export const demand: (holds: unknown, problem: string) => asserts holds = (holds, problem) => {
  if (!holds) throw new ParquetProblem(problem)
}

/** Bytes of encoded values with a read position, which is the only mutable state here. */
export type ByteCursor = { readonly bytes: Uint8Array; at: number }

const readVarInt = (cursor: ByteCursor): number => {
  let [result, scale] = [0, 1]
  for (let i = 0; i < 5; i++) {
    const byte = cursor.bytes[cursor.at++]
    demand(byte !== undefined, 'a length is cut off')
    result += (byte & 0x7f) * scale
    if (byte < 0x80) return result
    scale *= 128
  }
  throw new ParquetProblem('a length has more than 32 bits')
}

/**
 * Walks a run-length and bit-packed hybrid, which must hold `count` values of `width` bits. The
 * last packed run may be padded, as DuckDB pads it to 256 values. Returns the number of values
 * equal to `counted`.
 */
export const walkHybrid = (
  cursor: ByteCursor,
  { width, count, counted }: { readonly width: number; readonly count: number; readonly counted?: number },
): number => {
  demand(width <= 32, `values of ${width} bits`)
  let [seen, matches] = [0, 0]
  while (seen < count) {
    const header = readVarInt(cursor)
    const size = Math.floor(header / 2)
    if (header % 2 === 0) {
      demand(size > 0 && size <= count - seen, `a run of ${size} equal values where the page has ${count - seen} left`)
      const end = cursor.at + Math.ceil(width / 8)
      demand(end <= cursor.bytes.length, 'a run is cut off')
      let value = 0
      for (let i = end - 1; i >= cursor.at; i--) value = value * 256 + cursor.bytes[i]!
      cursor.at = end
      seen += size
      if (value === counted) matches += size
    } else {
      const here = Math.min(size * 8, count - seen)
      const left = cursor.bytes.length - cursor.at
      const isWhole = size * width <= left
      const isLastCut = (size - 1) * 8 < here && Math.ceil((here * width) / 8) <= left // of its padding
      demand(size > 0 && (isWhole || isLastCut), `${size * 8} packed values of ${width} bits in ${left} bytes`)
      if (counted !== undefined) {
        for (let i = 0; i < here; i++)
          if (packedAt(cursor.bytes, cursor.at * 8 + i * width, width) === counted) matches += 1
      }
      cursor.at = Math.min(cursor.at + size * width, cursor.bytes.length)
      seen += here
    }
  }
  return matches
}

const packedAt = (bytes: Uint8Array, bit: number, width: number): number => {
  let value = 0
  for (let i = width - 1; i >= 0; i--) value = value * 2 + ((bytes[(bit + i) >> 3]! >> ((bit + i) & 7)) & 1)
  return value
}

/** Returns the number of bits of levels up to the highest. */
export const bitWidth = (level: number): number => 32 - Math.clz32(level)

/** Reads the length that precedes levels. */
export const readLength = (cursor: ByteCursor): number => {
  demand(cursor.at + 4 <= cursor.bytes.length, 'levels are cut off')
  const { bytes, at } = cursor
  cursor.at += 4
  return bytes[at]! + bytes[at + 1]! * 2 ** 8 + bytes[at + 2]! * 2 ** 16 + bytes[at + 3]! * 2 ** 24
}

/**
 * Returns the minimum size of values. The widest physical value is a byte array, which needs 4
 * bytes for its length; the narrowest are bits.
 */
const minBytes = (type: ColumnMetaData['type'], values: number): number => {
  switch (type) {
    case 'BOOLEAN':
      return Math.ceil(values / 8)
    case 'FIXED_LEN_BYTE_ARRAY':
      return values
    case 'INT96':
      return values * 12
    case 'INT64':
    case 'DOUBLE':
      return values * 8
    default:
      return values * 4
  }
}

/**
 * Checks the encoded values of a data page: enough bytes for all of them, and no count beyond them.
 */
export const checkValues = (
  cursor: ByteCursor,
  values: number,
  { encoding, type }: { readonly encoding: string; readonly type: ColumnMetaData['type'] },
): void => {
  const left = cursor.bytes.length - cursor.at
  switch (encoding) {
    case 'PLAIN':
      demand(minBytes(type, values) <= left, `${values} plain values do not fit into ${left} bytes`)
      return
    case 'PLAIN_DICTIONARY':
    case 'RLE_DICTIONARY': {
      if (values === 0) return
      const width = cursor.bytes[cursor.at++]
      demand(width !== undefined, 'the width of dictionary indices is missing')
      if (width > 0) walkHybrid(cursor, { width, count: values })
      return
    }
    case 'RLE':
      demand(type === 'BOOLEAN', 'run-length encoding of values that are not booleans')
      if (values > 0) {
        readLength(cursor)
        walkHybrid(cursor, { width: 1, count: values })
      }
      return
    case 'DELTA_BINARY_PACKED':
    case 'DELTA_LENGTH_BYTE_ARRAY':
    case 'DELTA_BYTE_ARRAY': {
      if (values === 0) return
      const block = readVarInt(cursor)
      const miniblocks = readVarInt(cursor)
      demand(
        block % 128 === 0 &&
          block > 0 &&
          block <= 2 ** 20 &&
          miniblocks > 0 &&
          block % miniblocks === 0 &&
          (block / miniblocks) % 32 === 0,
        `delta blocks of ${block} in ${miniblocks} parts`,
      )
      const total = readVarInt(cursor)
      demand(total === values, `${total} delta values where there should be ${values}`)
      demand(
        Math.ceil((values - 1) / block) * (1 + miniblocks) <= left,
        `${values} delta values do not fit into ${left} bytes`,
      )
      return
    }
    case 'BYTE_STREAM_SPLIT':
      demand(minBytes(type, values) <= left, `${values} split values do not fit into ${left} bytes`)
      return
    default:
      throw new ParquetProblem(`encoding ${encoding} is not supported`)
  }
}
