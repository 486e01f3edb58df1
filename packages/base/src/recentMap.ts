/** A bounded, immutable map from integers that drops its oldest entries. */

/** A trie node: 32 branches by five bits of the key, of which only existing ones are stored. */
interface Branches<T> {
  readonly bits: number
  readonly nodes: readonly Trie<T>[]
}

interface Leaf<T> {
  readonly key: number
  readonly value: T
}

type Trie<T> = Branches<T> | Leaf<T>

/** Two generations of entries. The older one is dropped as a whole when the younger one is full. */
export interface RecentMap<T> {
  readonly capacity: number
  readonly size: number
  readonly young: Trie<T> | undefined
  readonly old: Trie<T> | undefined
}

const isLeaf = <T>(node: Trie<T>): node is Leaf<T> => 'key' in node

const WIDTH = 5

/** Returns five bits of a key. Keys have 53 bits. */
const digit = (key: number, depth: number): number => Math.floor(key / 2 ** (WIDTH * depth)) & 31

/** Returns the number of ones. */
const ones = (bits: number): number => {
  let count = 0
  for (let left = bits; left !== 0; left &= left - 1) count++
  return count
}

const find = <T>(root: Trie<T> | undefined, key: number): T | undefined => {
  let node = root
  for (let depth = 0; node !== undefined; depth++) {
    if (isLeaf(node)) return node.key === key ? node.value : undefined
    const bit = 1 << digit(key, depth)
    node = (node.bits & bit) === 0 ? undefined : node.nodes[ones(node.bits & (bit - 1))]
  }
  return undefined
}

const insert = <T>(node: Trie<T> | undefined, leaf: Leaf<T>, depth = 0): Trie<T> => {
  if (node === undefined || (isLeaf(node) && node.key === leaf.key)) return leaf
  if (isLeaf(node)) {
    const alone: Branches<T> = { bits: 1 << digit(node.key, depth), nodes: [node] }
    return insert(alone, leaf, depth)
  }
  const bit = 1 << digit(leaf.key, depth)
  const at = ones(node.bits & (bit - 1))
  return (node.bits & bit) === 0
    ? { bits: node.bits | bit, nodes: node.nodes.toSpliced(at, 0, leaf) }
    : { bits: node.bits, nodes: node.nodes.with(at, insert(node.nodes[at], leaf, depth + 1)) }
}

/**
 * Creates an empty map. It keeps at least the `capacity` latest entries, and at most twice as many.
 *
 * Errors   throws RangeError unless `capacity` is a positive integer.
 */
export const recentMap = <T>(capacity: number): RecentMap<T> => {
  if (!Number.isSafeInteger(capacity) || capacity < 1)
    throw new RangeError(`recentMap: capacity must be a positive integer, got ${capacity}`)
  return { capacity, size: 0, young: undefined, old: undefined }
}

/** Returns the value of a key, an integer from 0 to 2^53 - 1, or undefined. */
export const recall = <T>(map: RecentMap<T>, key: number): T | undefined => find(map.young, key) ?? find(map.old, key)

/**
 * Adds or replaces an entry.
 *
 * Cost     O(log n) time and memory.
 */
export const remember = <T>(map: RecentMap<T>, key: number, value: T): RecentMap<T> => {
  const known = find(map.young, key)
  if (known === value) return map
  if (known === undefined && map.size >= map.capacity) return { ...map, size: 1, young: { key, value }, old: map.young }
  return { ...map, size: map.size + (known === undefined ? 1 : 0), young: insert(map.young, { key, value }) }
}
