/**
 * The safetensors file format: an 8-byte length, a JSON header, raw little-endian numbers.
 *
 * Source: format description of huggingface/safetensors. Nothing in a file is ever executed, and no more is allocated than
 * the file is long.
 */
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { FormatFailure } from '../../core/failure.js'

/** Numbers in memory with a shape, row-major. */
export interface HostArray {
  readonly shape: readonly number[]
  readonly data: Float32Array | Int32Array
}

/** How numbers are stored in a file. F16 and BF16 become float32 when read. */
export type StorageType = 'F32' | 'F16' | 'BF16' | 'I32'

export interface SafetensorsFile {
  /** In the order of their data. */
  readonly arrays: ReadonlyMap<string, HostArray>
  readonly metadata: Readonly<Record<string, string>>
}

const BYTES: Readonly<Record<StorageType, number>> = { F32: 4, F16: 2, BF16: 2, I32: 4 }

const entrySchema = z.strictObject({
  dtype: z.string(),
  shape: z.array(z.number().int().nonnegative()),
  data_offsets: z.tuple([z.number().int().nonnegative(), z.number().int().nonnegative()]),
})

interface Entry {
  readonly name: string
  readonly type: StorageType
  readonly shape: readonly number[]
  readonly begin: number
  readonly end: number
}

const fail = (reason: string): E.Either<FormatFailure, never> =>
  E.left({ _tag: 'FormatFailure', format: 'safetensors', reason })

const isStorageType = (name: string): name is StorageType => Object.hasOwn(BYTES, name)

/** IEEE half precision to single. */
export const float16ToFloat32 = (bits: number): number => {
  const sign = bits & 0x8000 ? -1 : 1
  const exponent = (bits >> 10) & 0x1f
  const fraction = bits & 0x3ff
  if (exponent === 0) return sign * fraction * 2 ** -24
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15)
}

const widen = (bytes: Uint8Array, type: StorageType): Float32Array | Int32Array => {
  const aligned = new Uint8Array(bytes) // a copy: the offset in the file need not be a multiple of the element size
  if (type === 'F32') return new Float32Array(aligned.buffer)
  if (type === 'I32') return new Int32Array(aligned.buffer)
  const halves = new Uint16Array(aligned.buffer)
  if (type === 'F16') return Float32Array.from(halves, float16ToFloat32)
  const words = new Uint32Array(halves.length)
  for (let i = 0; i < halves.length; i++) words[i] = halves[i]! << 16
  return new Float32Array(words.buffer)
}

/** bfloat16 of a float32, rounded to nearest even. */
const toBfloat16 = (data: Float32Array): Uint16Array => {
  const words = new Uint32Array(data.buffer, data.byteOffset, data.length)
  return Uint16Array.from(words, (word, i) =>
    Number.isNaN(data[i]!) ? 0x7fc0 : (word + 0x7fff + ((word >>> 16) & 1)) >>> 16,
  )
}

const parseHeader = (bytes: Uint8Array): E.Either<FormatFailure, readonly [Record<string, unknown>, number]> => {
  if (bytes.length < 8) return fail(`the file has ${bytes.length} bytes; the length of the header alone takes 8`)
  const length = new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0, true)
  if (length > BigInt(bytes.length - 8)) {
    return fail(
      `the header should have ${length} bytes, but only ${bytes.length - 8} follow: the file is cut off or not safetensors`,
    )
  }
  const text = new TextDecoder().decode(bytes.subarray(8, 8 + Number(length)))
  try {
    const json: unknown = JSON.parse(text)
    if (typeof json !== 'object' || json === null || Array.isArray(json)) return fail('the header is not a JSON object')
    return E.right([json as Record<string, unknown>, 8 + Number(length)]) // an object, checked above
  } catch (error) {
    return fail(`the header is not JSON: ${error instanceof Error ? error.message : String(error)}`)
  }
}

const parseEntry = (name: string, raw: unknown, available: number): E.Either<FormatFailure, Entry> => {
  const parsed = entrySchema.safeParse(raw)
  if (!parsed.success) return fail(`tensor '${name}': ${z.prettifyError(parsed.error)}`)
  const { dtype, shape, data_offsets } = parsed.data
  const [begin, end] = data_offsets
  if (!isStorageType(dtype)) return fail(`tensor '${name}': dtype ${dtype} is not supported (F32, F16, BF16, I32)`)
  const expected = shape.reduce((n, m) => n * m, BYTES[dtype])
  if (end < begin || end - begin !== expected) {
    return fail(
      `tensor '${name}': bytes ${begin} to ${end} do not hold ${dtype} [${shape.join()}], which takes ${expected}`,
    )
  }
  if (end > available) {
    return fail(`tensor '${name}' ends at byte ${end} of the data, but the file has only ${available}: it is cut off`)
  }
  return E.right({ name, type: dtype, shape, begin, end })
}

