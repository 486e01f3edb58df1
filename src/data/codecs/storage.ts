/**
 * Numbers as files store them: types, bytes, and the arrays that hold them in memory.
 *
 * Bytes are little-endian, like the machines that Node runs on.
 */
import { type FormatFailure, widenHalf } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'

/**
 * The array type that holds each storage type in memory. Half precision is widened to float32;
 * 8-bit floats stay raw bytes.
 */
export interface NumbersOf {
  readonly F64: Float64Array
  readonly F32: Float32Array
  readonly F16: Float32Array
  readonly BF16: Float32Array
  readonly I64: BigInt64Array
  readonly I32: Int32Array
  readonly I16: Int16Array
  readonly I8: Int8Array
  readonly U64: BigUint64Array
  readonly U32: Uint32Array
  readonly U16: Uint16Array
  readonly U8: Uint8Array
  readonly BOOL: Uint8Array
  readonly F8_E4M3: Uint8Array
  readonly F8_E5M2: Uint8Array
  readonly F8_E8M0: Uint8Array
  readonly F8_E4M3FNUZ: Uint8Array
  readonly F8_E5M2FNUZ: Uint8Array
}

/** The storage type of numbers in a file. */
export type StorageType = keyof NumbersOf

/** An array of any storage type. */
export type HostNumbers = NumbersOf[StorageType]

/** Numbers with their storage type, row-major. The type determines the array that holds them. */
export type StoredArray<T extends StorageType = StorageType> = {
  readonly [K in T]: { readonly type: K; readonly shape: readonly number[]; readonly data: NumbersOf[K] }
}[T]

interface TypeInfo {
  readonly bytes: number
  /** Creates numbers over the same memory. `offset` is a multiple of `bytes`. */
  readonly view: (buffer: ArrayBufferLike, offset: number, length: number) => HostNumbers
}

const typeInfo = (
  bytes: number,
  make: new (buffer: ArrayBufferLike, offset: number, length: number) => HostNumbers,
): TypeInfo => ({
  bytes,
  view: (buffer, offset, length) => new make(buffer, offset, length),
})

const BYTE = typeInfo(1, Uint8Array)
/** Raw 16-bit words, used for 16-bit floats before they are widened. */
const HALF = typeInfo(2, Uint16Array)

/** In the order of the reference implementation, whose files list larger types first. */
const TYPES: Readonly<Record<StorageType, TypeInfo>> = {
  BOOL: BYTE,
  U8: BYTE,
  I8: typeInfo(1, Int8Array),
  F8_E5M2: BYTE,
  F8_E4M3: BYTE,
  F8_E8M0: BYTE,
  F8_E4M3FNUZ: BYTE,
  F8_E5M2FNUZ: BYTE,
  I16: typeInfo(2, Int16Array),
  U16: HALF,
  F16: HALF,
  BF16: HALF,
  I32: typeInfo(4, Int32Array),
  U32: typeInfo(4, Uint32Array),
  F32: typeInfo(4, Float32Array),
  F64: typeInfo(8, Float64Array),
  I64: typeInfo(8, BigInt64Array),
  U64: typeInfo(8, BigUint64Array),
}

/** All storage types, smallest first, as the reference implementation sorts them. */
export const STORAGE_TYPES: readonly StorageType[] = Object.keys(TYPES) as StorageType[] // the keys of the record above

export const isStorageType = (name: string): name is StorageType => Object.hasOwn(TYPES, name)

/** Returns the number of bytes of one number. */
export const storageBytes = (type: StorageType): number => TYPES[type].bytes

/**
 * Returns the number of elements of a shape: 1 for the empty shape, undefined if an intermediate
 * product is not a safe integer.
 */
export const elementCount = (shape: readonly number[]): number | undefined => {
  let count = 1
  for (const size of shape) {
    count *= size
    if (!Number.isSafeInteger(count)) return undefined
  }
  return count
}

/** Drops `shift` bits, rounding to nearest, ties to even. */
const roundShift = (value: number, shift: number): number =>
  (value + (1 << (shift - 1)) - 1 + ((value >>> shift) & 1)) >>> shift

/**
 * Converts the bits of single precision to IEEE half precision, rounding to nearest, ties to even.
 * NaN keeps the part of its payload that fits.
 */
const narrowHalf = (word: number): number => {
  const sign = (word >>> 16) & 0x8000
  const magnitude = word & 0x7fffffff
  if (magnitude > 0x7f800000) return sign | 0x7c00 | ((magnitude >>> 13) & 0x3ff || 0x200)
  if (magnitude >= 0x477ff000) return sign | 0x7c00 // 65520 and more
  if (magnitude >= 0x38800000) return sign | roundShift(magnitude - 0x38000000, 13)
  const shift = 126 - (magnitude >>> 23) // below 2^-14: a multiple of 2^-24
  return shift > 24 ? sign : sign | roundShift((magnitude & 0x7fffff) | 0x800000, shift)
}

/**
 * Converts the bits of single precision to bfloat16, rounding to nearest, ties to even. NaN keeps
 * the part of its payload that fits.
 */
const narrowBrain = (word: number): number => {
  if ((word & 0x7fffffff) > 0x7f800000) return (word >>> 16) | ((word & 0x7f0000) === 0 ? 0x40 : 0)
  return (word + 0x7fff + ((word >>> 16) & 1)) >>> 16
}

