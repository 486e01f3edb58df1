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

/** Maximum number of tokens of prompts in one run as rows of one length. */
const BATCH_TOKENS = 2048

/**
 * Returns the length to pad a prompt to, so that few graphs are compiled: a multiple of 16 up to
 * 64, then 96, 128, 192, 256, 384 or 512. Returns 0 for prompts that are not padded.
 */
const paddedLength = (length: number): number => {
  if (length > 512) return 0
  return length <= 64 ? Math.ceil(length / 16) * 16 : [96, 128, 192, 256, 384, 512].find((size) => size >= length)!
}

/**
 * Groups items that can be computed as rows of one length, by that length, and all others under 0.
 * Each has its index among the items.
 */
const batchesOf = (
  items: readonly PrefillItem[],
): readonly { readonly length: number; readonly places: readonly number[] }[] => {
  const open = new Map<number, number[]>()
  const result: { readonly length: number; readonly places: number[] }[] = []
  for (const [i, item] of items.entries()) {
    const length = item.scores === 'last' && item.past.length === 0 ? paddedLength(item.tokens.length) : 0
    const places = open.get(length)
    if (places !== undefined && (places.length + 1) * length <= BATCH_TOKENS) places.push(i)
    else {
      const fresh = [i]
      open.set(length, fresh)
      result.push({ length, places: fresh })
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
  readonly maxLength: number
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

/** Computes prompts without a past as rows of one length, padded on the right. */
const prefillRows = (
  { graphs, rotary, windows, maxLength }: PrefillModel,
  params: Params,
  { items, length }: { readonly items: readonly PrefillItem[]; readonly length: number },
): readonly PrefillResult[] => {
  const count = items.length
  const [ids, positions] = [new Int32Array(count * length), new Int32Array(count * length)]
  for (const [i, { tokens }] of items.entries()) {
    ids.set(tokens, i * length)
    for (let t = 0; t < length; t++) positions[i * length + t] = Math.min(t, maxLength - 1)
  }
  const inverse = Float32Array.from(items, ({ inverseTemperature }) => inverseTemperature)
  return scope(() => {
    const result = graphs.batch({
      params,
      rotary: rotary(length),
      ids: adoptTensor(ids, [count, length], 'int32'),
      positions: adoptTensor(positions, [count, length], 'int32'),
      biases: Object.fromEntries(windows.map((window) => [biasName(window), causalBias(length, window)])),
      past: [],
      scored: adoptTensor(
        Int32Array.from(items, ({ tokens }, i) => i * length + tokens.length - 1),
        [count],
        'int32',
      ),
      ...(inverse.some((x) => x !== 1) && { inverseTemperature: adoptTensor(inverse, [count, 1], 'float32') }),
    })
    const next = nextTokens(readScores(result.scores), inverse)
    const layers = hostLayers(result)
    return items.map(
      ({ tokens }, i): PrefillResult => ({
        keyValues: keyValuesOf(layers, { row: i, start: 0, length: tokens.length }),
        next: next[i]!,
        logits: null,
      }),
    )
  })
}

/** Computes prompts of one padded length as rows of one run, and packs those with a past. */
const prefillTogether = (
  model: PrefillModel,
  params: Params,
  items: readonly PrefillItem[],
): readonly PrefillResult[] => {
  const results: PrefillResult[] = []
  for (const { length, places } of batchesOf(items)) {
    const given = places.map((place) => items[place]!)
    const made =
      length === 0
        ? packs(given).flatMap((pack) => prefillPack(model, params, pack))
        : prefillRows(model, params, { items: given, length })
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
