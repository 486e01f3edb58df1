/** Digests by Node's crypto. */
import { createHash } from 'node:crypto'
import type { Digest } from '../core/digest.js'

/** Computes the SHA-256 digest in hexadecimal. */
export const liveDigest: Digest = (contents) => createHash('sha256').update(contents).digest('hex')
