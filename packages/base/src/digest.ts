/** Digests of contents, as a capability. */

/** A digest of pieces that arrive one after the other. */
export interface RunningDigest {
  readonly add: (piece: Uint8Array | string) => void
  /** Returns the digest of all pieces so far. More may follow. */
  readonly value: () => string
}

/** SHA-256 of text (as UTF-8) or bytes, in hexadecimal digits. */
export interface Digest {
  (contents: Uint8Array | string): string
  /** Starts a digest of pieces. */
  readonly start: () => RunningDigest
}

/** Makes a digest from its running form. */
export const makeDigest = (start: () => RunningDigest): Digest => {
  const digest = (contents: Uint8Array | string): string => {
    const running = start()
    running.add(contents)
    return running.value()
  }
  return Object.assign(digest, { start })
}
