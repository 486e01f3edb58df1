/**
 * The safetensors file format: an 8-byte length, a JSON header, raw little-endian numbers.
 *
 * Source: the format description of huggingface/safetensors, and version 0.8 of its implementation
 * as the reference for well-formed files. Nothing in a file is ever executed, and allocation is
 * bounded by the length of the file.
 */
import type { FormatFailure } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { headerLength, LENGTH_BYTES, METADATA, parseSafetensorsHeader } from './safetensorsHeader.js'
import {
  elementCount,
  type HostNumbers,
  holds,
  type MemoryUse,
  numbersFrom,
  plainType,
  STORAGE_TYPES,
  type StorageType,
  type StoredArray,
  storageBytes,
  storedBytes,
} from './storage.js'

export interface SafetensorsFile {
  /** Arrays in the order of their data. */
  readonly arrays: ReadonlyMap<string, StoredArray>
  readonly metadata: Readonly<Record<string, string>>
}

/** An array to write. Without a `type` it is stored in the type of its data. */
export interface WritableArray {
  readonly shape: readonly number[]
  readonly data: HostNumbers
  readonly type?: StorageType
}

export interface SafetensorsOptions {
  readonly metadata?: Readonly<Record<string, string>>
  /** The stored type of Float32Arrays without a type of their own. 16-bit types round. */
  readonly float?: 'F32' | 'F16' | 'BF16'
}

/**
 * Reads a whole file that is in memory. `readSafetensors` reads a file from disk, and
 * `openSafetensors` parts of one.
 *
 * Errors   `Left(FormatFailure)`, naming the tensor, for everything that `parseHeader` refuses.
 * Effects  none. With `memory: 'share'` the arrays are views of `bytes` where alignment permits; by
 *          default they are copies.
 *
 * @example
 * decodeSafetensors(encodeSafetensors(new Map([['x', { shape: [2], data: Int8Array.of(1, -1) }]]))).right.arrays.get('x').type // 'I8'
 */
export const decodeSafetensors = (
  bytes: Uint8Array,
  options: { readonly memory?: MemoryUse } = {},
): E.Either<FormatFailure, SafetensorsFile> => {
  const { memory = 'copy' } = options
  const length = headerLength(bytes, bytes.length)
  if (E.isLeft(length)) return length
  const header = parseSafetensorsHeader(bytes.subarray(LENGTH_BYTES, LENGTH_BYTES + length.right), bytes.length)
  if (E.isLeft(header)) return header
  const { entries, metadata } = header.right
  const arrays = new Map(
    [...entries].map(([name, { type, shape, begin, end }]) => [
      name,
      storedArray(type, shape, numbersFrom(type, bytes.subarray(begin, end), memory)),
    ]),
  )
  return E.right({ arrays, metadata })
}

/**
 * Creates an array of a type that was read at run time. `data` is the result of `numbersFrom` for
 * the type.
 */
export const storedArray = (type: StorageType, shape: readonly number[], data: HostNumbers): StoredArray =>
  ({ type, shape, data }) as StoredArray // by the caller's promise

const LONE_SURROGATE = /\p{Surrogate}/u

/** Returns the reason why an array cannot be written, or undefined. */
const problemOf = (name: string, { shape, data, type }: WritableArray): string | undefined => {
  if (name === METADATA) return 'the format reserves this name'
  if (LONE_SURROGATE.test(name)) return 'the name has half of a surrogate pair, which UTF-8 cannot hold'
  const elements = shape.every((size) => Number.isInteger(size) && size >= 0) ? elementCount(shape) : undefined
  if (elements !== data.length)
    return `${data.length} elements, shape [${shape.join()}] needs ${elements ?? 'sizes that are natural numbers'}`
  if (plainType(data) === undefined) return `${data.constructor.name} has no storage type`
  if (type !== undefined && !holds(data, type)) return `${data.constructor.name} does not hold ${type}`
  return undefined
}

/** Throws RangeError with all problems if arrays cannot be written. */
export const requireWritable = (operation: string, arrays: ReadonlyMap<string, WritableArray>): void => {
  const problems = [...arrays].flatMap(([name, array]) => {
    const problem = problemOf(name, array)
    return problem === undefined ? [] : [`${JSON.stringify(name)}: ${problem}`]
  })
  if (problems.length > 0) throw new RangeError(`${operation}: ${problems.join('; ')}`)
}

