/** Keys and values of prompts that were computed before, in blocks of tokens: what several requests begin with is computed once. */
import type { KeyValues } from './runner/modelRunner.js'

/** Tokens of a block. */
export const BLOCK_SIZE = 16

interface Block {
  /** Names the tokens from the beginning to the end of this block. */
  readonly id: number
  readonly keyValues: KeyValues
  readonly bytes: number
}

/** How keys and values of a range of tokens are had. */
type ReadKeyValues = (from: number, to: number) => KeyValues

/**
 * Blocks of keys and values, found by the tokens that they and all before them stand for. It forgets those that were not used for longest.
 *
 * A space separates what must not be shared: other weights, another adapter, another salt.
 */
export interface PrefixCache {
  /** Keys and values of the longest beginning of `tokens` that is known, in blocks, at most `limit` tokens. */
  readonly find: (space: string, tokens: Int32Array, limit: number) => readonly KeyValues[]
  /** Adds the whole blocks of `tokens` that are not known; `read` is asked for those only. At most `bytes` are held afterwards. */
  readonly put: (
    space: string,
    tokens: Int32Array,
    options: { readonly read: ReadKeyValues; readonly bytes: number },
  ) => void
  /** Forgets blocks until at most `bytes` are held. */
  readonly trim: (bytes: number) => void
  readonly bytes: () => number
}

/** The bytes of keys and values. */
export const cachedBytes = ({ layers }: KeyValues): number =>
  layers.reduce((sum, { keys, values }) => sum + keys.byteLength + values.byteLength, 0)

/**
 * Makes an empty cache.
 *
 * A block is found under the name of the one before it and its own tokens, all written out: blocks are equal only if every token from the
 * beginning is, with no hash to collide. A block is always used later than those after it, so that the ends of chains go first.
 *
 * Effects  a mutable value, for the edge of the engine.
 * Cost     one look-up in a map for each block.
 *
 * @example
 * makePrefixCache().bytes() // 0
 */
export const makePrefixCache = (): PrefixCache => {
  // In order of use: a map remembers the order of insertion.
  const blocks = new Map<string, Block>()
  let [bytes, nextId] = [0, 0]

  const nameOf = (parent: string | number, tokens: Int32Array, block: number): string =>
    `${JSON.stringify(parent)}:${tokens.subarray(block * BLOCK_SIZE, (block + 1) * BLOCK_SIZE).join()}`

  /** Marks a chain as used now, its end first. */
  const touch = (chain: readonly string[]): void => {
    for (const name of [...chain].reverse()) {
      const block = blocks.get(name)!
      blocks.delete(name)
      blocks.set(name, block)
    }
  }

  /** The names of the blocks that are known, from the beginning. */
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
        if (length > options.bytes) break // the end of the chain would be the first to go
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
