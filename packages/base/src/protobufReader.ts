/** Reads protocol buffers: the fields of one message, in order. */
import { FailureError, type FormatFailure } from './failure.js'
import { workCounter } from './workBudget.js'

/** The value of a field, by its wire type. */
type ProtobufValue =
  | { readonly wire: 'varint'; readonly value: bigint }
  | { readonly wire: 'fixed64' | 'fixed32' | 'bytes'; readonly value: Uint8Array }

/** One field of a message. */
export type ProtobufField = { readonly field: number } & ProtobufValue

const problem = (reason: string): FormatFailure => ({ _tag: 'FormatFailure', format: 'protobuf', reason })

const broken = (reason: string): never => {
  throw new FailureError(problem(reason))
}

/** Counts fields and packed integers. `withBudget(n, run)` ends a run that reads more than `n`. */
export const protobufWork = workCounter(
  (units) => new FailureError(problem(`the message has more than ${units} fields`)),
  { base: 0, perInput: 1 },
)

/** The maximum number of bytes of a varint. */
const VARINT_BYTES = 10

const decoder = new TextDecoder('utf-8', { fatal: true })

/**
 * Reads the fields of a message. Arrays are views of `bytes`.
 *
 * Errors   throws FailureError with a FormatFailure for bytes that are not a message.
 * Cost     linear in the number of fields.
 *
 * @example
 * protobufFields(Uint8Array.of(8, 150, 1)) // [{ field: 1, wire: 'varint', value: 150n }]
 */
export const protobufFields = (bytes: Uint8Array): readonly ProtobufField[] => {
  const fields: ProtobufField[] = []
  let place = 0
  const varint = (): bigint => {
    let value = 0n
    for (let i = 0; i < VARINT_BYTES; i++) {
      const byte = bytes[place++]
      if (byte === undefined) return broken('the message ends inside a number')
      value |= BigInt(byte & 127) << BigInt(7 * i)
      if (byte < 128) return BigInt.asUintN(64, value)
    }
    return broken(`a number has more than ${VARINT_BYTES} bytes`)
  }
  const take = (length: number): Uint8Array => {
    if (place + length > bytes.length) return broken(`a field has ${length} bytes, but ${bytes.length - place} follow`)
    place += length
    return bytes.subarray(place - length, place)
  }
  while (place < bytes.length) {
    protobufWork.spend(1)
    const tag = varint()
    const field = Number(tag >> 3n)
    const wire = Number(tag & 7n)
    if (field === 0) broken('there is no field 0')
    if (wire === 0) fields.push({ field, wire: 'varint', value: varint() })
    else if (wire === 1) fields.push({ field, wire: 'fixed64', value: take(8) })
    else if (wire === 2) fields.push({ field, wire: 'bytes', value: take(Number(varint())) })
    else if (wire === 5) fields.push({ field, wire: 'fixed32', value: take(4) })
    else broken(`field ${field} has the wire type ${wire}`)
  }
  return fields
}

/** Returns the bytes of a field. Errors: throws FailureError for a field of another wire type. */
export const protobufBytes = ({ field, ...value }: ProtobufField): Uint8Array =>
  value.wire === 'bytes' ? value.value : broken(`field ${field} must be bytes, got ${value.wire}`)

/**
 * Returns the text of a field. Errors: throws FailureError for another wire type and for bytes that
 * are not UTF-8.
 */
export const protobufText = (field: ProtobufField): string => {
  try {
    return decoder.decode(protobufBytes(field))
  } catch (error) {
    return error instanceof FailureError ? broken(error.failure.reason) : broken(`field ${field.field} is not UTF-8`)
  }
}

/**
 * Returns the integer of a field, as a signed number. Errors: throws FailureError for another wire
 * type and beyond 2^53.
 */
export const protobufInteger = ({ field, ...value }: ProtobufField): number => {
  if (value.wire !== 'varint') return broken(`field ${field} must be an integer, got ${value.wire}`)
  const number = Number(BigInt.asIntN(64, value.value))
  return Number.isSafeInteger(number) ? number : broken(`field ${field} is beyond 2^53`)
}

/** Returns the double of a field. Errors: throws FailureError for another wire type. */
export const protobufDouble = ({ field, ...value }: ProtobufField): number =>
  value.wire === 'fixed64'
    ? new DataView(value.value.buffer, value.value.byteOffset, 8).getFloat64(0, true)
    : broken(`field ${field} must be a double, got ${value.wire}`)

/**
 * Returns the integers of a repeated field, packed or not. Errors: throws FailureError for another
 * wire type.
 */
export const protobufIntegers = (fields: readonly ProtobufField[]): readonly number[] =>
  fields.flatMap((each) => {
    if (each.wire !== 'bytes') return [protobufInteger(each)]
    const numbers: number[] = []
    let [value, shift] = [0n, 0n]
    for (const byte of each.value) {
      value |= BigInt(byte & 127) << shift
      shift += 7n
      if (byte >= 128 && shift < 70n) continue
      protobufWork.spend(1)
      numbers.push(Number(BigInt.asIntN(64, value)))
      value = shift = 0n
    }
    return shift === 0n ? numbers : broken(`field ${each.field} ends inside a number`)
  })
