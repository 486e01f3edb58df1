/** The few protobuf wire forms that an ONNX model needs (protobuf encoding: varint, 32-bit, length-delimited). */

/** Grows as it is written to. One writer makes one message. */
export interface ProtobufWriter {
  readonly integer: (field: number, value: number | bigint) => void
  readonly float: (field: number, value: number) => void
  readonly text: (field: number, value: string) => void
  readonly bytes: (field: number, value: Uint8Array) => void
  readonly message: (field: number, write: (writer: ProtobufWriter) => void) => void
  readonly finish: () => Uint8Array
}

const encoder = new TextEncoder()

/** A writer of one protobuf message. Effects: none outside the writer. Cost: linear in the bytes written. */
export const protobufWriter = (): ProtobufWriter => {
  let buffer = new Uint8Array(256)
  let length = 0

  const reserve = (extra: number): void => {
    if (length + extra <= buffer.length) return
    const grown = new Uint8Array(Math.max(buffer.length * 2, length + extra))
    grown.set(buffer.subarray(0, length))
    buffer = grown
  }
  const varint = (value: number | bigint): void => {
    reserve(10)
    if (typeof value === 'number' && value >= 0 && value < 2 ** 31) {
      let rest = value
      while (rest > 127) {
        buffer[length++] = (rest & 127) | 128
        rest >>>= 7
      }
      buffer[length++] = rest
      return
    }
    let rest = BigInt.asUintN(64, BigInt(value)) // negative numbers take ten bytes, as protobuf asks
    while (rest > 127n) {
      buffer[length++] = Number(rest & 127n) | 128
      rest >>= 7n
    }
    buffer[length++] = Number(rest)
  }
  const bytes = (field: number, value: Uint8Array): void => {
    varint(field * 8 + 2)
    varint(value.length)
    reserve(value.length)
    buffer.set(value, length)
    length += value.length
  }

  return {
    integer: (field, value) => {
      varint(field * 8)
      varint(value)
    },
    float: (field, value) => {
      varint(field * 8 + 5)
      reserve(4)
      new DataView(buffer.buffer).setFloat32(length, value, true)
      length += 4
    },
    text: (field, value) => bytes(field, encoder.encode(value)),
    bytes,
    message: (field, write) => {
      const inner = protobufWriter()
      write(inner)
      bytes(field, inner.finish())
    },
    finish: () => buffer.slice(0, length),
  }
}
