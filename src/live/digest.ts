/** Digests by Node's crypto. */
import { createHash } from 'node:crypto'
import type { Digest } from '../core/digest.js'

/** SHA-256 in hexadecimal digits. */
export const liveDigest: Digest = (contents) => createHash('sha256').update(contents).digest('hex')
