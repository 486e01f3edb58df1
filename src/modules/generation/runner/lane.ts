/**
 * Rows that are decoded together. Their keys and values are in growing arrays, dense in rows,
 * updated in place between steps.
 */

import type { HostArray } from '../../../core/hostArray.js'
import { MASKED } from '../../../engine/ops/attention.js'
import type { Hosted } from '../../../engine/prepared.js'
import type { DecoderConfig } from '../../transformer/config.js'
import { biasName, type StepLane } from './graphs.js'
import { type GrowingArray, growingArray } from './growingArray.js'
import type { Lane } from './modelRunner.js'

/** Smallest increment of the capacity, in positions. */
const PLACES_STEP = 32

/** Growth of the capacity in positions. Steps read all of it, so it is small. */
const PLACES_GROWTH = 1.125

interface LayerArrays {
  readonly keys: GrowingArray
  readonly values: GrowingArray
}

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

const inSteps = (places: number): number => Math.ceil(places / PLACES_STEP) * PLACES_STEP

/**
 * Returns a capacity in positions of at least `needed`. It grows in small steps, and not beyond
 * `expected` if that suffices.
 */
const grownPlaces = (before: number, needed: number, expected: number): number => {
  if (needed <= before) return before
  const grown = inSteps(Math.max(needed, before * PLACES_GROWTH))
  return needed <= expected ? Math.min(grown, expected) : grown
}

/**
 * Moves rows `[rows * heads, places, width]` apart in place, from the last one on, so that unread
 * data is not overwritten.
 */
