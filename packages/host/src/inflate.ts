/** Decompression by Node's zlib. */
import { inflateRawSync } from 'node:zlib'

/** Decompresses raw DEFLATE data. Throws if it is malformed or longer than `most` bytes. */
export const inflateRaw = (bytes: Uint8Array, most: number): Uint8Array =>
  inflateRawSync(bytes, { maxOutputLength: Math.max(1, most) })
