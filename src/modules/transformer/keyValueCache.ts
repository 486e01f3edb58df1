/**
 * Keys and values of the tokens written so far, one pair of arrays for each layer.
 *
 * The arrays are updated in place between decoding steps and fed to the compiled step without a copy; a decoding step returns
 * only the new token's keys and values. Capacity grows in steps, so that few graphs are compiled.
 */
import { adoptTensor } from '../../engine/jit.js'
import type { DecoderConfig } from './config.js'
import type { LayerCache } from './forward.js'

/** Places by which the capacity grows. */
export const CAPACITY_STEP = 16

interface Arrays {
  readonly keys: Float32Array
  readonly values: Float32Array
}

export interface KeyValueCache {
  /** Rows of places: prompts x key-value heads x completions. */
  readonly rows: number
  readonly shape: (capacity: number) => readonly number[]
  readonly headSize: number
  readonly capacity: number
  readonly layers: readonly Arrays[]
}

const makeArrays = (length: number): Arrays => ({ keys: new Float32Array(length), values: new Float32Array(length) })

/** An empty cache with room for `CAPACITY_STEP` tokens of `prompts * group` rows. */
export const makeCache = (config: DecoderConfig, prompts: number, group: number): KeyValueCache => {
  const { keyValueHeads, headSize, layers } = config
  const rows = prompts * keyValueHeads * group
  return {
    rows,
    headSize,
    shape: (capacity) => [prompts, keyValueHeads, group, capacity, headSize],
    capacity: CAPACITY_STEP,
    layers: Array.from({ length: layers }, () => makeArrays(rows * CAPACITY_STEP * headSize)),
  }
}

const spread = (from: Float32Array, rows: number, to: number): Float32Array => {
  const width = from.length / rows
  const wide = new Float32Array(rows * to)
  for (let row = 0; row < rows; row++) wide.set(from.subarray(row * width, (row + 1) * width), row * to)
  return wide
}

/** The same content with room for `CAPACITY_STEP` more tokens. */
export const grow = (cache: KeyValueCache): KeyValueCache => {
  const capacity = cache.capacity + CAPACITY_STEP
  const width = capacity * cache.headSize
  return {
    ...cache,
    capacity,
    layers: cache.layers.map(({ keys, values }) => ({
      keys: spread(keys, cache.rows, width),
      values: spread(values, cache.rows, width),
    })),
  }
}

/** Tensors over the arrays of the cache, not copies: they must be used up before the next `writeStep`. */
export const cacheTensors = (cache: KeyValueCache): readonly LayerCache[] => {
  const shape = cache.shape(cache.capacity)
  return cache.layers.map(({ keys, values }) => ({
    keys: adoptTensor(keys, shape, 'float32'),
    values: adoptTensor(values, shape, 'float32'),
  }))
}

/** Puts the keys and values of one token, `[P, K, G, 1, H]` for each layer, at a place. Effects: writes to the arrays. */
export const writeStep = (cache: KeyValueCache, place: number, step: readonly Arrays[]): void => {
  const { rows, headSize, capacity } = cache
  for (const [layer, { keys, values }] of cache.layers.entries()) {
    const added = step[layer]!
    for (let row = 0; row < rows; row++) {
      const [from, to] = [row * headSize, (row * capacity + place) * headSize]
      for (let i = 0; i < headSize; i++) {
        keys[to + i] = added.keys[from + i]!
        values[to + i] = added.values[from + i]!
      }
    }
  }
}
