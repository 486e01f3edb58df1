/** The header of a safetensors file: 8 bytes of length, then JSON. */
import {
  type FormatFailure,
  isJsonArray,
  isJsonNumber,
  isJsonObject,
  lfsProblemOfBytes,
  parseStrictJson,
  type StrictJson,
} from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { elementCount, isStorageType, STORAGE_TYPES, type StorageType, storageBytes } from './storage.js'

/** The location of one tensor in the file. */
export interface SafetensorsEntry {
  readonly type: StorageType
  readonly shape: readonly number[]
  /** The first byte, counted from the start of the file. */
  readonly begin: number
  /** The byte after the last one. */
  readonly end: number
}

export interface SafetensorsHeader {
  /** Entries in the order of their data. */
  readonly entries: ReadonlyMap<string, SafetensorsEntry>
  readonly metadata: Readonly<Record<string, string>>
}

/** Bytes before the JSON. */
export const LENGTH_BYTES = 8

/** The key that the format reserves. */
export const METADATA = '__metadata__'

/** The maximum size of a header, as in the reference implementation. */
const MAX_HEADER_BYTES = 100_000_000

const fail = (reason: string): E.Either<FormatFailure, never> =>
  E.left({ _tag: 'FormatFailure', format: 'safetensors', reason })

/**
 * Returns the number of bytes of JSON after the first 8 of a file of `fileBytes`. `first` holds
 * these 8 bytes, or fewer if the file is shorter.
 */
export const headerLength = (first: Uint8Array, fileBytes: number): E.Either<FormatFailure, number> => {
  if (fileBytes < LENGTH_BYTES) {
    return fail(`the file has ${fileBytes} bytes, but the length of the header alone takes ${LENGTH_BYTES}`)
  }
  const pointer = lfsProblemOfBytes(first)
  if (pointer !== undefined) return fail(pointer)
  const length = new DataView(first.buffer, first.byteOffset, LENGTH_BYTES).getBigUint64(0, true)
  if (length > BigInt(fileBytes - LENGTH_BYTES)) {
    return fail(
      `the header should have ${length} bytes, but only ${fileBytes - LENGTH_BYTES} follow: the file is truncated or not safetensors`,
    )
  }
  if (length > BigInt(MAX_HEADER_BYTES)) return fail(`a header of ${length} bytes is longer than ${MAX_HEADER_BYTES}`)
  return E.right(Number(length))
}

const decodeText = (bytes: Uint8Array): E.Either<FormatFailure, string> =>
  E.tryCatch(
    () => new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes),
    () => ({ _tag: 'FormatFailure', format: 'safetensors', reason: 'the header is not UTF-8' }),
  )

const naturalNumber = (value: StrictJson): number | undefined => {
  if (!isJsonNumber(value) || !/^\d+$/.test(value.source)) return undefined
  const number = Number(value.source)
  return Number.isSafeInteger(number) ? number : undefined
}

/** Reads a list of natural numbers. Returns undefined for any other value. */
const naturalNumbers = (value: StrictJson | undefined): readonly number[] | undefined => {
  if (!isJsonArray(value)) return undefined
  const numbers = value.map(naturalNumber)
  return numbers.every((n) => n !== undefined) ? numbers : undefined
}

interface Named extends SafetensorsEntry {
  readonly name: string
}

