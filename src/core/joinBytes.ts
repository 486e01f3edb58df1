/**
 * Concatenates bytes. A single part is returned as it is, not copied.
 *
 * Cost     one copy of all bytes.
 *
 * @example
 * joinBytes([Uint8Array.of(1), Uint8Array.of(2, 3)]) // Uint8Array.of(1, 2, 3)
 */
export const joinBytes = (parts: readonly Uint8Array[]): Uint8Array => {
  if (parts.length === 1) return parts[0]!
  const joined = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    joined.set(part, at)
    at += part.length
  }
  return joined
}

/** Concatenates lists of token ids, as `joinBytes` does bytes. */
export const joinInts = (parts: readonly Int32Array[]): Int32Array => {
  if (parts.length === 1) return parts[0]!
  const joined = new Int32Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    joined.set(part, at)
    at += part.length
  }
  return joined
}
