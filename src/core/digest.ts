/** Digests of contents, as a capability. */

/** Returns the SHA-256 of text (as UTF-8) or bytes, in hexadecimal digits. */
export type Digest = (contents: Uint8Array | string) => string