/** Parses an entry with its offsets from the header, which count from the start of the data. */
const parseEntry = (name: string, raw: StrictJson): E.Either<FormatFailure, Named> => {
  const refuse = (reason: string): E.Either<FormatFailure, never> => fail(`tensor ${JSON.stringify(name)}: ${reason}`)
  if (!isJsonObject(raw)) return refuse('the entry is not an object')
  const dtype = raw.get('dtype')
  const shape = naturalNumbers(raw.get('shape'))
  const offsets = naturalNumbers(raw.get('data_offsets'))
  if (typeof dtype !== 'string') return refuse("'dtype' is not a text")
  if (!isStorageType(dtype)) return refuse(`dtype ${dtype} is not supported (${STORAGE_TYPES.join(', ')})`)
  if (shape === undefined) return refuse("'shape' is not a list of sizes from 0 to 2^53 - 1")
  const [begin, end] = offsets ?? []
  if (offsets?.length !== 2 || begin === undefined || end === undefined) {
    return refuse("'data_offsets' are not two numbers from 0 to 2^53 - 1")
  }
  const bytes = elementCount([...shape, storageBytes(dtype)])
  if (bytes === undefined) return refuse(`shape [${shape.join()}] has more bytes than can be counted`)
  if (end - begin !== bytes) {
    return refuse(`bytes ${begin} to ${end} do not hold ${dtype} [${shape.join()}], which takes ${bytes}`)
  }
  return E.right({ name, type: dtype, shape, begin, end })
}

const parseMetadata = (raw: StrictJson | undefined): E.Either<FormatFailure, Readonly<Record<string, string>>> => {
  if (raw === undefined || raw === null) return E.right({})
  if (!isJsonObject(raw)) return fail(`${METADATA} is not an object`)
  const texts = [...raw].filter((pair): pair is [string, string] => typeof pair[1] === 'string')
  return texts.length === raw.size ? E.right(Object.fromEntries(texts)) : fail(`${METADATA} is not a map of strings`)
}

/**
 * Returns the reason why ordered entries do not fill `available` bytes without gap or overlap, or
 * undefined.
 */
const coverProblem = (ordered: readonly Named[], available: number): string | undefined => {
  let covered = 0
  for (const { name, begin, end } of ordered) {
    const who = `tensor ${JSON.stringify(name)}`
    if (begin < covered)
      return `${who} overlaps another one: it begins at byte ${begin}, the one before ends at ${covered}`
    if (begin > covered) return `bytes ${covered} to ${begin} of the data, before ${who}, belong to no tensor`
    if (end > available)
      return `${who} ends at byte ${end} of the data, but the file has only ${available}: it is truncated`
    covered = end
  }
  return covered < available ? `${available - covered} bytes follow the last tensor and belong to none` : undefined
}

/**
 * Parses the JSON of a header.
 *
 * Errors   `Left(FormatFailure)`, naming the tensor, for everything that the reference
 *          implementation refuses: text that is not UTF-8 or not JSON, missing or wrong fields, an
 *          unknown dtype, sizes that are not natural numbers, ranges that do not fit the shape,
 *          overlap, leave gaps, or do not end with the file.
 * Source   stricter than huggingface/safetensors 0.8 in four cases that no writer produces: a
 *          duplicate name or metadata key; an entry written as a list, or a dtype as an object;
 *          sizes from 2^53; and F4, F6 and C64, which are refused by name.
 */
export const parseSafetensorsHeader = (
  json: Uint8Array,
  fileBytes: number,
): E.Either<FormatFailure, SafetensorsHeader> => {
  const text = decodeText(json)
  if (E.isLeft(text)) return text
  const parsed = parseStrictJson(text.right)
  if (E.isLeft(parsed)) return fail(`the header is not JSON: ${parsed.left}`)
  if (!isJsonObject(parsed.right)) return fail('the header is not a JSON object')
  const metadata = parseMetadata(parsed.right.get(METADATA))
  if (E.isLeft(metadata)) return metadata
  const named: Named[] = []
  for (const [name, raw] of parsed.right) {
    if (name === METADATA) continue
    const entry = parseEntry(name, raw)
    if (E.isLeft(entry)) return entry
    named.push(entry.right)
  }
  const start = LENGTH_BYTES + json.length
  const ordered = named.sort((a, b) => a.begin - b.begin || a.end - b.end)
  const problem = coverProblem(ordered, fileBytes - start)
  if (problem !== undefined) return fail(problem)
  const entries = new Map(
    ordered.map(({ name, type, shape, begin, end }) => [name, { type, shape, begin: start + begin, end: start + end }]),
  )
  return E.right({ entries, metadata: metadata.right })
}
