/** The header of a GGUF file: metadata, and the places of its tensors. */
import { type FormatFailure, lfsProblemOfBytes } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { blockType, type GgufType, typeOfId } from './blocks.js'

/** One value of the metadata. Integers of 64 bits that a number cannot hold are a bigint. */
export type GgufScalar = number | bigint | boolean | string

/** A value of the metadata: a scalar, or a list of scalars of one type. */
export type GgufValue = GgufScalar | readonly GgufScalar[]

/** The place of one tensor in its file. */
export interface GgufEntry {
  readonly type: GgufType
  /** Row-major: the last axis is contiguous. The file lists the axes in the other order. */
  readonly shape: readonly number[]
  /** The first byte, counted from the start of the file. */
  readonly begin: number
  /** The byte after the last one. */
  readonly end: number
}

export interface GgufHeader {
  readonly version: 2 | 3
  /** Values by key, such as `general.architecture`. */
  readonly metadata: ReadonlyMap<string, GgufValue>
  /** In the order of the file. */
  readonly entries: ReadonlyMap<string, GgufEntry>
}

/** Ceilings for what a file states. `docs/limits.md` lists them. */
export const GGUF_LIMITS = {
  /** Bytes of metadata and entries: a vocabulary of 256,000 tokens has 15 MB. */
  headerBytes: 2 ** 29,
  /** Files of a split model. */
  splitFiles: 1000,
} as const

/** The 4 bytes at the start. */
const MAGIC = 0x46554747
/** Axes of a tensor, as in the reference implementation. */
const MAX_AXES = 4
/** Bytes of the name of a tensor or a key. The reference implementation has 64 and 65,535. */
const MAX_NAME = 65_535

/** The file states what it cannot hold, or what is not supported. */
class Invalid extends Error {}

/** The bytes end before the header does. */
class Truncated extends Error {}

interface Cursor {
  /** Moves over bytes, and returns their place. */
  readonly skip: (count: number) => number
  readonly view: DataView
}

const cursorOver = (bytes: Uint8Array): Cursor => {
  let place = 0
  return {
    view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength),
    skip: (count) => {
      if (count > bytes.byteLength - place) throw new Truncated()
      place += count
      return place - count
    },
  }
}

const UTF8 = new TextDecoder('utf-8', { fatal: true })

const uint32 = ({ view, skip }: Cursor): number => view.getUint32(skip(4), true)

/** Returns a number where it is exact, else a bigint. */
const exact = (value: bigint): number | bigint => {
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : value
}

/** Reads a count or an offset: the file has fewer bytes than 2^53. */
const count = ({ view, skip }: Cursor, what: string): number => {
  const value = exact(view.getBigUint64(skip(8), true))
  if (typeof value === 'bigint') throw new Invalid(`${what} ${value} is larger than any file`)
  return value
}

const text = (cursor: Cursor, what: string): string => {
  const length = count(cursor, `the length of ${what}`)
  if (length > GGUF_LIMITS.headerBytes) throw new Invalid(`${what} has ${length} bytes`)
  const start = cursor.skip(length)
  const { buffer, byteOffset } = cursor.view
  try {
    return UTF8.decode(new Uint8Array(buffer, byteOffset + start, length))
  } catch {
    throw new Invalid(`${what} is not UTF-8`)
  }
}

const name = (cursor: Cursor, what: string): string => {
  const value = text(cursor, what)
  if (value === '' || value.length > MAX_NAME) throw new Invalid(`${what} has ${value.length} characters`)
  return value
}

interface ScalarType {
  /** The least number of bytes of a value. */
  readonly bytes: number
  readonly read: (cursor: Cursor, key: string) => GgufScalar
}

const TEXT = 8
const LIST = 9

/** Types of values by their number in the file. */
const SCALARS: Readonly<Record<number, ScalarType>> = {
  0: { bytes: 1, read: ({ view, skip }) => view.getUint8(skip(1)) },
  1: { bytes: 1, read: ({ view, skip }) => view.getInt8(skip(1)) },
  2: { bytes: 2, read: ({ view, skip }) => view.getUint16(skip(2), true) },
  3: { bytes: 2, read: ({ view, skip }) => view.getInt16(skip(2), true) },
  4: { bytes: 4, read: uint32 },
  5: { bytes: 4, read: ({ view, skip }) => view.getInt32(skip(4), true) },
  6: { bytes: 4, read: ({ view, skip }) => view.getFloat32(skip(4), true) },
  7: {
    bytes: 1,
    read: ({ view, skip }, key) => {
      const value = view.getUint8(skip(1))
      if (value > 1) throw new Invalid(`'${key}' is a boolean of ${value}`)
      return value === 1
    },
  },
  [TEXT]: { bytes: 8, read: (cursor, key) => text(cursor, `a text of '${key}'`) },
  10: { bytes: 8, read: ({ view, skip }) => exact(view.getBigUint64(skip(8), true)) },
  11: { bytes: 8, read: ({ view, skip }) => exact(view.getBigInt64(skip(8), true)) },
  12: { bytes: 8, read: ({ view, skip }) => view.getFloat64(skip(8), true) },
}

const scalarType = (id: number, key: string): ScalarType => {
  const type = SCALARS[id]
  if (type === undefined) throw new Invalid(`'${key}' has values of type ${id}, which is not known`)
  return type
}

const value = (cursor: Cursor, key: string): GgufValue => {
  const id = uint32(cursor)
  if (id !== LIST) return scalarType(id, key).read(cursor, key)
  const of = uint32(cursor)
  if (of === LIST) throw new Invalid(`'${key}' is a list of lists, which is not supported`)
  const type = scalarType(of, key)
  const length = count(cursor, `the length of '${key}'`)
  if (length * type.bytes > GGUF_LIMITS.headerBytes) throw new Invalid(`'${key}' has ${length} values`)
  const items: GgufScalar[] = [] // grows with what is read, whatever the file states
  for (let i = 0; i < length; i++) items.push(type.read(cursor, key))
  return items
}

