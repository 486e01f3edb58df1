/** Prompts: computed together as rows, or packed after their pasts. */
import type { HostArray } from '@tandem-rl/base'
import { type Hosted, MASKED } from '@tandem-rl/tfjs-onnxruntime'
import type { RotaryTables } from '../../transformer/rotaryTables.js'
import { type CallArrays, type CompiledCalls, compiledCalls } from './compiledCalls.js'
import { type BatchInput, biasName, type PrefillInput, type PrefillOutput, type RunnerGraphs } from './graphs.js'
import type { LaneModel } from './lane.js'
import type { KeyValues, ModelRunner, PrefillItem, PrefillResult, Rounding, StepWeights } from './modelRunner.js'
import { nextTokens } from './nextTokens.js'

/** Maximum number of tokens of several prompts in one packed run. A single prompt may have more. */
const PACKED_TOKENS = 512

const pastLength = ({ past }: PrefillItem): number => past.reduce((sum, part) => sum + part.length, 0)

/** Groups neighboring items with a past into runs. */
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
 * Groups items of similar length without a past, which are computed as rows, and all with one. Each
 * has its index among the items.
 */
const batchesOf = (
  items: readonly PrefillItem[],
): readonly { readonly kind: 'rows' | 'past'; readonly places: readonly number[] }[] => {
  const open = new Map<number, { readonly places: number[]; tokens: number }>()
  const result: { readonly kind: 'rows' | 'past'; readonly places: number[] }[] = []
  for (const [i, { tokens, scores, past }] of items.entries()) {
    const length = scores === 'last' ? LENGTHS.find((size) => size >= tokens.length) : undefined
    const group = past.length > 0 ? 0 : length // 0 is the group of all items with a past
    const batch = group === undefined ? undefined : open.get(group)
    if (batch !== undefined && (group === 0 || batch.tokens + tokens.length <= BATCH_TOKENS)) {
      batch.places.push(i)
      batch.tokens += tokens.length
      continue
    }
    const fresh = { places: [i], tokens: tokens.length }
    if (group !== undefined) open.set(group, fresh)
    result.push({ kind: group === 0 ? 'past' : 'rows', places: fresh.places })
  }
  return result
}

/**
 * Makes `[1, 1, T, T]`: every position attends to itself and to earlier positions inside the
 * window.
 */
