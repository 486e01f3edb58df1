/**
 * Splittable random keys: randomness as a value.
 *
 * A key is 64 bits. `child(key, label)` derives an independent key, so that every group, chain,
 * agent and step has a stream of its own and no result depends on the order in which work is
 * scheduled. Numbers come from the counter-based generator Threefry-2x32 with 20 rounds (Salmon et
 * al. 2011, "Parallel random numbers: as easy as 1, 2, 3"), which JAX also uses: there is no hidden
 * state to save, and a key written to a checkpoint is the whole state.
 */

/** A point in the tree of random streams. Serialize it with `formatKey`. */
export interface Key {
  readonly _tag: 'Key'
  readonly high: number
  readonly low: number
}

const ROTATIONS = [
  [13, 15, 26, 6],
  [17, 29, 16, 24],
] as const

/**
 * Computes one Threefry-2x32 block: 64 pseudo-random bits as two unsigned 32-bit words.
 *
 * Source   Salmon et al. 2011, section 4.2; constants and known answers of the Random123 library.
 * Cost     20 rounds of 32-bit additions, rotations and exclusive ors.
 *
 * @example
 * threefry(0, 0, 0, 0) // [0x6b200159, 0x99ba4efe]
 */
export const threefry = (
  keyHigh: number,
  keyLow: number,
  counterHigh: number,
  counterLow: number,
): readonly [number, number] => {
  const schedule = [keyHigh | 0, keyLow | 0, keyHigh ^ keyLow ^ 0x1bd11bda] as const
  let x0 = (counterHigh + schedule[0]) | 0
  let x1 = (counterLow + schedule[1]) | 0
  for (let block = 0; block < 5; block++) {
    for (const rotation of ROTATIONS[(block % 2) as 0 | 1 /* a remainder by 2 */]) {
      x0 = (x0 + x1) | 0
      x1 = (x1 << rotation) | (x1 >>> (32 - rotation))
      x1 ^= x0
    }
    x0 = (x0 + schedule[(block + 1) % 3]!) | 0
    x1 = (x1 + schedule[(block + 2) % 3]! + block + 1) | 0
  }
  return [x0 >>> 0, x1 >>> 0]
}

/**
 * Hashes a label with FNV-1a over UTF-16 code units, twice with different offsets, which is enough
 * to separate the labels of one parent.
 */
const hashLabel = (label: string): readonly [number, number] => {
  let a = 0x811c9dc5
  let b = 0x9747b28c
  for (let i = 0; i < label.length; i++) {
    const unit = label.charCodeAt(i)
    a = Math.imul(a ^ unit, 0x01000193)
    b = Math.imul(b ^ unit, 0x85ebca6b) ^ (b >>> 13)
  }
  return [a >>> 0, b >>> 0]
}

/**
 * Creates the root key of a run.
 *
 * Errors   throws RangeError unless `seed` is an integer between 0 and 2^53 - 1.
 *
 * @example
 * formatKey(keyFromSeed(7)) // '0000000000000007'
 */
export const keyFromSeed = (seed: number): Key => {
  if (!Number.isSafeInteger(seed) || seed < 0) {
    throw new RangeError(`keyFromSeed: seed must be an integer from 0 to 2^53 - 1, got ${seed}`)
  }
  return { _tag: 'Key', high: Math.floor(seed / 2 ** 32), low: seed >>> 0 }
}

/**
 * Derives the key of a named or numbered child. Equal arguments give equal keys; different labels
 * give independent streams. A number and the string that spells it are different labels.
 *
 * Errors   throws RangeError if a numeric label is not an integer between 0 and 2^53 - 1.
 */
export const child = (key: Key, label: string | number): Key => {
  if (typeof label === 'number' && (!Number.isSafeInteger(label) || label < 0)) {
    throw new RangeError(`child: a numeric label must be an integer from 0 to 2^53 - 1, got ${label}`)
  }
  // The two kinds of label enter different key lanes, so child(key, 1) and child(key, '1') differ.
  const [counterHigh, counterLow] =
    typeof label === 'number' ? [Math.floor(label / 2 ** 32), label >>> 0] : hashLabel(label)
  const lane = typeof label === 'number' ? 0x5bd1e995 : 0x27d4eb2f
  const [high, low] = threefry(key.high ^ lane, key.low, counterHigh, counterLow)
  return { _tag: 'Key', high, low }
}

/** Formats a key as 16 hexadecimal digits, which `parseKey` reads. */
export const formatKey = (key: Key): string =>
  [key.high, key.low].map((word) => word.toString(16).padStart(8, '0')).join('')

/** Parses the text of `formatKey`. Returns undefined unless `text` has 16 hexadecimal digits. */
export const parseKey = (text: string): Key | undefined =>
  /^[0-9a-f]{16}$/.test(text)
    ? { _tag: 'Key', high: Number.parseInt(text.slice(0, 8), 16), low: Number.parseInt(text.slice(8), 16) }
    : undefined

/**
 * Returns the `index`-th uniform number of a key, in [0, 1) with 53 random bits.
 *
 * @example
 * uniform(keyFromSeed(1), 3) === uniform(keyFromSeed(1), 3) // true
 */
export const uniform = (key: Key, index = 0): number => {
  const [a, b] = threefry(key.high, key.low, Math.floor(index / 2 ** 32), index >>> 0)
  return ((a >>> 5) * 2 ** 26 + (b >>> 6)) / 2 ** 53
}

/** Returns `count` uniform numbers in [0, 1): element i is `uniform(key, i)`. */
export const uniforms = (key: Key, count: number): Float64Array =>
  Float64Array.from({ length: count }, (_, i) => uniform(key, i))

/**
 * Returns the `index`-th uniform integer of a key, in [0, bound).
 *
 * Errors   throws RangeError unless `bound` is an integer from 1 to 2^31.
 */
export const uniformInteger = (key: Key, bound: number, index = 0): number => {
  if (!Number.isInteger(bound) || bound < 1 || bound > 2 ** 31) {
    throw new RangeError(`uniformInteger: bound must be an integer from 1 to 2^31, got ${bound}`)
  }
  return Math.floor(uniform(key, index) * bound)
}

/**
 * Returns `count` standard normal numbers (Box and Muller 1958). Element i depends only on the key
 * and i.
 */
export const normals = (key: Key, count: number): Float32Array =>
  Float32Array.from({ length: count }, (_, i) => {
    const pair = i >> 1
    const radius = Math.sqrt(-2 * Math.log(1 - uniform(key, 2 * pair)))
    const angle = 2 * Math.PI * uniform(key, 2 * pair + 1)
    return radius * (i % 2 === 0 ? Math.cos(angle) : Math.sin(angle))
  })

/**
 * Returns a uniform random permutation of 0 .. size - 1 (Fisher and Yates, Durstenfeld 1964).
 *
 * @example
 * [...permutation(keyFromSeed(0), 5)].sort() // [0, 1, 2, 3, 4]
 */
export const permutation = (key: Key, size: number): Uint32Array => {
  const order = Uint32Array.from({ length: size }, (_, i) => i)
  for (let i = size - 1; i > 0; i--) {
    const j = uniformInteger(key, i + 1, i)
    const swapped = order[i]!
    order[i] = order[j]!
    order[j] = swapped
  }
  return order
}