/** Widens 16-bit floats into `target`. */
export const widenInto = (target: Float32Array, words: Uint16Array, type: 'F16' | 'BF16'): void => {
  const bits = new Uint32Array(target.buffer, target.byteOffset, target.length)
  if (type === 'F16') for (let i = 0; i < words.length; i++) bits[i] = widenHalf(words[i]!)
  else for (let i = 0; i < words.length; i++) bits[i] = words[i]! << 16
}

const narrow = (data: Float32Array, type: 'F16' | 'BF16'): Uint16Array => {
  const bits = new Uint32Array(data.buffer, data.byteOffset, data.length)
  const words = new Uint16Array(data.length)
  if (type === 'F16') for (let i = 0; i < words.length; i++) words[i] = narrowHalf(bits[i]!)
  else for (let i = 0; i < words.length; i++) words[i] = narrowBrain(bits[i]!)
  return words
}

/**
 * Returns true if no number is NaN or infinite.
 *
 * Cost     one pass, a fifth of the time of `every(Number.isFinite)`, which calls a function for
 *          each number.
 *
 * @example
 * allFinite(Float32Array.of(1, -0, Infinity)) // false
 */
export const allFinite = (data: Float32Array): boolean => {
  for (let i = 0; i < data.length; i++) if (data[i]! - data[i]! !== 0) return false
  return true
}

/**
 * The memory of values that are read: a copy, or views of the source bytes. `share` still copies if
 * alignment or the type requires it.
 */
export type MemoryUse = 'copy' | 'share'

/**
 * Reads numbers from bytes.
 *
 * Errors   none: `bytes` has a whole number of elements.
 * Cost     `share` takes no memory if the type is stored as it is held and `bytes` begins at a
 *          multiple of its size.
 */
export const numbersFrom = <T extends StorageType>(type: T, bytes: Uint8Array, memory: MemoryUse): NumbersOf[T] => {
  const { bytes: size, view } = TYPES[type]
  const place = memory === 'share' && bytes.byteOffset % size === 0 ? bytes : new Uint8Array(bytes)
  const numbers = view(place.buffer, place.byteOffset, place.byteLength / size)
  if ((type !== 'F16' && type !== 'BF16') || !(numbers instanceof Uint16Array)) return numbers as NumbersOf[T] // TYPES has the array of each type
  const wide = new Float32Array(numbers.length)
  widenInto(wide, numbers, type)
  return wide as NumbersOf[T] // T is one of the two
}

/** Returns the bytes of numbers, without a copy. */
export const bytesOf = ({ buffer, byteOffset, byteLength }: HostNumbers): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength)

/** The number of values that are narrowed at a time when they are written. */
const SLICE = 2 ** 20

/**
 * Yields the bytes of stored numbers in pieces. 16-bit floats are rounded a piece at a time; all
 * other types are not copied.
 */
export function* storedBytes(array: StoredArray): Generator<Uint8Array> {
  if (array.type !== 'F16' && array.type !== 'BF16') yield bytesOf(array.data)
  else {
    for (let start = 0; start < array.data.length; start += SLICE) {
      yield bytesOf(narrow(array.data.subarray(start, start + SLICE), array.type))
    }
  }
}

const PLAIN_TYPES: readonly (readonly [new (length: number) => HostNumbers, StorageType])[] = [
  [Float32Array, 'F32'],
  [Int32Array, 'I32'],
  [Float64Array, 'F64'],
  [BigInt64Array, 'I64'],
  [BigUint64Array, 'U64'],
  [Uint32Array, 'U32'],
  [Int16Array, 'I16'],
  [Uint16Array, 'U16'],
  [Int8Array, 'I8'],
  [Uint8Array, 'U8'],
]

/** Returns the storage type of an array in memory, or undefined for an array of another class. */
export const plainType = (data: HostNumbers): StorageType | undefined =>
  PLAIN_TYPES.find(([kind]) => data instanceof kind)?.[1]

/** Returns true if an array is of the class that holds a storage type. */
export const holds = (data: HostNumbers, type: StorageType): boolean => {
  const kind = plainType(data)
  if (type === 'F16' || type === 'BF16') return kind === 'F32'
  return kind === (storageBytes(type) === 1 && type !== 'I8' ? 'U8' : type)
}

/**
 * Converts integers to int32, the integer type of the engine.
 *
 * Errors   `Left(FormatFailure)` naming the first number that is out of range, or a type that is
 *          not an integer type. Nothing is rounded.
 *
 * @example
 * asInt32({ type: 'I64', shape: [2], data: BigInt64Array.of(1n, -1n) }) // right({ type: 'I32', shape: [2], data: [1, -1] })
 */
export const asInt32 = (array: StoredArray): E.Either<FormatFailure, StoredArray<'I32'>> => {
  const fail = (reason: string): E.Either<FormatFailure, never> =>
    E.left({ _tag: 'FormatFailure', format: 'int32', reason })
  const { type, shape, data } = array
  if (type.startsWith('F') || type.startsWith('BF')) return fail(`${type} does not hold integers`)
  const result = new Int32Array(data.length)
  for (let i = 0; i < result.length; i++) {
    result[i] = Number(data[i])
    if (result[i] !== Number(data[i])) return fail(`element ${i} is ${data[i]}, which is beyond int32`)
  }
  return E.right({ type: 'I32', shape, data: result })
}
