/** Base64 encoding of bytes that arrive in pieces. */
import type { SizedBytes } from './pickle.js'

const LETTERS = new TextEncoder().encode('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/')
const PADDING = 0x3d

/** Returns the number of base64 characters for a number of bytes. */
export const base64Length = (bytes: number): number => 4 * Math.ceil(bytes / 3)

/**
 * Encodes bytes as base64 with padding.
 *
 * Errors   throws RangeError if the pieces do not have the announced number of bytes.
 * Cost     one buffer of the result's length in addition to the result. Pieces are not kept, and no
 *          text is concatenated.
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
  if (seen !== byteLength) throw new RangeError(`base64: expected ${byteLength} bytes, got ${seen}`)
  if (held > 0) {
    const bits = carried << (8 * (3 - held))
    result[at++] = LETTERS[bits >>> 18]!
    result[at++] = LETTERS[(bits >>> 12) & 63]!
    result[at++] = held === 2 ? LETTERS[(bits >>> 6) & 63]! : PADDING
    result[at++] = PADDING
  }
  return new TextDecoder('latin1').decode(result)
}
