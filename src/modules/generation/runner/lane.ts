/**
 * Rows that are decoded together. Their keys and values are in growing arrays, dense in rows,
 * updated in place between steps.
 */
import type { HostArray } from '@tandem-rl/base'
import type { Hosted } from '@tandem-rl/tfjs-onnxruntime'
import type { DecoderConfig } from '../../transformer/config.js'
import { biasName, type StepLane } from './graphs.js'
import type { GrowingArray } from './growingArray.js'
import { type LaneShape, readRow, writeRow, writeTokens } from './laneArrays.js'
import { type LaneMasks, laneMasks } from './laneMasks.js'
import { type LaneStore, laneStore } from './laneStore.js'
import type { Lane } from './modelRunner.js'

/** The model-dependent parts of a lane. */
export interface LaneModel {
  readonly config: DecoderConfig
  /** The distinct windows of the model's layers. */
  readonly windows: readonly (number | null)[]
  /** Minimum number of rows that a step computes. */
  readonly leastRows: number
}

/** A lane as a decoding step uses it, by its dense rows instead of slots. */
export interface LaneCache {
  /** Returns the row of a slot. Throws RangeError for a slot that is not in use. */
  readonly rowAt: (slot: number) => number
  /** Number of cached positions of each row. */
  readonly lengths: readonly number[]
  /** Allocates positions for one more token of each row, in at least `rows` rows. */
  readonly extend: (rows: number) => void
  /** Number of positions of a row. */
  readonly places: () => number
  /** Returns the arrays of the first `rows` rows for a step. */
  readonly arrays: (rows: number) => Hosted<Omit<StepLane, 'rows'>>
  /**
   * Appends the keys and values of one token to rows. `places` are those of the tokens in `added`,
   * `[N, L * 2 * K * H]`.
   */
  readonly append: (rows: readonly number[], places: readonly number[], added: Float32Array) => void
}

/** Returns the arrays of the first rows for a step. */
const stepArrays = (
  {
    store,
    masks,
    windows,
    heads,
    places,
    width,
  }: LaneShape & Pick<LaneModel, 'windows'> & { readonly store: LaneStore; readonly masks: LaneMasks },
  rows: number,
): ReturnType<LaneCache['arrays']> => {
  const first = (array: GrowingArray): HostArray => ({
    data: array.numbers().subarray(0, rows * heads * places * width),
    shape: [rows, heads, 1, places, width],
  })
  const bias = (window: number | null): HostArray => ({
    data: masks.of(window).subarray(0, rows * places),
    shape: [rows, 1, 1, 1, places],
  })
  return {
    biases: Object.fromEntries(windows.map((window) => [biasName(window), bias(window)])),
    self: { data: store.freePlace(), shape: [1, 1, 1, 1, places] },
    past: store.layers.map(({ keys, values }) => ({ keys: first(keys), values: first(values) })),
  }
}

/**
 * Makes an empty lane. When rows leave, it keeps its memory if that is at most `keptBytes`.
 * Mutable: see `Lane`.
 */
export const makeLane = (
  { config, windows, leastRows }: LaneModel,
  keptBytes = 0,
): { readonly lane: Lane; readonly cache: LaneCache } => {
  const { keyValueHeads: heads, headSize: width } = config
  const store = laneStore(config, leastRows)
  const { layers, arrays } = store
  /** Number of tokens of each row; dense. */
  const lengths: number[] = []
  const masks = laneMasks({ lengths, rows: store.rows, places: store.places })
  /** The slot of each row, and the row of each slot. */
  const slots: number[] = []
  const rowOf = new Map<number, number>()
  let nextSlot = 0

  const makeRoom = (rows: number, places: number): void => {
    if (store.makeRoom({ rows, places, used: lengths.length })) masks.clear()
  }
  const shape = (): LaneShape => ({ heads, places: store.places(), width })

  const rowAt = (slot: number): number => {
    const row = rowOf.get(slot)
    if (row === undefined) throw new RangeError(`lane: slot ${slot} is not in use`)
    return row
  }

  const insert: Lane['insert'] = (past) => {
    const length = past.reduce((sum, part) => sum + part.length, 0)
    makeRoom(Math.max(leastRows, lengths.length + 1), length + 1)
    const row = lengths.length
    for (const [i, layer] of layers.entries())
      for (const part of ['keys', 'values'] as const) {
        const blocks = past.map((block) => ({ from: block.layers[i]![part], length: block.length }))
        writeRow(layer[part].numbers(), row, { blocks, ...shape() })
      }
    masks.clear()
    lengths.push(length)
    slots.push(nextSlot)
    rowOf.set(nextSlot, row)
    return nextSlot++
  }

  const remove: Lane['remove'] = (slot) => {
    const row = rowAt(slot)
    const last = lengths.length - 1
    const size = heads * store.places() * width
    if (row !== last) {
      for (const array of arrays) array.numbers().copyWithin(row * size, last * size, (last + 1) * size)
      lengths[row] = lengths[last]!
      slots[row] = slots[last]!
      rowOf.set(slots[row]!, row)
    }
    masks.clear()
    lengths.pop()
    slots.pop()
    rowOf.delete(slot)
    store.shrink(lengths.length, keptBytes)
  }

  const clear = (): void => {
    for (const slot of [...slots]) remove(slot)
  }

  const keyValues: Lane['keyValues'] = (slot, from, to) => {
    const row = rowAt(slot)
    const size = heads * (to - from) * width
    // One allocation for all layers: small ones fragment the memory.
    const all = new Float32Array(arrays.length * size)
    const parts = arrays.map((array, i) => {
      const part = all.subarray(i * size, (i + 1) * size)
      readRow(part, array.numbers(), { row, from, to, ...shape() })
      return part
    })
    return { length: to - from, layers: layers.map((_, i) => ({ keys: parts[2 * i]!, values: parts[2 * i + 1]! })) }
  }

  const append: LaneCache['append'] = (rows, places, added) => {
    const size = heads * width
    for (const [i, { keys, values }] of layers.entries()) {
      const begins = places.map((place) => (place * layers.length + i) * 2 * size)
      writeTokens(keys.numbers(), added, { rows, begins, lengths, ...shape() })
      const behind = begins.map((begin) => begin + size)
      writeTokens(values.numbers(), added, { rows, begins: behind, lengths, ...shape() })
    }
    for (const row of rows) {
      lengths[row]!++
      masks.onToken(row)
    }
  }

  const lane: Lane = {
    rows: () => lengths.length,
    bytes: store.bytes,
    bytesWith: (rows, length) => store.bytesWith(lengths.length + rows, length + 1),
    reserve: ({ rows, start, length }) => {
      store.expect(length + 1)
      makeRoom(Math.max(leastRows, lengths.length + rows), start + 1)
    },
    insert,
    remove,
    length: (slot) => lengths[rowAt(slot)]!,
    keyValues,
    clear,
    release: () => {
      clear()
      store.release()
    },
  }
  const extend: LaneCache['extend'] = (rows) =>
    makeRoom(Math.max(rows, lengths.length), lengths.reduce((n, length) => Math.max(n, length), 0) + 2)
  return {
    lane,
    cache: {
      rowAt,
      lengths,
      extend,
      places: store.places,
      arrays: (rows) => stepArrays({ store, masks, windows, ...shape() }, rows),
      append,
    },
  }
}
