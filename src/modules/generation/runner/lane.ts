/** Rows that are decoded together: their keys and values in arrays that grow, dense in rows, updated in place between steps. */
import type * as tf from '@tensorflow/tfjs'
import { adoptTensor } from '../../../engine/jit.js'
import { MASKED } from '../../../engine/ops/attention.js'
import { scope } from '../../../engine/scope.js'
import type { DecoderConfig } from '../../transformer/config.js'
import type { RotaryTables } from '../../transformer/rotaryTables.js'
import type { KeyValues, Lane, NextToken } from '../modelRunner.js'
import { biasName, type RunnerGraphs } from './graphs.js'
import { nextTokens } from './nextTokens.js'

/** Places by which the capacity grows at least. */
const PLACES_STEP = 32

interface LayerArrays {
  keys: Float32Array
  values: Float32Array
}

/** What a lane needs of its model. */
export interface LaneModel {
  readonly config: DecoderConfig
  readonly graphs: RunnerGraphs
  /** Tables for positions below `length`. They belong to the enclosing scope. */
  readonly rotary: (length: number) => RotaryTables
  /** The different windows of the model's layers. */
  readonly windows: readonly (number | null)[]
  /** A step computes at least so many rows. */
  readonly leastRows: number
}

/** At least `needed`, and a quarter more than before, so that copying stays linear in the end. */
const grown = (before: number, needed: number, step: number): number =>
  needed <= before ? before : Math.ceil(Math.max(needed, before * 1.25) / step) * step

/** Copies `from` `[rows, heads, places, width]` into an array with other numbers of rows and places. */
const spread = (
  from: Float32Array,
  size: { readonly rows: number; readonly heads: number; readonly width: number },
  places: { readonly from: number; readonly to: number },
  to: Float32Array,
): Float32Array => {
  const [short, long] = [places.from * size.width, places.to * size.width]
  for (let i = 0; i < size.rows * size.heads; i++) to.set(from.subarray(i * short, (i + 1) * short), i * long)
  return to
}

