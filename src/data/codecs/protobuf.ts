/** Protocol buffers, as far as writing a few small messages needs them. */
import { joinBytes } from '../../core/joinBytes.js'

const utf8 = new TextEncoder()

/** Seven bits in each byte, the low ones first; the highest bit says that more follow. */
const varint = (value: number): Uint8Array => {
  const bytes: number[] = []
  let rest = value
  for (; rest > 0x7f; rest = Math.floor(rest / 128)) bytes.push((rest % 128) | 0x80)
  return Uint8Array.from([...bytes, rest])
}

const WIRE = { varint: 0, eight: 1, bytes: 2 }

const tagged = (field: number, wire: number, value: Uint8Array): Uint8Array =>
  joinBytes([varint(field * 8 + wire), value])

const NOTHING = new Uint8Array(0)

/**
 * A whole number in a field; 0 takes no bytes.
 *
 * Errors   throws RangeError for a number that is not an integer from 0 to 2^53 - 1.
 *
 * @example
 * protoInteger(1, 300) // Uint8Array.of(8, 172, 2)
 */
export const protoInteger = (field: number, value: number): Uint8Array => {
  if (!Number.isSafeInteger(value) || value < 0)
    throw new RangeError(`protoInteger: expected an integer of at least 0, got ${value}`)
  return value === 0 ? NOTHING : tagged(field, WIRE.varint, varint(value))
}

/**
 * A number of double precision in a field; 0 takes no bytes.
 *
 * @example
 * protoDouble(1, 1) // Uint8Array.of(9, 0, 0, 0, 0, 0, 0, 240, 63)
 */
export const protoDouble = (field: number, value: number): Uint8Array => {
  const bytes = new Uint8Array(8)
  new DataView(bytes.buffer).setFloat64(0, value, true)
  return value === 0 ? NOTHING : tagged(field, WIRE.eight, bytes)
}

/**
 * A text, bytes, or a message made of fields, in a field. What is empty stands there as empty.
 *
 * @example
 * protoBytes(2, 'ab') // Uint8Array.of(18, 2, 97, 98)
 */
export const protoBytes = (field: number, value: string | Uint8Array | readonly Uint8Array[]): Uint8Array => {
  const bytes = typeof value === 'string' ? utf8.encode(value) : value instanceof Uint8Array ? value : joinBytes(value)
  return tagged(field, WIRE.bytes, joinBytes([varint(bytes.length), bytes]))
}