const spread = (array: Float32Array, rows: number, places: { readonly from: number; readonly to: number }): void => {
  for (let row = rows - 1; row > 0; row--) array.copyWithin(row * places.to, row * places.from, (row + 1) * places.from)
  for (let row = 0; row < rows; row++) array.fill(0, row * places.to + places.from, (row + 1) * places.to)
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
  const layers: LayerArrays[] = Array.from({ length: config.layers }, () => ({
    keys: growingArray(),
    values: growingArray(),
  }))
  const arrays = layers.flatMap(({ keys, values }) => [keys, values])
  /** The arrays consist of `rowCapacity` rows of `placeCapacity` positions each. */
  let [rowCapacity, placeCapacity] = [0, 0]
  /** `[C]`: 1 at position 0, which every row reserves for the token of the step. */
  let freePlace = new Float32Array(0)
  /** Number of positions announced by `reserve`. */
  let expectedPlaces = 0
  /** Number of tokens of each row; dense. */
  const lengths: number[] = []
  /** The slot of each row, and the row of each slot. */
  const slots: number[] = []
  const rowOf = new Map<number, number>()
  let nextSlot = 0

  const bytesOf = (rows: number, places: number): number => 2 * 4 * config.layers * rows * heads * places * width

  const makeRoom = (rows: number, places: number): void => {
    const newRows = Math.max(rowCapacity, rows)
    const newPlaces = grownPlaces(placeCapacity, places, expectedPlaces)
    if (newRows === rowCapacity && newPlaces === placeCapacity) return
    biases.clear()
    const size = newRows * heads * newPlaces * width
    for (const array of arrays) {
      if (size > array.numbers().length) array.resize(size)
      if (newPlaces > placeCapacity) {
        spread(array.numbers(), lengths.length * heads, { from: placeCapacity * width, to: newPlaces * width })
      }
    }
    if (newPlaces > placeCapacity) freePlace = Float32Array.from({ length: newPlaces }, (_, i) => (i === 0 ? 1 : 0))
    rowCapacity = newRows
    placeCapacity = newPlaces
  }

  const bytes = (): number => arrays.reduce((sum, array) => sum + array.bytes(), 0)

  const rowAt = (slot: number): number => {
    const row = rowOf.get(slot)
    if (row === undefined) throw new RangeError(`lane: slot ${slot} is not in use`)
    return row
  }

  const insert: Lane['insert'] = (past) => {
    const length = past.reduce((sum, part) => sum + part.length, 0)
    makeRoom(Math.max(leastRows, lengths.length + 1), length + 1)
    const row = lengths.length
    for (const [i, layer] of layers.entries()) {
      for (const part of ['keys', 'values'] as const) {
        const into = layer[part].numbers()
        // Position 0 is zero: see `decodeAttention`. A removed row may have left numbers there.
        for (let head = 0; head < heads; head++) {
          const start = (row * heads + head) * placeCapacity * width
          into.fill(0, start, start + width)
        }
        let place = 1
        for (const block of past) {
          const from = block.layers[i]![part]
          for (let head = 0; head < heads; head++) {
            const start = ((row * heads + head) * placeCapacity + place) * width
            into.set(from.subarray(head * block.length * width, (head + 1) * block.length * width), start)
          }
          place += block.length
        }
      }
    }
    biases.clear()
    lengths.push(length)
    slots.push(nextSlot)
    rowOf.set(nextSlot, row)
    return nextSlot++
  }

  const remove: Lane['remove'] = (slot) => {
    const row = rowAt(slot)
    const last = lengths.length - 1
    const size = heads * placeCapacity * width
    if (row !== last) {
      for (const array of arrays) array.numbers().copyWithin(row * size, last * size, (last + 1) * size)
      lengths[row] = lengths[last]!
      slots[row] = slots[last]!
      rowOf.set(slots[row]!, row)
    }
    biases.clear()
    lengths.pop()
    slots.pop()
    rowOf.delete(slot)
    if (lengths.length === 0) {
      rowCapacity = 0
      placeCapacity = 0
      expectedPlaces = 0
    } else if (2 * lengths.length <= rowCapacity) rowCapacity = Math.max(leastRows, lengths.length)
    else return
    if (bytes() > keptBytes) for (const array of arrays) array.resize(rowCapacity * heads * placeCapacity * width)
  }

  const clear = (): void => {
    for (const slot of [...slots]) remove(slot)
  }

  const keyValues: Lane['keyValues'] = (slot, from, to) => {
    const row = rowAt(slot)
    const size = heads * (to - from) * width
    // One allocation for all layers: small ones fragment the memory.
    const all = new Float32Array(arrays.length * size)
    const cut = (index: number): Float32Array => {
      const array = arrays[index]!.numbers()
      const part = all.subarray(index * size, (index + 1) * size)
      for (let head = 0; head < heads; head++) {
        const start = (row * heads + head) * placeCapacity + 1
        part.set(array.subarray((start + from) * width, (start + to) * width), head * (to - from) * width)
      }
      return part
    }
    return { length: to - from, layers: layers.map((_, i) => ({ keys: cut(2 * i), values: cut(2 * i + 1) })) }
  }

  /** The mask of each window, for all rows; cleared when rows or positions change. */
  const biases = new Map<number | null, Float32Array>()

  /**
   * Makes a mask. A row attends to its own positions inside the window, and to the token of the
   * step at position 0.
   */
  const makeBias = (window: number | null): Float32Array => {
    const bias = new Float32Array(rowCapacity * placeCapacity).fill(MASKED)
    for (let row = 0; row < rowCapacity; row++) {
      const [start, length] = [row * placeCapacity, lengths[row] ?? 0]
      bias[start] = 0
      bias.fill(0, start + 1 + (window === null ? 0 : Math.max(0, length + 1 - window)), start + 1 + length)
    }
    return bias
  }

  const biasOf = (window: number | null, rows: number): HostArray => {
    const known = biases.get(window) ?? makeBias(window)
    biases.set(window, known)
    return { data: known.subarray(0, rows * placeCapacity), shape: [rows, 1, 1, 1, placeCapacity] }
  }

  /**
   * Updates the masks after a row's new token: its position becomes visible, and the first one of
   * the window hidden.
   */
  const moveBiases = (row: number): void => {
    const [start, length] = [row * placeCapacity, lengths[row]!] // with the new token
    for (const [window, bias] of biases) {
      if (window === null || window > 1) bias[start + length] = 0
      if (window !== null && length + 1 - window > 0) bias[start + length + 1 - window] = MASKED
    }
  }

  const append: LaneCache['append'] = (rows, places, added) => {
    const size = heads * width
    for (const [i, layer] of layers.entries()) {
      const [keys, values] = [layer.keys.numbers(), layer.values.numbers()]
      for (const [n, row] of rows.entries()) {
        const begin = (places[n]! * layers.length + i) * 2 * size
        for (let head = 0; head < heads; head++) {
          const to = ((row * heads + head) * placeCapacity + 1 + lengths[row]!) * width
          const from = begin + head * width
          for (let k = 0; k < width; k++) {
            keys[to + k] = added[from + k]!
            values[to + k] = added[from + size + k]!
          }
        }
      }
    }
    for (const row of rows) {
      lengths[row]!++
      moveBiases(row)
    }
  }

  const stepArrays: LaneCache['arrays'] = (rows) => {
    const shape = [rows, heads, 1, placeCapacity, width]
    const size = rows * heads * placeCapacity * width
    const first = (array: GrowingArray): HostArray => ({ data: array.numbers().subarray(0, size), shape })
    return {
      biases: Object.fromEntries(windows.map((window) => [biasName(window), biasOf(window, rows)])),
      self: { data: freePlace, shape: [1, 1, 1, 1, placeCapacity] },
      past: layers.map(({ keys, values }) => ({ keys: first(keys), values: first(values) })),
    }
  }

  const lane: Lane = {
    rows: () => lengths.length,
    bytes,
    bytesWith: (rows, length) =>
      Math.max(
        bytes(),
        bytesOf(
          Math.max(rowCapacity, leastRows, lengths.length + rows),
          grownPlaces(placeCapacity, length + 1, expectedPlaces),
        ),
      ),
    reserve: ({ rows, start, length }) => {
      expectedPlaces = Math.max(expectedPlaces, inSteps(length + 1))
      makeRoom(Math.max(leastRows, lengths.length + rows), start + 1)
    },
    insert,
    remove,
    length: (slot) => lengths[rowAt(slot)]!,
    keyValues,
    clear,
    release: () => {
      clear()
      for (const array of arrays) array.resize(0)
    },
  }
  const extend: LaneCache['extend'] = (rows) =>
    makeRoom(Math.max(rows, lengths.length), lengths.reduce((n, length) => Math.max(n, length), 0) + 2)
  return { lane, cache: { rowAt, lengths, extend, places: () => placeCapacity, arrays: stepArrays, append } }
}