/** An empty lane. Mutable: see `Lane`. */
export const makeLane = ({ config, graphs, rotary, windows, leastRows }: LaneModel): Lane => {
  const { keyValueHeads: heads, headSize: width } = config
  const layers: LayerArrays[] = Array.from({ length: config.layers }, () => ({
    keys: new Float32Array(0),
    values: new Float32Array(0),
  }))
  let [rowCapacity, placeCapacity] = [0, 0]
  /** Row -> tokens held; dense. */
  const lengths: number[] = []
  /** Row -> slot and slot -> row. */
  const slots: number[] = []
  const rowOf = new Map<number, number>()
  let nextSlot = 0

  const bytesOf = (rows: number, places: number): number => 2 * 4 * config.layers * rows * heads * places * width

  const makeRoom = (rows: number, places: number): void => {
    const [newRows, newPlaces] = [grown(rowCapacity, rows, 1), grown(placeCapacity, places, PLACES_STEP)]
    if (newRows === rowCapacity && newPlaces === placeCapacity) return
    const size = { rows: lengths.length, heads, width }
    for (const layer of layers) {
      for (const part of ['keys', 'values'] as const) {
        const wider = new Float32Array(newRows * heads * newPlaces * width)
        layer[part] = spread(layer[part], size, { from: placeCapacity, to: newPlaces }, wider)
      }
    }
    rowCapacity = newRows
    placeCapacity = newPlaces
  }

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
        let place = 1 // place 0 stays zero: see `decodeAttention`
        for (const block of past) {
          const from = block.layers[i]![part]
          for (let head = 0; head < heads; head++) {
            const start = ((row * heads + head) * placeCapacity + place) * width
            layer[part].set(from.subarray(head * block.length * width, (head + 1) * block.length * width), start)
          }
          place += block.length
        }
      }
    }
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
      for (const { keys, values } of layers) {
        keys.copyWithin(row * size, last * size, (last + 1) * size)
        values.copyWithin(row * size, last * size, (last + 1) * size)
      }
      lengths[row] = lengths[last]!
      slots[row] = slots[last]!
      rowOf.set(slots[row]!, row)
    }
    lengths.pop()
    slots.pop()
    rowOf.delete(slot)
    if (lengths.length > 0) return
    for (const layer of layers) [layer.keys, layer.values] = [new Float32Array(0), new Float32Array(0)]
    rowCapacity = 0
    placeCapacity = 0
  }

  const keyValues: Lane['keyValues'] = (slot, from, to) => {
    const row = rowAt(slot)
    const cut = (array: Float32Array): Float32Array => {
      const part = new Float32Array(heads * (to - from) * width)
      for (let head = 0; head < heads; head++) {
        const start = (row * heads + head) * placeCapacity + 1
        part.set(array.subarray((start + from) * width, (start + to) * width), head * (to - from) * width)
      }
      return part
    }
    return { length: to - from, layers: layers.map(({ keys, values }) => ({ keys: cut(keys), values: cut(values) })) }
  }

  /** `[S, 1, 1, C]`: a row sees its own places inside the window, and the token of the step at place 0. */
  const biasOf = (window: number | null, rows: number): tf.Tensor => {
    const bias = new Float32Array(rows * placeCapacity).fill(MASKED)
    for (let row = 0; row < rows; row++) {
      const [start, length] = [row * placeCapacity, lengths[row] ?? 0]
      bias[start] = 0
      bias.fill(0, start + 1 + (window === null ? 0 : Math.max(0, length + 1 - window)), start + 1 + length)
    }
    return adoptTensor(bias, [rows, 1, 1, placeCapacity], 'float32')
  }

  /** Puts one token's keys and values, `[S, K * H]` for each layer, at the end of the given rows. */
  const write = (rows: readonly number[], added: readonly { keys: Float32Array; values: Float32Array }[]): void => {
    const size = heads * width
    for (const [i, layer] of layers.entries()) {
      for (const part of ['keys', 'values'] as const) {
        const [to, from] = [layer[part], added[i]![part]]
        for (const row of rows) {
          for (let head = 0; head < heads; head++) {
            const start = ((row * heads + head) * placeCapacity + 1 + lengths[row]!) * width
            const begin = row * size + head * width
            for (let k = 0; k < width; k++) to[start + k] = from[begin + k]!
          }
        }
      }
    }
    for (const row of rows) lengths[row]!++
  }

  const step: Lane['step'] = (params, given) => {
    const rows = given.map(({ slot }) => rowAt(slot))
    const count = Math.max(leastRows, lengths.length)
    makeRoom(count, lengths.reduce((n, length) => Math.max(n, length), 0) + 2)
    const [ids, inverse] = [new Int32Array(count), new Float32Array(count).fill(1)]
    for (const [i, row] of rows.entries()) {
      ids[row] = given[i]!.token
      inverse[row] = given[i]!.inverseTemperature
    }
    const shape = [count, heads, placeCapacity, width]
    const size = count * heads * placeCapacity * width
    const tempered = inverse.some((x) => x !== 1)
    const { scores, added } = scope(() => {
      const result = graphs.step({
        params,
        rotary: rotary(placeCapacity),
        ids: adoptTensor(ids, [count], 'int32'),
        positions: adoptTensor(
          Int32Array.from({ length: count }, (_, row) => lengths[row] ?? 0),
          [count],
          'int32',
        ),
        biases: Object.fromEntries(windows.map((window) => [biasName(window), biasOf(window, count)])),
        self: adoptTensor(
          Float32Array.of(1, ...new Float32Array(placeCapacity - 1)),
          [1, 1, 1, placeCapacity],
          'float32',
        ),
        past: layers.map(({ keys, values }) => ({
          keys: adoptTensor(keys.subarray(0, size), shape, 'float32'),
          values: adoptTensor(values.subarray(0, size), shape, 'float32'),
        })),
        ...(tempered && { inverseTemperature: adoptTensor(inverse, [count, 1], 'float32') }),
      })
      const numbers = (x: tf.Tensor): Float32Array => x.dataSync() as Float32Array // float32 tensors
      return {
        scores: nextTokens(result.scores, inverse),
        added: result.layers.map((layer) => ({ keys: numbers(layer.keys), values: numbers(layer.values) })),
      }
    })
    write(rows, added)
    return rows.map((row): NextToken => scores[row]!)
  }

  return {
    rows: () => lengths.length,
    bytes: () => bytesOf(rowCapacity, placeCapacity),
    bytesWith: (rows, length) =>
      bytesOf(
        grown(rowCapacity, Math.max(leastRows, lengths.length + rows), 1),
        grown(placeCapacity, length + 1, PLACES_STEP),
      ),
    reserve: (rows, length) => makeRoom(Math.max(leastRows, lengths.length + rows), length + 1),
    insert,
    remove,
    length: (slot) => lengths[rowAt(slot)]!,
    keyValues,
    step,
    release: () => {
      for (const slot of [...slots]) remove(slot)
    },
  }
}

/** Copies keys and values of T neighboring tokens, `[N, K * H]` for each layer, out of what a graph gave. */
export const keyValuesOf = (
  layers: readonly { readonly keys: Float32Array; readonly values: Float32Array }[],
  { heads, width }: { readonly heads: number; readonly width: number },
  { start, length }: { readonly start: number; readonly length: number },
): KeyValues => {
  const turn = (from: Float32Array): Float32Array => {
    const to = new Float32Array(heads * length * width)
    for (let t = 0; t < length; t++) {
      for (let head = 0; head < heads; head++) {
        const begin = ((start + t) * heads + head) * width
        to.set(from.subarray(begin, begin + width), (head * length + t) * width)
      }
    }
    return to
  }
  return { length, layers: layers.map(({ keys, values }) => ({ keys: turn(keys), values: turn(values) })) }
}
