/** Digests by Node's crypto. */
import { createHash } from 'node:crypto'
import { makeDigest } from '../digest.js'

/** Computes the SHA-256 digest in hexadecimal. */
export const liveDigest = makeDigest(() => {
  const hash = createHash('sha256')
  return {
    add: (piece) => void hash.update(piece),
    value: () => hash.copy().digest('hex'),
  }
})
