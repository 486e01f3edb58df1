/** Arrays of every storage type, and files with any header over any data. */
import fc from 'fast-check'
import { storedArray } from '../../src/data/codecs/safetensors.js'
import {
  bytesOf,
  elementCount,
  type HostNumbers,
  numbersFrom,
  STORAGE_TYPES,
  type StoredArray,
  storageBytes,
} from '../../src/data/codecs/storage.js'

/**
 * A file with any header over any data: what another program, or a broken one, may have written.
 */
export const fileOf = (header: unknown, data: readonly number[] = []): Uint8Array => {
  const text = new TextEncoder().encode(typeof header === 'string' ? header : JSON.stringify(header))
  const file = new Uint8Array(8 + text.length + data.length)
  new DataView(file.buffer).setBigUint64(0, BigInt(text.length), true)
  file.set(text, 8)
  file.set(data, 8 + text.length)
  return file
}

/** The bytes of numbers, which distinguish -0 from 0 and one NaN from another. */
export const bitsOf = (data: HostNumbers): readonly number[] => [...bytesOf(data)]

const anyShape = fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 3 })

/** Any bits as numbers of any storage type. */
export const anyStoredArray: fc.Arbitrary<StoredArray> = fc
  .tuple(fc.constantFrom(...STORAGE_TYPES), anyShape)
  .chain(([type, shape]) => {
    const length = elementCount(shape)! * storageBytes(type)
    return fc
      .uint8Array({ minLength: length, maxLength: length })
      .map((bytes) => storedArray(type, shape, numbersFrom(type, bytes, 'copy')))
  })

const anyTensorName = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.constantFrom('__proto__', 'constructor', 'toString', '', '0', '10', '2', 'model.embed_tokens.weight', '"\\\u0000'),
)

/** Arrays by name, in any order. */
export const anyStoredArrays: fc.Arbitrary<ReadonlyMap<string, StoredArray>> = fc
  .uniqueArray(
    fc.tuple(
      anyTensorName.filter((name) => name !== '__metadata__'),
      anyStoredArray,
    ),
    { selector: ([name]) => name, maxLength: 5 },
  )
  .map((entries) => new Map(entries))

/** Names, types, shapes and bits, for comparison. */
export const contentsOf = (arrays: ReadonlyMap<string, StoredArray>): unknown =>
  [...arrays]
    .map(([name, { type, shape, data }]) => ({ name, type, shape, bits: bitsOf(data), kind: data.constructor.name }))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