const causalBias = (length: number, window: number | null): HostArray => {
  const bias = new Float32Array(length * length).fill(MASKED)
  for (let t = 0; t < length; t++) {
    bias.fill(0, t * length + (window === null ? 0 : Math.max(0, t + 1 - window)), t * length + t + 1)
  }
  return { data: bias, shape: [1, 1, length, length] }
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
const packedBias = (items: readonly PrefillItem[], layout: Layout, window: number | null): HostArray => {
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
  return { data: bias, shape: [1, 1, layout.tokens, visible] }
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

const hostLayers = ({ layers }: Hosted<PrefillOutput>): HostLayers => {
  const numbers = ({ data }: HostArray): Float32Array => data as Float32Array // float32 by the graphs
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
  /** Makes tables for positions below `length`. */
  readonly rotary: (length: number) => Hosted<RotaryTables>
}

/** The tokens of a run after which scores are needed. */
interface Scored {
  readonly places: Int32Array
  readonly inverse: Float32Array
}

/** Returns the last token of each item, or all tokens of the only item if it needs their scores. */
const scoredOf = (items: readonly PrefillItem[], starts: readonly number[]): Scored => {
  const [first] = items
  if (first?.scores === 'all') {
    const { length } = first.tokens
    return {
      places: Int32Array.from({ length }, (_, t) => t),
      inverse: new Float32Array(length).fill(first.inverseTemperature),
    }
  }
  return {
    places: Int32Array.from(items, ({ tokens }, i) => starts[i]! + tokens.length - 1),
    inverse: Float32Array.from(items, ({ inverseTemperature }) => inverseTemperature),
  }
}

const array = (data: HostArray['data'], ...shape: readonly number[]): HostArray => ({ data, shape })

const scoredArrays = ({ places, inverse }: Scored): { readonly scored: HostArray; readonly inverse: HostArray } => ({
  scored: array(places, places.length),
  inverse: array(inverse, inverse.length, 1),
})

/** Makes the results of items from those of a run. `keyValues` gives those of an item. */
const resultsOf = (
  items: readonly PrefillItem[],
  { scores }: Hosted<PrefillOutput>,
  { inverse }: Scored,
  keyValues: (item: number) => KeyValues,
): readonly PrefillResult[] => {
  const next = nextTokens(scores, inverse)
  return items.map(
    ({ scores: wanted, tokens }, i): PrefillResult => ({
      keyValues: keyValues(i),
      next: next[wanted === 'all' ? tokens.length - 1 : i]!,
      logits: wanted === 'all' ? (scores.logits.data as Float32Array) : null, // float32 by the graphs
    }),
  )
}

/** Computes prompts with pasts one after another in one run. */
const prefillPack = (
  { config, rotary, windows, leastRows }: PrefillModel,
  run: (given: CallArrays<PrefillInput>) => Hosted<PrefillOutput>,
  items: readonly PrefillItem[],
): readonly PrefillResult[] => {
  const { keyValueHeads: heads, headSize: width } = config
  const layout = layoutOf(items, leastRows)
  const { starts, tokens: count, cached } = layout
  const ids = new Int32Array(count)
  const positions = new Int32Array(count)
  for (const [i, { tokens }] of items.entries()) {
    const { token, past } = starts[i]!
    ids.set(tokens, token)
    for (let t = 0; t < tokens.length; t++) positions[token + t] = past + t
  }
  const scored = scoredOf(
    items,
    starts.map(({ token }) => token),
  )
  const parts = items.flatMap(({ past }) => past)
  const pastOf = (layer: number, part: 'keys' | 'values'): HostArray =>
    array(joinPast(parts, { layer, part, heads, width }), 1, heads, cached, width)
  const { scored: places, inverse } = scoredArrays(scored)
  const result = run({
    rotary: rotary(positions.reduce((n, x) => Math.max(n, x), 0) + 1),
    ids: array(ids, count),
    positions: array(positions, count),
    biases: Object.fromEntries(windows.map((window) => [biasName(window), packedBias(items, layout, window)])),
    past: Array.from({ length: config.layers }, (_, layer) => ({
      keys: pastOf(layer, 'keys'),
      values: pastOf(layer, 'values'),
    })),
    scored: places,
    inverseTemperature: inverse,
  })
  const layers = hostLayers(result)
  return resultsOf(items, result, scored, (i) =>
    keyValuesOf(layers, { row: 0, start: starts[i]!.token, length: items[i]!.tokens.length }),
  )
}

/** Computes prompts without a past: as rows in attention, else packed. */
const prefillRows = (
  { rotary, windows, leastRows }: PrefillModel,
  run: (given: CallArrays<BatchInput>) => Hosted<PrefillOutput>,
  items: readonly PrefillItem[],
): readonly PrefillResult[] => {
  const length = items.reduce((most, { tokens }) => Math.max(most, tokens.length), 0)
  const count = Math.max(
    leastRows,
    items.reduce((sum, { tokens }) => sum + tokens.length, 0),
  )
  const [ids, positions, places] = [new Int32Array(count), new Int32Array(count), new Int32Array(count)]
  const tokenAt = new Int32Array(items.length * length)
  const starts: number[] = []
  let next = 0
  for (const [i, { tokens }] of items.entries()) {
    starts.push(next)
    ids.set(tokens, next)
    for (let t = 0; t < tokens.length; t++) {
      positions[next + t] = t
      places[next + t] = i * length + t
      tokenAt[i * length + t] = next + t
    }
    next += tokens.length
  }
  const scored = scoredOf(items, starts)
  const { scored: scoredPlaces, inverse } = scoredArrays(scored)
  const result = run({
    rotary: rotary(length),
    ids: array(ids, count),
    positions: array(positions, count),
    tokens: array(tokenAt, items.length, length),
    places: array(places, count),
    biases: Object.fromEntries(windows.map((window) => [biasName(window), causalBias(length, window)])),
    scored: scoredPlaces,
    inverseTemperature: inverse,
  })
  const layers = hostLayers(result)
  return resultsOf(items, result, scored, (i) =>
    keyValuesOf(layers, { row: i, start: 0, length: items[i]!.tokens.length }),
  )
}

/** Compiled prompts, with and without a past. */
interface PromptCalls {
  readonly past: CompiledCalls<PrefillInput, PrefillOutput>
  readonly rows: CompiledCalls<BatchInput, PrefillOutput>
}

/** The computation of prompts. Mutable. */
export interface Prefill {
  readonly compute: ModelRunner['prefill']
  /** Frees graphs with constant weights. */
  readonly release: () => void
}

/**
 * Makes the computation of prompts. With rounding `alike`, prompts are computed together only where
 * that does not change their numbers: as rows, with constant weights. Products with fed weights are
 * divided among threads by the number of tokens, which changes the order of their sums.
 */
export const makePrefill = (model: PrefillModel, rounding: Rounding): Prefill => {
  const { graphs } = model
  const callsWith = (weights: StepWeights): PromptCalls => ({
    past: compiledCalls(graphs.prefill, weights),
    rows: compiledCalls(graphs.batch, weights),
  })
  const calls: Readonly<Record<StepWeights, PromptCalls>> = { fed: callsWith('fed'), constant: callsWith('constant') }
  const releaseCalls = ({ past, rows }: PromptCalls): void => {
    past.release()
    rows.release()
  }
  const alone = (items: readonly PrefillItem[]): readonly (readonly PrefillItem[])[] => items.map((item) => [item])
  const computeWith: ModelRunner['prefill'] = (params, items, weights) => {
    const { past, rows } = calls[weights]
    const isTogether = rounding === 'free' || weights === 'constant'
    const results: PrefillResult[] = []
    for (const { kind, places } of batchesOf(items)) {
      const given = places.map((place) => items[place]!)
      const made =
        kind === 'past'
          ? (rounding === 'free' ? packs(given) : alone(given)).flatMap((pack) =>
              prefillPack(model, (arrays) => past.run('past', params, arrays), pack),
            )
          : (isTogether ? [given] : alone(given)).flatMap((batch) =>
              prefillRows(model, (arrays) => rows.run('rows', params, arrays), batch),
            )
      for (const [i, place] of places.entries()) results[place] = made[i]!
    }
    return results
  }
  return {
    compute: (params, items, weights) => {
      try {
        return computeWith(params, items, weights)
      } finally {
        if (weights === 'fed') releaseCalls(calls.fed) // they would keep the weights from being freed
      }
    },
    release: () => releaseCalls(calls.constant),
  }
}
