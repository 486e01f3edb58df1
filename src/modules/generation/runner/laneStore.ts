/** The arrays of a lane: keys and values of all layers, with room for rows and positions. */
import type { DecoderConfig } from '../../transformer/config.js'
import { type GrowingArray, growingArray } from './growingArray.js'

/** Smallest increment of the capacity, in positions. */
const PLACES_STEP = 32

/** Growth of the capacity in positions. Steps read all of it, so it is small. */
const PLACES_GROWTH = 1.125

interface LayerArrays {
  readonly keys: GrowingArray
  readonly values: GrowingArray
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

/** The arrays of a lane, in `rows` rows of `places` positions each. */
export interface LaneStore {
  readonly layers: readonly LayerArrays[]
  /** The keys and the values of each layer in turn. */
  readonly arrays: readonly GrowingArray[]
  readonly rows: () => number
  readonly places: () => number
  /** `[places]`: 1 at position 0, which every row reserves for the token of the step. */
  readonly freePlace: () => Float32Array
  readonly bytes: () => number
  /** Returns the bytes with room for so many rows and positions. */
  readonly bytesWith: (rows: number, places: number) => number
  /** Announces positions, so that the capacity does not grow beyond them in small steps. */
  readonly expect: (places: number) => void
  /** Makes room while `used` rows are in use. Returns whether the capacity has changed. */
  readonly makeRoom: (room: { readonly rows: number; readonly places: number; readonly used: number }) => boolean
  /** Lets go of rows when only `used` are left. Keeps the memory if it is at most `keptBytes`. */
  readonly shrink: (used: number, keptBytes: number) => void
  readonly release: () => void
}

/** Makes arrays without room. A step computes at least `leastRows` rows. */
export const laneStore = (
  { keyValueHeads: heads, headSize: width, layers: count }: DecoderConfig,
  leastRows: number,
): LaneStore => {
  const layers: LayerArrays[] = Array.from({ length: count }, () => ({ keys: growingArray(), values: growingArray() }))
  const arrays = layers.flatMap(({ keys, values }) => [keys, values])
  let [rowCapacity, placeCapacity, expectedPlaces] = [0, 0, 0]
  let freePlace = new Float32Array(0)
  const bytes = (): number => arrays.reduce((sum, array) => sum + array.bytes(), 0)
  return {
    layers,
    arrays,
    rows: () => rowCapacity,
    places: () => placeCapacity,
    freePlace: () => freePlace,
    bytes,
    bytesWith: (rows, places) => {
      const needed = Math.max(rowCapacity, leastRows, rows) * grownPlaces(placeCapacity, places, expectedPlaces)
      return Math.max(bytes(), 2 * 4 * count * heads * width * needed)
    },
    expect: (places) => {
      expectedPlaces = Math.max(expectedPlaces, inSteps(places))
    },
    makeRoom: ({ rows, places, used }) => {
      const newRows = Math.max(rowCapacity, rows)
      const newPlaces = grownPlaces(placeCapacity, places, expectedPlaces)
      if (newRows === rowCapacity && newPlaces === placeCapacity) return false
      const size = newRows * heads * newPlaces * width
      for (const array of arrays) {
        if (size > array.numbers().length) array.resize(size)
        if (newPlaces > placeCapacity)
          spread(array.numbers(), used * heads, { from: placeCapacity * width, to: newPlaces * width })
      }
      if (newPlaces > placeCapacity) freePlace = Float32Array.from({ length: newPlaces }, (_, i) => (i === 0 ? 1 : 0))
      rowCapacity = newRows
      placeCapacity = newPlaces
      return true
    },
    shrink: (used, keptBytes) => {
      if (used === 0) [rowCapacity, placeCapacity, expectedPlaces] = [0, 0, 0]
      else if (2 * used <= rowCapacity) rowCapacity = Math.max(leastRows, used)
      else return
      if (bytes() > keptBytes) for (const array of arrays) array.resize(rowCapacity * heads * placeCapacity * width)
    },
    release: () => {
      for (const array of arrays) array.resize(0)
    },
  }
}
