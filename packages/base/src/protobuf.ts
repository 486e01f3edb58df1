/** Writes protocol buffers: varint, 32-bit, 64-bit and length-delimited fields. */

/** Writes the fields of one message. */
export interface MessageWriter {
  readonly integer: (field: number, value: number | bigint) => void
  readonly float: (field: number, value: number) => void
  readonly double: (field: number, value: number) => void
  readonly text: (field: number, value: string) => void
  /** Writes an array, which must not change until `finish`. */
  readonly bytes: (field: number, value: Uint8Array) => void
  readonly message: (field: number, write: (writer: MessageWriter) => void) => void
}

/** A growing buffer. One writer creates one message. */
export interface ProtobufWriter extends MessageWriter {
  readonly finish: () => Uint8Array
}

const encoder = new TextEncoder()

/** The size up to which arrays are copied while a message is written. */
const COPIED_BYTES = 1024

/** A message in progress: the arrays that it consists of. */
interface Pieces {
  readonly writer: MessageWriter
  /** Returns everything that was written. Nothing may be written afterwards. */
  readonly all: () => { readonly pieces: readonly Uint8Array[]; readonly length: number }
}

const messagePieces = (): Pieces => {
  const pieces: Uint8Array[] = []
  let before = 0 // the size of the pieces
  let buffer = new Uint8Array(64)
  let [start, end] = [0, 0] // the part of the buffer that was written since the last piece

  const add = (piece: Uint8Array): void => {
    pieces.push(piece)
    before += piece.length
  }
  const close = (): void => {
    if (end > start) add(buffer.subarray(start, end))
    start = end
  }
  const reserve = (extra: number): void => {
    if (end + extra <= buffer.length) return
    close()
    buffer = new Uint8Array(Math.max(buffer.length * 2, extra))
    start = end = 0
  }
  const varint = (value: number | bigint): void => {
    reserve(10)
    if (typeof value === 'number' && value >= 0 && value < 2 ** 31) {
      let rest = value
      while (rest > 127) {
        buffer[end++] = (rest & 127) | 128
        rest >>>= 7
      }
      buffer[end++] = rest
      return
    }
    let rest = BigInt.asUintN(64, BigInt(value)) // negative numbers take ten bytes, as protobuf requires
    while (rest > 127n) {
      buffer[end++] = Number(rest & 127n) | 128
      rest >>= 7n
    }
    buffer[end++] = Number(rest)
  }
  const bytes = (field: number, value: Uint8Array): void => {
    varint(field * 8 + 2)
    varint(value.length)
    if (value.length > COPIED_BYTES) {
      close()
      add(value)
      return
    }
    reserve(value.length)
    buffer.set(value, end)
    end += value.length
  }
  const writer: MessageWriter = {
    integer: (field, value) => {
      varint(field * 8)
      varint(value)
    },
    float: (field, value) => {
      varint(field * 8 + 5)
      reserve(4)
      new DataView(buffer.buffer).setFloat32(end, value, true)
      end += 4
    },
    double: (field, value) => {
      varint(field * 8 + 1)
      reserve(8)
      new DataView(buffer.buffer).setFloat64(end, value, true)
      end += 8
    },
    text: (field, value) => bytes(field, encoder.encode(value)),
    bytes,
    message: (field, write) => {
      const inner = messagePieces()
      write(inner.writer)
      const { pieces: parts, length } = inner.all()
      varint(field * 8 + 2)
      varint(length)
      if (length <= COPIED_BYTES) {
        reserve(length)
        for (const part of parts) {
          buffer.set(part, end)
          end += part.length
        }
        return
      }
      close()
      parts.forEach(add)
    },
  }
  return {
    writer,
    all: () => {
      close()
      return { pieces, length: before }
    },
  }
}

/**
 * Creates a writer of one protobuf message. Effects: none outside the writer. Cost: linear in the
 * bytes written; long arrays are copied once, by `finish`.
 */
export const protobufWriter = (): ProtobufWriter => {
  const message = messagePieces()
  return {
    ...message.writer,
    finish: () => {
      const { pieces, length } = message.all()
      const result = new Uint8Array(length)
      let place = 0
      for (const piece of pieces) {
        result.set(piece, place)
        place += piece.length
      }
      return result
    },
  }
}
