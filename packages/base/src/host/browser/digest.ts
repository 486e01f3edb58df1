/** Digests in a browser, whose own ones are asynchronous, in place of `../digest.ts`. */
export { sha256 as liveDigest } from '../../sha256.js'
