/** Numbers that look random and are the same in every language: 32-bit integer arithmetic only. See `noise` in `peer.py`. */

const scramble = (index: number, salt: number): number => {
  let h = (Math.imul(index + 1, 0x9e3779b1) + Math.imul(salt, 0x85ebca6b)) | 0
  h ^= h >>> 16
  h = Math.imul(h, 0xc2b2ae35)
  h ^= h >>> 13
  return h >>> 0
}

/** `count` numbers, even between `-scale / 2` and `scale / 2`. */
export const noise = (count: number, salt: number, scale = 1): Float32Array =>
  Float32Array.from({ length: count }, (_, i) => (scramble(i, salt) / 2 ** 32 - 0.5) * scale)

/** `count` integers from 0 to below `limit`. */
export const noiseIds = (count: number, salt: number, limit: number): Int32Array =>
  Int32Array.from({ length: count }, (_, i) => scramble(i, salt) % limit)

/** A salt for each name. */
export const saltOf = (name: string): number => {
  let salt = 0
  for (const letter of name) salt = (Math.imul(salt, 31) + letter.charCodeAt(0)) | 0
  return salt >>> 0
}
