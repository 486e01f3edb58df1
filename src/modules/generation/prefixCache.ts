/**
 * A cache of keys and values in blocks of tokens, so that a common prefix of several requests is
 * computed once.
 */
import type { KeyValues } from './runner/modelRunner.js'

/** Number of tokens in a block. */
export const BLOCK_SIZE = 16

interface Block {
  /** Identifies the tokens from the start of the prompt to the end of this block. */
  readonly id: number
  readonly keyValues: KeyValues
  readonly bytes: number
}

/** Reads keys and values of a range of tokens. */
type ReadKeyValues = (from: number, to: number) => KeyValues

/**
 * Blocks of keys and values, found by their tokens and all tokens before them. The least recently
 * used ones are evicted.
 *
 * A space separates entries that must not be shared: other weights, another adapter, another salt.
 */
export interface PrefixCache {
  /**
   * Returns keys and values of the longest known prefix of `tokens`, in blocks, at most `limit`
   * tokens.
   */
  readonly find: (space: string, tokens: Int32Array, limit: number) => readonly KeyValues[]
  /**
   * Adds the unknown whole blocks of `tokens`, and calls `read` only for those. Holds at most
   * `bytes` afterwards.
   */
  readonly put: (
    space: string,
    tokens: Int32Array,
    options: { readonly read: ReadKeyValues; readonly bytes: number },
  ) => void
  /** Evicts blocks until at most `bytes` are held. */
  readonly trim: (bytes: number) => void
  readonly bytes: () => number
}

/** Returns the size of keys and values in bytes. */
export const cachedBytes = ({ layers }: KeyValues): number =>
  layers.reduce((sum, { keys, values }) => sum + keys.byteLength + values.byteLength, 0)

/**
 * Makes an empty cache.
 *
 * A block is found by the name of the previous block and its own tokens, written out in full.
 * Blocks are therefore equal only if every token from the start is, without hash collisions. A
 * block is always used later than its successors, so chains are evicted from their end.
 *
 * Effects  a mutable value.
 * Cost     one map look-up per block.
 *
 * @example
 * makePrefixCache().bytes() // 0
 */
export const makePrefixCache = (): PrefixCache => {
  // In order of use: a map keeps the order of insertion.
  const blocks = new Map<string, Block>()
  let [bytes, nextId] = [0, 0]

  const nameOf = (parent: string | number, tokens: Int32Array, block: number): string =>
    `${JSON.stringify(parent)}:${tokens.subarray(block * BLOCK_SIZE, (block + 1) * BLOCK_SIZE).join()}`

  /** Marks a chain as used now, from its end. */
  const touch = (chain: readonly string[]): void => {
    for (const name of [...chain].reverse()) {
      const block = blocks.get(name)!
      blocks.delete(name)
      blocks.set(name, block)
    }
  }

  /** Returns the names of the known blocks, from the start. */
  const chainOf = (space: string, tokens: Int32Array, count: number): readonly string[] => {
    const chain: string[] = []
    let parent: string | number = space
    while (chain.length < count) {
      const name = nameOf(parent, tokens, chain.length)
      const block = blocks.get(name)
      if (block === undefined) break
      chain.push(name)
      parent = block.id
    }
    return chain
  }

  const trim: PrefixCache['trim'] = (limit) => {
    for (const [name, block] of blocks) {
      if (bytes <= limit) return
      blocks.delete(name)
      bytes -= block.bytes
    }
  }

  return {
    find: (space, tokens, limit) => {
      const chain = chainOf(space, tokens, Math.floor(Math.min(limit, tokens.length) / BLOCK_SIZE))
      touch(chain)
      return chain.map((name) => blocks.get(name)!.keyValues)
    },
    put: (space, tokens, options) => {
      const count = Math.floor(tokens.length / BLOCK_SIZE)
      const chain = [...chainOf(space, tokens, count)]
      let length = chain.reduce((sum, name) => sum + blocks.get(name)!.bytes, 0)
      for (let i = chain.length; i < count; i++) {
        const parent = i === 0 ? space : blocks.get(chain[i - 1]!)!.id
        const keyValues = options.read(i * BLOCK_SIZE, (i + 1) * BLOCK_SIZE)
        const size = cachedBytes(keyValues)
        length += size
        if (length > options.bytes) break // the end of the chain would be evicted first
        const name = nameOf(parent, tokens, i)
        blocks.set(name, { id: nextId++, keyValues, bytes: size })
        bytes += size
        chain.push(name)
      }
      touch(chain)
      trim(options.bytes)
    },
    trim,
    bytes: () => bytes,
  }
}
