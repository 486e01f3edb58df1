/** Bytes that come in pieces, as base64. */
import type { SizedBytes } from './pickle.js'

const LETTERS = new TextEncoder().encode('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/')
const PADDING = 0x3d

/** How many characters base64 takes for so many bytes. */
export const base64Length = (bytes: number): number => 4 * Math.ceil(bytes / 3)

/**
 * Base64 with padding.
 *
 * Errors   throws RangeError if the pieces are not as many bytes as they should be.
 * Cost     beside the result, one buffer of its length: no piece is kept, and no text is put together twice.
 * Source   RFC 4648, section 4.
 *
 * @example
 * base64({ byteLength: 2, pieces: () => [Uint8Array.of(104, 105)] }) // 'aGk='
 */
export const base64 = ({ byteLength, pieces }: SizedBytes): string => {
  const result = new Uint8Array(base64Length(byteLength))
  let [at, seen, carried, held] = [0, 0, 0, 0]
  for (const piece of pieces()) {
    seen += piece.length
    if (seen > byteLength) break
    for (let i = 0; i < piece.length; i++) {
      carried = (carried << 8) | piece[i]!
      if (++held < 3) continue
      result[at++] = LETTERS[carried >>> 18]!
      result[at++] = LETTERS[(carried >>> 12) & 63]!
      result[at++] = LETTERS[(carried >>> 6) & 63]!
      result[at++] = LETTERS[carried & 63]!
      carried = 0
      held = 0
    }
  }
  if (seen !== byteLength) throw new RangeError(`base64: ${byteLength} bytes were promised, ${seen} came`)
  if (held > 0) {
    const bits = carried << (8 * (3 - held))
    result[at++] = LETTERS[bits >>> 18]!
    result[at++] = LETTERS[(bits >>> 12) & 63]!
    result[at++] = held === 2 ? LETTERS[(bits >>> 6) & 63]! : PADDING
    result[at++] = PADDING
  }
  return new TextDecoder('latin1').decode(result)
}