/** By place in the data: the header's own order is lost, since JSON objects list names such as '10' first. */
const inDataOrder = (entries: readonly Entry[]): readonly Entry[] =>
  [...entries].sort((a, b) => a.begin - b.begin || a.end - b.end)

const overlapping = (ordered: readonly Entry[]): string | undefined =>
  ordered.find((entry, i) => i > 0 && entry.begin < ordered[i - 1]!.end)?.name

/**
 * Reads a whole file.
 *
 * Errors   `Left(FormatFailure)`, naming the tensor, for a truncated file, a malformed header, an unknown dtype, or byte ranges
 *          that overlap or do not fit the shape.
 * Effects  none; the arrays are copies.
 */
export const decodeSafetensors = (bytes: Uint8Array): E.Either<FormatFailure, SafetensorsFile> => {
  const header = parseHeader(bytes)
  if (E.isLeft(header)) return header
  const [json, start] = header.right
  const metadata = z.record(z.string(), z.string()).optional().safeParse(json.__metadata__)
  if (!metadata.success) return fail('__metadata__ is not a map of strings')
  const entries: Entry[] = []
  for (const [name, raw] of Object.entries(json)) {
    if (name === '__metadata__') continue
    const entry = parseEntry(name, raw, bytes.length - start)
    if (E.isLeft(entry)) return entry
    entries.push(entry.right)
  }
  const ordered = inDataOrder(entries)
  const clash = overlapping(ordered)
  if (clash !== undefined) return fail(`tensor '${clash}' overlaps another one`)
  const arrays = new Map(
    ordered.map(({ name, type, shape, begin, end }) => [
      name,
      { shape, data: widen(bytes.subarray(start + begin, start + end), type) },
    ]),
  )
  return E.right({ arrays, metadata: metadata.data ?? {} })
}

const encodeArray = ({ data }: HostArray, float: 'F32' | 'BF16'): readonly [StorageType, Uint8Array] => {
  const raw = (array: Float32Array | Int32Array | Uint16Array): Uint8Array =>
    new Uint8Array(array.buffer, array.byteOffset, array.byteLength)
  if (data instanceof Int32Array) return ['I32', raw(data)]
  return float === 'BF16' ? ['BF16', raw(toBfloat16(data))] : ['F32', raw(data)]
}

/**
 * Writes arrays in the order given: equal arguments give equal bytes. `decodeSafetensors` reads them back exactly (F32, I32),
 * or rounded to 8 bits of precision (BF16).
 *
 * Errors   throws RangeError, naming the array, if an array does not fit its shape, or is named `__metadata__`, which the
 *          format keeps for itself.
 */
export const encodeSafetensors = (
  arrays: ReadonlyMap<string, HostArray>,
  options: { readonly metadata?: Readonly<Record<string, string>>; readonly float?: 'F32' | 'BF16' } = {},
): Uint8Array => {
  const { metadata = {}, float = 'F32' } = options
  const header: Record<string, unknown> = Object.create(null) // no prototype: a tensor may have any name
  if (Object.keys(metadata).length > 0) header.__metadata__ = metadata
  const parts: Uint8Array[] = []
  let offset = 0
  for (const [name, array] of arrays) {
    if (name === '__metadata__') throw new RangeError("encodeSafetensors: no array may be named '__metadata__'")
    const elements = array.shape.reduce((n, m) => n * m, 1)
    if (elements !== array.data.length) {
      throw new RangeError(
        `encodeSafetensors: '${name}' has ${array.data.length} elements, shape [${array.shape.join()}] needs ${elements}`,
      )
    }
    const [dtype, bytes] = encodeArray(array, float)
    header[name] = { dtype, shape: array.shape, data_offsets: [offset, offset + bytes.length] }
    parts.push(bytes)
    offset += bytes.length
  }
  const text = new TextEncoder().encode(JSON.stringify(header))
  const padding = (8 - (text.length % 8)) % 8 // the reference pads the header with blanks, so that the data is aligned
  const file = new Uint8Array(8 + text.length + padding + offset)
  new DataView(file.buffer).setBigUint64(0, BigInt(text.length + padding), true)
  file.set(text, 8)
  file.fill(0x20, 8 + text.length, 8 + text.length + padding)
  let place = 8 + text.length + padding
  for (const part of parts) {
    file.set(part, place)
    place += part.length
  }
  return file
}
