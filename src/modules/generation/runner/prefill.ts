/** Prompts: packed into one run, or computed as rows of one length. */
import type * as tf from '@tensorflow/tfjs-core'
import { adoptTensor } from '../../../engine/jit.js'
import { MASKED } from '../../../engine/ops/attention.js'
import { scope } from '../../../engine/scope.js'
import type { Params } from '../../transformer/params.js'
import type { RotaryTables } from '../../transformer/rotaryTables.js'
import { biasName, type PrefillOutput, type RunnerGraphs } from './graphs.js'
import type { LaneModel } from './lane.js'
import type { KeyValues, ModelRunner, PrefillItem, PrefillResult, Rounding } from './modelRunner.js'
import { nextTokens, readScores } from './nextTokens.js'

/** Maximum number of tokens of several prompts in one packed run. A single prompt may have more. */
const PACKED_TOKENS = 512

const pastLength = ({ past }: PrefillItem): number => past.reduce((sum, part) => sum + part.length, 0)

/** Groups neighboring items into runs. */
const packs = (items: readonly PrefillItem[]): readonly (readonly PrefillItem[])[] => {
  const result: PrefillItem[][] = []
  let [tokens, cached] = [0, 0]
  for (const item of items) {
    const [more, past] = [item.tokens.length, pastLength(item)]
    const pack = result.at(-1)
    const fits = pack?.[0]?.scores === 'last' && item.scores === 'last' && tokens + more <= PACKED_TOKENS
    if (pack !== undefined && fits && cached + past <= PACKED_TOKENS) {
      pack.push(item)
      tokens += more
      cached += past
    } else {
      result.push([item])
      tokens = more
      cached = past
    }
  }
  return result
}

/** Maximum number of tokens of prompts in one run as rows. */
const BATCH_TOKENS = 2048

/** Prompts between two of these lengths are computed together. Attention pads them. */
const LENGTHS = [32, 64, 128, 256, 512] as const

/**
 * Groups items of similar length without a past, which can be computed as rows, and all others.
 * Each has its index among the items.
 */
const batchesOf = (
  items: readonly PrefillItem[],
): readonly { readonly kind: 'rows' | 'packed'; readonly places: readonly number[] }[] => {
  const open = new Map<number, { readonly places: number[]; tokens: number }>()
  const result: { readonly kind: 'rows' | 'packed'; readonly places: number[] }[] = []
  for (const [i, { tokens, scores, past }] of items.entries()) {
    const length = scores === 'last' && past.length === 0 ? LENGTHS.find((size) => size >= tokens.length) : undefined
    const batch = open.get(length ?? 0)
    if (batch !== undefined && (length === undefined || batch.tokens + tokens.length <= BATCH_TOKENS)) {
      batch.places.push(i)
      batch.tokens += tokens.length
    } else {
      const fresh = { places: [i], tokens: tokens.length }
      open.set(length ?? 0, fresh)
      result.push({ kind: length === undefined ? 'packed' : 'rows', places: fresh.places })
    }
  }
  return result
}

/**
 * Makes `[1, 1, T, T]`: every position attends to itself and to earlier positions inside the
 * window.
 */
const causalBias = (length: number, window: number | null): tf.Tensor => {
  const bias = new Float32Array(length * length).fill(MASKED)
  for (let t = 0; t < length; t++) {
    bias.fill(0, t * length + (window === null ? 0 : Math.max(0, t + 1 - window)), t * length + t + 1)
  }
  return adoptTensor(bias, [1, 1, length, length], 'float32')
}

/** The offsets of each item's tokens and cached positions in its run. */
interface Layout {
  readonly starts: readonly { readonly token: number; readonly cached: number; readonly past: number }[]
  readonly tokens: number
  readonly cached: number
}

const layoutOf = (items: readonly PrefillItem[], leastTokens: number): Layout => {
  let [tokens, cached] = [0, 0]
  const starts = items.map((item) => {
    const start = { token: tokens, cached, past: pastLength(item) }
    tokens += item.tokens.length
    cached += start.past
    return start
  })
  return { starts, tokens: Math.max(leastTokens, tokens), cached }
}

/**
 * Makes `[1, 1, N, C + N]`: a token attends to cached positions and earlier tokens of its own item,
 * inside the window.
 */
