/** SHA-256 in JavaScript, for hosts without a synchronous digest of their own. */
import { type Digest, makeDigest, type RunningDigest } from './digest.js'
import { joinBytes } from './joinBytes.js'

const WORD = 2 ** 32

/** The first primes, whose roots are the constants of the algorithm. */
const PRIMES = ((): readonly number[] => {
  const found: number[] = []
  for (let n = 2; found.length < 64; n++) if (found.every((prime) => n % prime !== 0)) found.push(n)
  return found
})()

/** Returns the first 32 bits of the fraction of a number. */
const fraction = (x: number): number => Math.floor((x - Math.floor(x)) * WORD)

const ROUNDS = Int32Array.from(PRIMES, (prime) => fraction(Math.cbrt(prime)))
const START = Int32Array.from(PRIMES.slice(0, 8), (prime) => fraction(Math.sqrt(prime)))

const rotated = (x: number, by: number): number => (x >>> by) | (x << (32 - by))

/** Returns the last bytes of a text with the mark, zeros and its length in bits. */
const padded = (bytes: Uint8Array, length: number): DataView => {
  const view = new DataView(new ArrayBuffer(bytes.length < 56 ? 64 : 128))
  const all = new Uint8Array(view.buffer)
  all.set(bytes)
  all[bytes.length] = 0x80
  view.setUint32(view.byteLength - 8, Math.floor((length * 8) / WORD))
  view.setUint32(view.byteLength - 4, (length * 8) % WORD)
  return view
}

/** Mixes one block of 64 bytes into the state. `w` has room for 64 words. */
const mix = (state: Int32Array, w: Int32Array, block: DataView): void => {
  for (let i = 0; i < 16; i++) w[i] = block.getInt32(4 * i)
  for (let i = 16; i < 64; i++) {
    const [x, y] = [w[i - 15]!, w[i - 2]!]
    const small = rotated(x, 7) ^ rotated(x, 18) ^ (x >>> 3)
    w[i] = w[i - 16]! + small + w[i - 7]! + (rotated(y, 17) ^ rotated(y, 19) ^ (y >>> 10))
  }
  let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = state
  for (let i = 0; i < 64; i++) {
    const one = h + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) + ((e & f) ^ (~e & g)) + ROUNDS[i]! + w[i]!
    const two = (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))
    ;[h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0]
  }
  for (const [i, word] of [a, b, c, d, e, f, g, h].entries()) state[i] = state[i]! + word
}

/** Mixes all whole blocks of some bytes. */
const mixAll = (state: Int32Array, view: DataView): void => {
  const words = new Int32Array(64)
  for (let at = 0; at + 64 <= view.byteLength; at += 64)
    mix(state, words, new DataView(view.buffer, view.byteOffset + at, 64))
}

/** Starts a SHA-256 digest of pieces. */
const startSha256 = (): RunningDigest => {
  const state = Int32Array.from(START)
  let rest = new Uint8Array()
  let length = 0
  return {
    add: (piece) => {
      const bytes = joinBytes([rest, typeof piece === 'string' ? new TextEncoder().encode(piece) : piece])
      length += bytes.length - rest.length
      mixAll(state, new DataView(bytes.buffer, bytes.byteOffset, bytes.length))
      rest = bytes.slice(bytes.length - (bytes.length % 64))
    },
    value: () => {
      const end = Int32Array.from(state)
      mixAll(end, padded(rest, length))
      return [...end].map((word) => (word >>> 0).toString(16).padStart(8, '0')).join('')
    },
  }
}

/**
 * Computes the SHA-256 digest in hexadecimal.
 *
 * Source   FIPS 180-4.
 *
 * @example
 * sha256('abc').slice(0, 8) // 'ba7816bf'
 */
export const sha256: Digest = makeDigest(startSha256)
