/** Fills an array with parts, one after the other. */
const joinedIn = <A extends Uint8Array | Int32Array>(joined: A, parts: readonly A[]): A => {
  let at = 0
  for (const part of parts) {
    joined.set(part, at)
    at += part.length
  }
  return joined
}

const lengthOf = (parts: readonly { readonly length: number }[]): number =>
  parts.reduce((sum, { length }) => sum + length, 0)

/**
 * Concatenates bytes. A single part is returned as it is, not copied.
 *
 * Cost     one copy of all bytes.
 *
 * @example
 * joinBytes([Uint8Array.of(1), Uint8Array.of(2, 3)]) // Uint8Array.of(1, 2, 3)
 */
export const joinBytes = (parts: readonly Uint8Array[]): Uint8Array =>
  parts.length === 1 ? parts[0]! : joinedIn(new Uint8Array(lengthOf(parts)), parts)

/** Concatenates lists of token ids, as `joinBytes` does bytes. */
export const joinInts = (parts: readonly Int32Array[]): Int32Array =>
  parts.length === 1 ? parts[0]! : joinedIn(new Int32Array(lengthOf(parts)), parts)
