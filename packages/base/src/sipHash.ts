/** SipHash-2-4: a hash of bytes that is the same in every process and on every machine. */

/**
 * The 64-bit state words as halves, low before high: v0 at 0 and 1, v1 at 2 and 3, v2 at 4 and 5,
 * v3 at 6 and 7.
 */
type Words = Int32Array

/** v[a] += v[b], with the carry between the halves. */
const addTo = (v: Words, a: number, b: number): void => {
  const low = (v[a]! >>> 0) + (v[b]! >>> 0)
  v[a + 1] = v[a + 1]! + v[b + 1]! + (low >= 2 ** 32 ? 1 : 0)
  v[a] = low | 0
}

/** v[a] = rotate(v[a], by) ^ v[b], for `by` below 32. */
const rotateMix = (v: Words, a: number, by: number, b: number): void => {
  const [low, high] = [v[a]!, v[a + 1]!]
  v[a] = ((low << by) | (high >>> (32 - by))) ^ v[b]!
  v[a + 1] = ((high << by) | (low >>> (32 - by))) ^ v[b + 1]!
}

/** Rotates v[a] by 32: swaps its halves. */
const swapHalves = (v: Words, a: number): void => {
  const low = v[a]!
  v[a] = v[a + 1]!
  v[a + 1] = low
}

const rounds = (v: Words, count: number): void => {
  for (let i = 0; i < count; i++) {
    addTo(v, 0, 2)
    addTo(v, 4, 6)
    rotateMix(v, 2, 13, 0)
    rotateMix(v, 6, 16, 4)
    swapHalves(v, 0)
    addTo(v, 4, 2)
    addTo(v, 0, 6)
    rotateMix(v, 2, 17, 4)
    rotateMix(v, 6, 21, 0)
    swapHalves(v, 4)
  }
}

const absorb = (v: Words, low: number, high: number): void => {
  v[6] = v[6]! ^ low
  v[7] = v[7]! ^ high
  rounds(v, 2)
  v[0] = v[0]! ^ low
  v[1] = v[1]! ^ high
}

/** Returns the constants of the paper, xored with the key. */
const begin = (key: DataView): Words => {
  const [low0, high0, low1, high1] = [0, 4, 8, 12].map((at) => key.getInt32(at, true)) as [
    number,
    number,
    number,
    number,
  ] // four places
  const constants = [0x70736575, 0x736f6d65, 0x6e646f6d, 0x646f7261, 0x6e657261, 0x6c796765, 0x79746573, 0x74656462]
  const keys = [low0, high0, low1, high1, low0, high0, low1, high1]
  return Int32Array.from(constants, (constant, i) => constant ^ keys[i]!)
}

const viewOf = (bytes: Uint8Array): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)

/** A key of zeros, for hashes that need no protection against chosen inputs. */
const NO_SECRET = new Uint8Array(16)

const hex = (word: number): string => (word >>> 0).toString(16).padStart(8, '0')

/**
 * Computes SipHash-2-4 of bytes under a key of 16 bytes, as 16 hexadecimal digits, the highest
 * first.
 *
 * Errors   throws RangeError unless the key has 16 bytes.
 * Cost     linear in the bytes; no allocation that grows with them.
 * Source   Aumasson and Bernstein 2012, "SipHash: a fast short-input PRF", section 2; golden values
 *          of OpenSSL.
 *
 * @example
 * sipHash(Uint8Array.from([1, 2, 3])) === sipHash(Uint8Array.from([1, 2, 3])) // true
 */
export const sipHash = (bytes: Uint8Array, key: Uint8Array = NO_SECRET): string => {
  if (key.length !== 16) throw new RangeError(`sipHash: the key must have 16 bytes, got ${key.length}`)
  const v = begin(viewOf(key))
  const view = viewOf(bytes)
  const whole = bytes.length & ~7
  for (let at = 0; at < whole; at += 8) absorb(v, view.getInt32(at, true), view.getInt32(at + 4, true))
  const rest = new Uint8Array(8)
  rest.set(bytes.subarray(whole))
  rest[7] = bytes.length & 0xff
  const last = viewOf(rest)
  absorb(v, last.getInt32(0, true), last.getInt32(4, true))
  v[4] = v[4]! ^ 0xff
  rounds(v, 4)
  return hex(v[1]! ^ v[3]! ^ v[5]! ^ v[7]!) + hex(v[0]! ^ v[2]! ^ v[4]! ^ v[6]!)
}