const packedBias = (items: readonly PrefillItem[], layout: Layout, window: number | null): tf.Tensor => {
  const visible = layout.cached + layout.tokens
  const bias = new Float32Array(layout.tokens * visible).fill(MASKED)
  for (const [i, { tokens }] of items.entries()) {
    const { token, cached, past } = layout.starts[i]!
    for (let t = 0; t < tokens.length; t++) {
      const row = (token + t) * visible
      const first = window === null ? 0 : Math.max(0, past + t + 1 - window) // the first visible position
      if (first < past) bias.fill(0, row + cached + first, row + cached + past)
      const from = row + layout.cached + token
      bias.fill(0, from + Math.max(0, first - past), from + t + 1)
    }
  }
  const given = items.reduce((n, { tokens }) => n + tokens.length, 0)
  for (let t = given; t < layout.tokens; t++) bias[t * visible + layout.cached + t] = 0 // padding attends to itself
  return adoptTensor(bias, [1, 1, layout.tokens, visible], 'float32')
}

/** Joins the cached keys or values of all items, `[K, C, H]`. */
const joinPast = (
  parts: readonly KeyValues[],
  { layer, part, heads, width }: { layer: number; part: 'keys' | 'values'; heads: number; width: number },
): Float32Array => {
  const places = parts.reduce((sum, { length }) => sum + length, 0)
  const joined = new Float32Array(heads * places * width)
  let place = 0
  for (const { length, layers } of parts) {
    const from = layers[layer]![part]
    for (let head = 0; head < heads; head++) {
      joined.set(from.subarray(head * length * width, (head + 1) * length * width), (head * places + place) * width)
    }
    place += length
  }
  return joined
}

/** Keys and values of a run's tokens in host memory, `[P, K, T, H]` each, one pair per layer. */
interface HostLayers {
  readonly layers: readonly { readonly keys: Float32Array; readonly values: Float32Array }[]
  readonly shape: readonly [number, number, number, number]
}

const hostLayers = ({ layers }: PrefillOutput): HostLayers => {
  const numbers = (x: tf.Tensor): Float32Array => x.dataSync() as Float32Array // float32 tensors
  return {
    layers: layers.map(({ keys, values }) => ({ keys: numbers(keys), values: numbers(values) })),
    shape: layers[0]!.keys.shape as [number, number, number, number], // [P, K, T, H]
  }
}

/** Returns the keys and values of neighboring tokens of a row: views if they are all of the run. */
const keyValuesOf = (
  { layers, shape }: HostLayers,
  { row, start, length }: { readonly row: number; readonly start: number; readonly length: number },
): KeyValues => {
  const [rows, heads, places, width] = shape
  const part = (all: Float32Array): Float32Array => {
    if (rows === 1 && places === length) return all
    const cut = new Float32Array(heads * length * width)
    for (let head = 0; head < heads; head++) {
      const from = ((row * heads + head) * places + start) * width
      cut.set(all.subarray(from, from + length * width), head * length * width)
    }
    return cut
  }
  return { length, layers: layers.map(({ keys, values }) => ({ keys: part(keys), values: part(values) })) }
}

/** The model of prompts. */
export interface PrefillModel extends LaneModel {
  readonly graphs: RunnerGraphs
  /** Makes tables for positions below `length`. They belong to the enclosing scope. */
  readonly rotary: (length: number) => RotaryTables
}