const withType = ({ shape, data, type }: WritableArray, float: 'F32' | 'F16' | 'BF16'): StoredArray =>
  storedArray(type ?? (data instanceof Float32Array ? float : plainType(data)!), shape, data) // checked by `requireWritable`

const rank = new Map(STORAGE_TYPES.map((type, i) => [type, i]))

const compareBytes = (a: Uint8Array, b: Uint8Array): number => {
  const length = Math.min(a.length, b.length)
  for (let i = 0; i < length; i++) if (a[i] !== b[i]) return a[i]! - b[i]!
  return a.length - b.length
}

/**
 * Sorts arrays like the reference implementation: larger types first, so that all are aligned, then
 * by the UTF-8 of their names.
 */
export const inFileOrder = (
  arrays: ReadonlyMap<string, WritableArray>,
  float: 'F32' | 'F16' | 'BF16' = 'F32',
): readonly (readonly [string, StoredArray])[] => {
  const encoder = new TextEncoder()
  return [...arrays]
    .map(([name, array]) => ({ name, array: withType(array, float), key: encoder.encode(name) }))
    .sort((a, b) => rank.get(b.array.type)! - rank.get(a.array.type)! || compareBytes(a.key, b.key))
    .map(({ name, array }) => [name, array])
}

/** Returns the number of bytes of an array in a file. */
export const byteLength = ({ type, data }: StoredArray): number => data.length * storageBytes(type)

const headerBytes = (
  ordered: readonly (readonly [string, StoredArray])[],
  metadata: Readonly<Record<string, string>>,
): Uint8Array => {
  const fields = Object.keys(metadata).length > 0 ? [`"${METADATA}":${JSON.stringify(metadata)}`] : []
  let offset = 0
  for (const [name, array] of ordered) {
    const end = offset + byteLength(array)
    const entry = { dtype: array.type, shape: array.shape, data_offsets: [offset, end] }
    fields.push(`${JSON.stringify(name)}:${JSON.stringify(entry)}`)
    offset = end
  }
  const text = new TextEncoder().encode(`{${fields.join()}}`)
  const padded = Math.ceil(text.length / 8) * 8 // padding with blanks aligns the data
  const bytes = new Uint8Array(LENGTH_BYTES + padded).fill(0x20, LENGTH_BYTES + text.length)
  new DataView(bytes.buffer).setBigUint64(0, BigInt(padded), true)
  bytes.set(text, LENGTH_BYTES)
  return bytes
}

/** A file in pieces that can be iterated more than once. */
export interface FileInParts extends Iterable<Uint8Array> {
  readonly byteLength: number
}

/**
 * Splits a file into pieces, for writing without a second copy of the numbers: larger types first,
 *          then by name, like the reference implementation. Equal arrays give equal bytes, whatever
 *          their order.
 *
 * Errors   throws RangeError with the name of every array that does not fit its shape or its type,
 *          or whose name cannot be written.
 */
export const safetensorsParts = (
  arrays: ReadonlyMap<string, WritableArray>,
  options: SafetensorsOptions = {},
): FileInParts => {
  const { metadata = {}, float = 'F32' } = options
  requireWritable('safetensors', arrays)
  const lone = Object.entries(metadata).find((pair) => pair.some((text) => LONE_SURROGATE.test(text)))
  if (lone !== undefined)
    throw new RangeError(`safetensors: metadata ${JSON.stringify(lone[0])} has half of a surrogate pair`)
  const ordered = inFileOrder(arrays, float)
  const header = headerBytes(ordered, metadata)
  return {
    byteLength: ordered.reduce((sum, [, array]) => sum + byteLength(array), header.length),
    *[Symbol.iterator]() {
      yield header
      for (const [, array] of ordered) yield* storedBytes(array)
    },
  }
}

/** Joins the pieces of a file. */
export const joinParts = (parts: FileInParts): Uint8Array => {
  const file = new Uint8Array(parts.byteLength)
  let place = 0
  for (const part of parts) {
    file.set(part, place)
    place += part.length
  }
  return file
}

/**
 * Writes a file into memory. `decodeSafetensors` reads it back exactly, or rounded for 16-bit
 * types.
 *
 * Errors   those of `safetensorsParts`.
 *
 * @example
 * encodeSafetensors(new Map()).length // 16
 */
export const encodeSafetensors = (
  arrays: ReadonlyMap<string, WritableArray>,
  options: SafetensorsOptions = {},
): Uint8Array => joinParts(safetensorsParts(arrays, options))
