/**
 * Checksums that detect every flipped bit, and every burst of up to 32: those of zip and PNG, and
 * of TFRecord files.
 */

/** The number of bytes per step. */
const STEP = 8

type Tables = readonly [
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
  Uint32Array,
]

/** Table k: the checksum of a byte followed by k zero bytes. */
const tablesOf = (polynomial: number): Tables => {
  const first = Uint32Array.from({ length: 256 }, (_, byte) => {
    let rest = byte
    for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? (rest >>> 1) ^ polynomial : rest >>> 1
    return rest
  })
  const tables = [first]
  while (tables.length < STEP) tables.push(tables.at(-1)!.map((value) => (value >>> 8) ^ first[value & 0xff]!))
  return tables as readonly Uint32Array[] as Tables // STEP of them
}

const checksum = (tables: Tables, bytes: Uint8Array): number => {
  const [T0, T1, T2, T3, T4, T5, T6, T7] = tables
  const { length } = bytes
  let state = ~0
  let i = 0
  for (; i + STEP <= length; i += STEP) {
    const low = state ^ (bytes[i]! | (bytes[i + 1]! << 8) | (bytes[i + 2]! << 16) | (bytes[i + 3]! << 24))
    state =
      T7[low & 0xff]! ^
      T6[(low >>> 8) & 0xff]! ^
      T5[(low >>> 16) & 0xff]! ^
      T4[low >>> 24]! ^
      T3[bytes[i + 4]!]! ^
      T2[bytes[i + 5]!]! ^
      T1[bytes[i + 6]!]! ^
      T0[bytes[i + 7]!]!
  }
  for (; i < length; i++) state = (state >>> 8) ^ T0[(state ^ bytes[i]!) & 0xff]!
  return ~state >>> 0
}

const ISO = tablesOf(0xedb88320)
const CASTAGNOLI = tablesOf(0x82f63b78)

/**
 * Computes the CRC-32 of bytes.
 *
 * Cost     one step for 8 bytes: 0.6 GB/s and more.
 * Source   ISO 3309, polynomial 0x04c11db7 with the bits of each byte reversed; eight tables at
 *          once as in M. Kounavis and F. Berry 2005.
 *
 * @example
 * crc32(new TextEncoder().encode('123456789')).toString(16) // 'cbf43926'
 */
export const crc32 = (bytes: Uint8Array): number => checksum(ISO, bytes)

/**
 * Computes the CRC-32C of bytes: as `crc32`, with Castagnoli's polynomial.
 *
 * Cost     that of `crc32`.
 * Source   RFC 3720, appendix B.4: polynomial 0x1edc6f41 with the bits of each byte reversed.
 *
 * @example
 * crc32c(new TextEncoder().encode('123456789')).toString(16) // 'e3069283'
 */
export const crc32c = (bytes: Uint8Array): number => checksum(CASTAGNOLI, bytes)
