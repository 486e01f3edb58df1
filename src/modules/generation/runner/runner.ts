/** A decoder as a `ModelRunner`: prompts packed into one run, decoding steps of whole lanes. */
import type * as tf from '@tensorflow/tfjs-core'
import { adoptTensor } from '../../../engine/jit.js'
import { MASKED } from '../../../engine/ops/attention.js'
import { scope } from '../../../engine/scope.js'
import type { DecoderConfig } from '../../transformer/config.js'
import type { Params } from '../../transformer/params.js'
import { type RotaryTables, rotaryTables } from '../../transformer/rotaryTables.js'
import { biasName, runnerGraphs } from './graphs.js'
import { keyValuesOf, makeLane } from './lane.js'
import type { KeyValues, ModelRunner, PrefillItem, PrefillResult } from './modelRunner.js'
import { nextTokens } from './nextTokens.js'

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

/** A rotary table in host memory. Tensors of it are made for each call. */
interface HostTable {
  readonly cos: Float32Array
  readonly sin: Float32Array
  readonly shape: readonly number[]
}

const hostTables = (config: DecoderConfig, length: number, sequenceLength: number): ReadonlyMap<string, HostTable> =>
  scope(
    () =>
      new Map(
        Object.entries(rotaryTables(config, length, { sequenceLength })).map(([name, { cos, sin }]) => {
          const numbers = (x: tf.Tensor): Float32Array => Float32Array.from(x.dataSync())
          return [name, { cos: numbers(cos), sin: numbers(sin), shape: cos.shape }]
        }),
      ),
  )

/**
 * Dependence of a row's last digits on the rest of the batch. `free`: prompts are computed
 * together, and a single row uses a faster kernel. `alike`: the same kernels run in the same order
 * in any batch, so equal requests give equal tokens. Log-probabilities are then equal bit for bit
 * if all widths are multiples of 4 and onnxruntime divides products among threads in the same way
 * (it did at widths of 16 to 512 with one and two threads). At other widths log-probabilities
 * differ by rounding, at most 3.4e-7 as measured.
 */
export type Rounding = 'free' | 'alike'

export interface RunnerOptions {
  /** Default `alike`. */
  readonly rounding?: Rounding
  /**
   * Longest row in tokens, prompt and completion together. Default: the model's number of
   * positions.
   */
  readonly maxLength?: number
}

/**
 * Makes a runner for one architecture.
 *
 * If the angles of positions depend on the length of the sequence (dynamic and long RoPE), every
 * row uses those of `maxLength`, as in vLLM, because cached keys must match all later ones.
 *
 * Effects  compiled graphs live until `release`.
 * Cost     one graph for steps and one for prompts with a past, for all sizes, and one for each
 *          padded length of prompts (ten).
 */
export const makeRunner = (config: DecoderConfig, options: RunnerOptions = {}): ModelRunner => {
  const { rounding = 'alike', maxLength = config.maxPositions } = options
  const leastRows = rounding === 'alike' ? 2 : 1 // a product with one row is computed by another kernel
  const graphs = runnerGraphs(config)
  const { keyValueHeads: heads, headSize: width } = config
  const windows = [...new Set(config.layerKinds.map(({ window }) => window))]
  let tables: { readonly length: number; readonly byName: ReadonlyMap<string, HostTable> } | undefined

  const rotary = (length: number): RotaryTables => {
    if (tables === undefined || tables.length < length) {
      const enough = Math.max(256, 2 ** Math.ceil(Math.log2(length)))
      tables = { length: enough, byName: hostTables(config, enough, maxLength) }
    }
    return Object.fromEntries(
      [...tables.byName].map(([name, { cos, sin, shape }]) => [
        name,
        { cos: adoptTensor(cos, shape, 'float32'), sin: adoptTensor(sin, shape, 'float32') },
      ]),
    )
  }

  const prefillPack = (params: Params, items: readonly PrefillItem[]): readonly PrefillResult[] => {
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
      const next = nextTokens(result.scores, inverse)
      const added = numbers(result.added)
      return items.map(
        ({ tokens }, i): PrefillResult => ({
          keyValues: keyValuesOf(
            added,
            { layers: config.layers, heads, width },
            { start: starts[i]!.token, length: tokens.length },
          ),
          next: next[every ? tokens.length - 1 : i]!,
          logits: every ? numbers(result.scores.logits) : null,
        }),
      )
    })
  }

  /** Computes prompts without a past as rows of one length, padded on the right. */
  const prefillRows = (params: Params, items: readonly PrefillItem[], length: number): readonly PrefillResult[] => {
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
      const next = nextTokens(result.scores, inverse)
      const added = result.added.dataSync() as Float32Array // a float32 tensor
      return items.map(
        ({ tokens }, i): PrefillResult => ({
          keyValues: keyValuesOf(
            added,
            { layers: config.layers, heads, width },
            { start: i * length, length: tokens.length },
          ),
          next: next[i]!,
          logits: null,
        }),
      )
    })
  }

  /** Computes prompts of one padded length as rows of one run, and packs those with a past. */
  const prefillTogether = (params: Params, items: readonly PrefillItem[]): readonly PrefillResult[] => {
    const results: PrefillResult[] = []
    for (const { length, places } of batchesOf(items)) {
      const given = places.map((place) => items[place]!)
      const made =
        length === 0 ? packs(given).flatMap((pack) => prefillPack(params, pack)) : prefillRows(params, given, length)
      for (const [i, place] of places.entries()) results[place] = made[i]!
    }
    return results
  }

  return {
    vocabularySize: config.vocabularySize,
    maxLength,
    bytesPerToken: 2 * 4 * config.layers * heads * width,
    prefill: (params, items) =>
      rounding === 'alike' ? items.flatMap((item) => prefillPack(params, [item])) : prefillTogether(params, items),
    makeLane: (weights = 'fed') => makeLane({ config, graphs, rotary, windows, leastRows, weights }),
    release: () => {
      graphs.prefill.release()
      graphs.batch.release()
      graphs.step.release()
    },
  }
}