/** Computes prompts one after another in one run. */
const prefillPack = (
  { config, graphs, rotary, windows, leastRows }: PrefillModel,
  params: Params,
  items: readonly PrefillItem[],
): readonly PrefillResult[] => {
  const { keyValueHeads: heads, headSize: width } = config
  const layout = layoutOf(items, leastRows)
  const { starts, tokens: count, cached } = layout
  const every = items[0]!.scores === 'all'
  const given = items.reduce((n, { tokens }) => n + tokens.length, 0)
  const ids = new Int32Array(count)
  const positions = new Int32Array(count)
  for (const [i, { tokens }] of items.entries()) {
    const { token, past } = starts[i]!
    ids.set(tokens, token)
    for (let t = 0; t < tokens.length; t++) positions[token + t] = past + t
  }
  const last = items.map(({ tokens }, i) => starts[i]!.token + tokens.length - 1)
  const scored = every ? Int32Array.from({ length: given }, (_, t) => t) : Int32Array.from(last)
  const inverse = every
    ? new Float32Array(given).fill(items[0]!.inverseTemperature)
    : Float32Array.from(items, ({ inverseTemperature }) => inverseTemperature)
  const parts = items.flatMap(({ past }) => past)
  const pastOf = (layer: number, part: 'keys' | 'values'): tf.Tensor =>
    adoptTensor(joinPast(parts, { layer, part, heads, width }), [1, heads, cached, width], 'float32')
  return scope(() => {
    const result = graphs.prefill({
      params,
      rotary: rotary(positions.reduce((n, x) => Math.max(n, x), 0) + 1),
      ids: adoptTensor(ids, [count], 'int32'),
      positions: adoptTensor(positions, [count], 'int32'),
      biases: Object.fromEntries(windows.map((window) => [biasName(window), packedBias(items, layout, window)])),
      past:
        cached === 0
          ? []
          : Array.from({ length: config.layers }, (_, layer) => ({
              keys: pastOf(layer, 'keys'),
              values: pastOf(layer, 'values'),
            })),
      scored: adoptTensor(scored, [scored.length], 'int32'),
      ...(inverse.some((x) => x !== 1) && {
        inverseTemperature: adoptTensor(inverse, [inverse.length, 1], 'float32'),
      }),
    })
    const numbers = (x: tf.Tensor): Float32Array => x.dataSync() as Float32Array // float32 tensors
    const next = nextTokens(readScores(result.scores), inverse)
    const layers = hostLayers(result)
    return items.map(
      ({ tokens }, i): PrefillResult => ({
        keyValues: keyValuesOf(layers, { row: 0, start: starts[i]!.token, length: tokens.length }),
        next: next[every ? tokens.length - 1 : i]!,
        logits: every ? numbers(result.scores.logits) : null,
      }),
    )
  })
}

/** Computes prompts of similar length without a past: as rows in attention, else packed. */
const prefillRows = (
  { graphs, rotary, windows }: PrefillModel,
  params: Params,
  items: readonly PrefillItem[],
): readonly PrefillResult[] => {
  const length = items.reduce((most, { tokens }) => Math.max(most, tokens.length), 0)
  const count = items.reduce((sum, { tokens }) => sum + tokens.length, 0)
  const [ids, positions, places] = [new Int32Array(count), new Int32Array(count), new Int32Array(count)]
  const tokenAt = new Int32Array(items.length * length)
  const last = new Int32Array(items.length)
  let next = 0
  for (const [i, { tokens }] of items.entries()) {
    ids.set(tokens, next)
    for (let t = 0; t < tokens.length; t++) {
      positions[next + t] = t
      places[next + t] = i * length + t
      tokenAt[i * length + t] = next + t
    }
    next += tokens.length
    last[i] = next - 1
  }
  const inverse = Float32Array.from(items, ({ inverseTemperature }) => inverseTemperature)
  return scope(() => {
    const result = graphs.batch({
      params,
      rotary: rotary(length),
      ids: adoptTensor(ids, [count], 'int32'),
      positions: adoptTensor(positions, [count], 'int32'),
      tokens: adoptTensor(tokenAt, [items.length, length], 'int32'),
      places: adoptTensor(places, [count], 'int32'),
      biases: Object.fromEntries(windows.map((window) => [biasName(window), causalBias(length, window)])),
      past: [],
      scored: adoptTensor(last, [items.length], 'int32'),
      ...(inverse.some((x) => x !== 1) && {
        inverseTemperature: adoptTensor(inverse, [items.length, 1], 'float32'),
      }),
    })
    const scores = nextTokens(readScores(result.scores), inverse)
    const layers = hostLayers(result)
    return items.map(
      ({ tokens }, i): PrefillResult => ({
        keyValues: keyValuesOf(layers, { row: i, start: 0, length: tokens.length }),
        next: scores[i]!,
        logits: null,
      }),
    )
  })
}

/** Computes prompts of similar length as rows of one run, and packs those with a past. */
const prefillTogether = (
  model: PrefillModel,
  params: Params,
  items: readonly PrefillItem[],
): readonly PrefillResult[] => {
  const results: PrefillResult[] = []
  for (const { kind, places } of batchesOf(items)) {
    const given = places.map((place) => items[place]!)
    const made =
      kind === 'packed'
        ? packs(given).flatMap((pack) => prefillPack(model, params, pack))
        : prefillRows(model, params, given)
    for (const [i, place] of places.entries()) results[place] = made[i]!
  }
  return results
}

/** Makes the computation of prompts. With rounding `alike`, each prompt is computed alone. */
export const makePrefill =
  (model: PrefillModel, rounding: Rounding): ModelRunner['prefill'] =>
  (params, items) =>
    rounding === 'alike'
      ? items.flatMap((item) => prefillPack(model, params, [item]))
      : prefillTogether(model, params, items)