/** A tensor as the file describes it, from the start of the data. */
interface Stated {
  readonly name: string
  readonly type: GgufType
  readonly shape: readonly number[]
  readonly offset: number
  readonly bytes: number
}

const elements = (shape: readonly number[], what: string): number => {
  const product = shape.reduce((n, size) => n * size, 1)
  if (!Number.isSafeInteger(product)) throw new Invalid(`${what} has the shape [${shape.join()}]`)
  return product
}

const tensor = (cursor: Cursor): Stated => {
  const given = name(cursor, 'the name of a tensor')
  const what = `tensor ${JSON.stringify(given)}`
  const axes = uint32(cursor)
  if (axes > MAX_AXES) throw new Invalid(`${what} has ${axes} axes, more than ${MAX_AXES}`)
  const sizes = Array.from({ length: axes }, () => count(cursor, `a size of ${what}`))
  const type = typeOfId(uint32(cursor))
  if (typeof type !== 'string') throw new Invalid(`${what}: ${type.problem}`)
  const offset = count(cursor, `the offset of ${what}`)
  const { numbers, bytes } = blockType(type)
  const [row = 1] = sizes
  if (row % numbers !== 0) throw new Invalid(`${what} has rows of ${row} numbers, not whole blocks of ${numbers}`)
  return {
    name: given,
    type,
    shape: sizes.toReversed(),
    offset,
    bytes: (elements(sizes, what) / numbers) * bytes,
  }
}

const alignmentOf = (metadata: ReadonlyMap<string, GgufValue>): number => {
  const given = metadata.get('general.alignment') ?? 32
  const isPower = typeof given === 'number' && given > 0 && given <= 2 ** 20 && Number.isInteger(Math.log2(given))
  if (!isPower) throw new Invalid(`'general.alignment' is ${String(given)}, not a power of two up to 2^20`)
  return given
}

/** Places tensors in the file, and refuses those that it cannot hold or that overlap. */
const placed = (tensors: readonly Stated[], start: number, fileBytes: number): ReadonlyMap<string, GgufEntry> => {
  const entries = new Map(
    tensors.map(({ name: given, type, shape, offset, bytes }): [string, GgufEntry] => [
      given,
      { type, shape, begin: start + offset, end: start + offset + bytes },
    ]),
  )
  let before: readonly [string, GgufEntry] | undefined
  for (const pair of [...entries].sort(([, a], [, b]) => a.begin - b.begin || a.end - b.end)) {
    const [given, { begin, end }] = pair
    if (end > fileBytes) {
      throw new Invalid(
        `tensor ${JSON.stringify(given)} ends at byte ${end} of ${fileBytes}: the file is truncated or damaged`,
      )
    }
    if (before !== undefined && begin < before[1].end) {
      throw new Invalid(`tensors ${JSON.stringify(before[0])} and ${JSON.stringify(given)} overlap`)
    }
    before = pair
  }
  return entries
}

const versionOf = (cursor: Cursor): 2 | 3 => {
  const version = uint32(cursor)
  if (version === 2 || version === 3) return version
  if (version % 2 ** 16 === 0) throw new Invalid('the numbers are big-endian, which is not supported')
  throw new Invalid(`version ${version} is not supported (supported: 2, 3)`)
}

const headerIn = (bytes: Uint8Array, fileBytes: number): GgufHeader => {
  const cursor = cursorOver(bytes)
  if (uint32(cursor) !== MAGIC) {
    throw new Invalid(lfsProblemOfBytes(bytes) ?? 'it does not begin with GGUF: it is not a GGUF file')
  }
  const version = versionOf(cursor)
  const tensors = count(cursor, 'the number of tensors')
  const values = count(cursor, 'the number of values')
  const metadata = new Map<string, GgufValue>()
  for (let i = 0; i < values; i++) {
    const key = name(cursor, 'a key of the metadata')
    if (metadata.has(key)) throw new Invalid(`the key '${key}' occurs twice`)
    metadata.set(key, value(cursor, key))
  }
  const alignment = alignmentOf(metadata)
  const stated: Stated[] = []
  const names = new Set<string>()
  for (let i = 0; i < tensors; i++) {
    const next = tensor(cursor)
    if (names.has(next.name)) throw new Invalid(`tensor ${JSON.stringify(next.name)} occurs twice`)
    if (next.offset % alignment !== 0) {
      throw new Invalid(
        `tensor ${JSON.stringify(next.name)} begins at ${next.offset}, which is not a multiple of ${alignment}`,
      )
    }
    names.add(next.name)
    stated.push(next)
  }
  const start = Math.ceil(cursor.skip(0) / alignment) * alignment
  return { version, metadata, entries: placed(stated, start, fileBytes) }
}

/**
 * Parses the header of a file of `fileBytes` bytes from its first bytes.
 *
 * Errors   `Left('truncated')` if the header is longer than `bytes`; `Left(FormatFailure)` for what
 *          is not GGUF of version 2 or 3 in little-endian order, a type that is not supported,
 *          names that occur twice, and tensors that overlap or that the file cannot hold.
 * Cost     linear in `bytes`.
 */
export const parseHeader = (
  bytes: Uint8Array,
  fileBytes: number,
): E.Either<FormatFailure | 'truncated', GgufHeader> => {
  try {
    return E.right(headerIn(bytes, fileBytes))
  } catch (error) {
    if (error instanceof Truncated) return E.left('truncated')
    if (error instanceof Invalid) return E.left({ _tag: 'FormatFailure', format: 'GGUF', reason: error.message })
    throw error
  }
}
