/**
 * The decoder as pure functions of its parameters.
 *
 * Axis letters: P prompts, G completions of a prompt, T positions, D features, K key-value heads, R
 * query heads for each of them, H head size, N = P * G * T rows. A call computes one *segment*: T
 * new positions of every row. They attend to themselves and to earlier segments through those
 * segments' keys and values. Scoring a batch takes a prompt segment (G = 1) and a completion
 * segment that shares it; sampling takes a prompt segment and then segments of one token.
 */
import {
  type AttentionSource,
  activate,
  attention,
  gate,
  layerNorm,
  linearLayer as linearMap,
  MASKED,
  type RotaryTable,
  rmsNorm,
  rotary,
} from '@tandem-rl/tfjs-onnxruntime'
import * as tf from '@tensorflow/tfjs-core'
import { addLora } from './applyLora.js'
import type { AttentionDescription, Norm, Projection, Residual } from './config/description.js'
import type { DecoderConfig } from './config.js'
import { type FilledPlaces, fromPlaces, numbersAt, toPlaces } from './filledPlaces.js'
import { HEAD, type Params } from './params.js'
import { type RotaryTables, tableNamed } from './rotaryTables.js'

/** Keys and values of one layer, `[P, K, G, T, H]` each. */
export interface LayerCache {
  readonly keys: tf.Tensor
  readonly values: tf.Tensor
}

/** An earlier segment to attend to. */
export interface Past {
  /** One entry per layer. A group axis of 1 means that all completions of a prompt share it. */
  readonly layers: readonly LayerCache[]
  /**
   * Added to the scores, broadcast to `[P, K, G, R, T, C]`: 0 where attention is allowed, `MASKED`
   * elsewhere.
   */
  readonly bias?: tf.Tensor
  /** Positions of the C keys, `[P, G or 1, C]` int32. Used only for layers with a window. */
  readonly positions: tf.Tensor
}

/** T neighboring positions of every row. */
export interface Segment {
  /** `[P, G, T]` int32 */
  readonly ids: tf.Tensor
  /** `[P, G, T]` int32 */
  readonly positions: tf.Tensor
  /**
   * Added to the scores of the positions with each other, broadcast to `[P, K, G, R, T, T]`; masks
   * later positions. Not needed for T = 1.
   */
  readonly ownBias?: tf.Tensor
  readonly past: readonly Past[]
  readonly rotary: RotaryTables
  /**
   * Computes only these places outside of attention. Default: all. Gradients of the results at
   * other places, and at padding, must be zero.
   */
  readonly filled?: FilledPlaces
}

export interface SegmentResult {
  /** Last hidden states after the final norm, `[N, D]`. */
  readonly hidden: tf.Tensor
  /** Keys and values of the T positions, for later segments. */
  readonly layers: readonly LayerCache[]
}

/**
 * One layer's projections of N positions, heads side by side. Positions are already encoded in
 * queries and keys.
 */
export interface HeadProjections {
  readonly layer: number
  /** `[N, heads * H]` */
  readonly queries: tf.Tensor
  /** `[N, K * H]` */
  readonly keys: tf.Tensor
  /** `[N, K * H]` */
  readonly values: tf.Tensor
  /**
   * A position attends to itself and the `window - 1` positions before it; null: to all before it.
   */
  readonly window: number | null
  /** Scores become `softCap * tanh(score / softCap)` before masking; null: unchanged. */
  readonly softCap: number | null
  /** Factor of the products of queries and keys. */
  readonly scale: number
}

/**
 * The attention of positions to each other and to earlier segments. Returns the weighted values,
 * `[N, heads * H]`.
 */
export type Attend = (heads: HeadProjections) => tf.Tensor

/** N positions, in the order that `attend` expects. */
export interface Tokens {
  /** `[N]` int32 */
  readonly ids: tf.Tensor
  /** `[N]` int32 */
  readonly positions: tf.Tensor
  readonly rotary: RotaryTables
  readonly attend: Attend
}

const parameter = (params: Params, name: string): tf.Tensor => {
  const tensor = params[name]
  if (tensor === undefined) throw new Error(`forward: parameter '${name}' is missing`)
  return tensor
}

/**
 * Applies a linear map to rows, `[N, in]` to `[N, out]`, with the adapter in `params` if present.
 * All projections of the model use this function.
 */
const linear = (
  params: Params,
  { name, bias, layout }: Omit<Projection, 'inputs' | 'outputs'>,
  x: tf.Tensor,
): tf.Tensor => {
  const weight = parameter(params, `${name}.weight`)
  const y =
    bias === 'none'
      ? tf.matMul(x, weight, false, layout === 'out-in')
      : linearMap(x, { weight, bias: parameter(params, `${name}.bias`) }, layout)
  return addLora(params, name, { x, y })
}

/** Applies a norm over the last axis. */
const normalize = (params: Params, prefix: string, norm: Norm, x: tf.Tensor): tf.Tensor => {
  const weight = parameter(params, `${prefix}${norm.name}.weight`)
  if (norm.kind === 'layer') {
    return layerNorm(x, { weight, bias: parameter(params, `${prefix}${norm.name}.bias`) }, norm.epsilon)
  }
  return rmsNorm(x, norm.offset === 0 ? weight : tf.add(weight, norm.offset), norm.epsilon)
}

/** The parameters of one layer. */
interface Layer {
  readonly params: Params
  /** The prefix of its parameter names. */
  readonly prefix: string
}

/** Computes `x + after(f(before(x)))`. */
const residual = (
  { params, prefix }: Layer,
  { before, after }: Residual,
  x: tf.Tensor,
  f: (x: tf.Tensor) => tf.Tensor,
): tf.Tensor => {
  const y = f(before === null ? x : normalize(params, prefix, before, x))
  return tf.add(x, after === null ? y : normalize(params, prefix, after, y))
}

/** Computes outputs of given widths, from one projection each, or from a joint one. */
const project = (
  { params, prefix }: Layer,
  projections: readonly Projection[],
  x: tf.Tensor,
  widths: readonly number[],
): readonly tf.Tensor[] => {
  const outputs = projections.map((p) => linear(params, { ...p, name: `${prefix}${p.name}` }, x))
  return outputs.length === widths.length ? outputs : tf.split(outputs[0]!, [...widths], 1)
}

/** Normalizes queries or keys `[N, heads * H]`, over each head or over all of them. */
const normalizeHeads = ({ params, prefix }: Layer, norm: Norm | null, x: tf.Tensor): tf.Tensor => {
  if (norm === null) return x
  const [rows, width] = x.shape as [number, number] // [N, heads * H]
  if (norm.width === width) return normalize(params, prefix, norm, x)
  return tf.reshape(normalize(params, prefix, norm, tf.reshape(x, [rows, width / norm.width, norm.width])), [
    rows,
    width,
  ])
}

/** Rotates the first features of each head in `[N, heads * H]` by its position `[N, 1]`. */
const turn = (x: tf.Tensor, headSize: number, positions: tf.Tensor, table: RotaryTable): tf.Tensor => {
  const [rows, all] = x.shape as [number, number] // [N, heads * H]
  const width = 2 * table.cos.shape[1]!
  const rotated = (heads: tf.Tensor, size: number): tf.Tensor =>
    tf.squeeze(rotary(tf.reshape(heads, [rows, 1, size]), positions, table), [1])
  if (width === headSize) return rotated(x, all)
  const heads = all / headSize
  const [first, rest] = tf.split(tf.reshape(x, [rows, heads, headSize]), [width, headSize - width], 2)
  const turned = tf.reshape(rotated(first!, heads * width), [rows, heads, width])
  return tf.reshape(tf.concat([turned, rest!], 2), [rows, all])
}

const selfAttention =
  (layer: Layer, index: number, config: DecoderConfig, tokens: Tokens) =>
  (x: tf.Tensor): tf.Tensor => {
    const { attention, heads, keyValueHeads, headSize } = config
    const kind = config.layerKinds[index]!
    const widths = [heads * headSize, keyValueHeads * headSize, keyValueHeads * headSize]
    const [q, k, values] = project(layer, attention.inputs, x, widths) as [tf.Tensor, tf.Tensor, tf.Tensor] // as many as widths
    const placed = (part: tf.Tensor): tf.Tensor =>
      kind.rotary === null
        ? part
        : turn(part, headSize, tf.expandDims(tokens.positions, 1), tableNamed(tokens.rotary, kind.rotary))
    const mixed = tokens.attend({
      layer: index,
      queries: placed(normalizeHeads(layer, attention.queryNorm, q)),
      keys: placed(normalizeHeads(layer, attention.keyNorm, k)),
      values,
      window: kind.window,
      softCap: attention.softCap,
      scale: kind.scale,
    })
    return project(layer, [attention.output], mixed, [config.hiddenSize])[0]!
  }

const feedForward =
  (layer: Layer, { feedForward: half, intermediateSize, hiddenSize }: DecoderConfig) =>
  (x: tf.Tensor): tf.Tensor => {
    const widths = half.kind === 'gated' ? [intermediateSize, intermediateSize] : [intermediateSize]
    const [first, up] = project(layer, half.inputs, x, widths) as [tf.Tensor, tf.Tensor | undefined] // as many as widths
    const activated = up === undefined ? activate(half.activation, first) : gate(half.activation, first, up)
    return project(layer, [half.output], activated, [hiddenSize])[0]!
  }

/**
 * Computes the input of the first layer, `[N, D]`: embeddings of tokens, plus those of positions if
 * they are learned.
 *
 * Errors   throws if a parameter is missing, and names it.
 */
export const embedTokens = (
  params: Params,
  { embedding, learnedPositions }: DecoderConfig,
  tokens: Pick<Tokens, 'ids' | 'positions'>,
): tf.Tensor => {
  const rowsOf = (name: string, ids: tf.Tensor): tf.Tensor =>
    tf.gather(parameter(params, `${name}.weight`), ids as tf.Tensor1D) // [N] by contract
  const embedded = rowsOf(embedding.name, tokens.ids)
  const scaled = embedding.scale === 1 ? embedded : tf.mul(embedded, embedding.scale)
  return learnedPositions === null ? scaled : tf.add(scaled, rowsOf(learnedPositions, tokens.positions))
}

/** One layer of a decoder. */
export interface DecoderLayer {
  readonly config: DecoderConfig
  readonly layer: number
}

/** Computes a layer's output from its input `x` `[N, D]`. Throws if a parameter is missing. */
export const decoderLayer = (
  params: Params,
  { config, layer: index }: DecoderLayer,
  { x, tokens }: { readonly x: tf.Tensor; readonly tokens: Tokens },
): tf.Tensor => {
  const layer = { params, prefix: `${config.layerName}.${index}.` }
  const middle = residual(layer, config.attention, x, selfAttention(layer, index, config, tokens))
  return residual(layer, config.feedForward, middle, feedForward(layer, config))
}

/**
 * Computes the hidden states after the final norm, `[N, D]`, from the last layer's output. Throws
 * if a parameter is missing, and names it.
 */
export const finalNorm = (params: Params, config: DecoderConfig, x: tf.Tensor): tf.Tensor =>
  normalize(params, '', config.finalNorm, x)

/**
 * Computes the last hidden states after the final norm, `[N, D]`, of N positions with the given
 * attention.
 *
 * With learned positions, all positions (including padding) must be below `config.maxPositions`.
 * With rotary positions, they must be below the length of the tables.
 *
 * Errors   throws if a parameter is missing or shapes do not match, and names them.
 * Source   the model classes of Hugging Face Transformers 5.17: GPT-2, GPT-Neo, Llama
 *          (arXiv:2302.13971), Mistral (arXiv:2310.06825), Qwen2 (arXiv:2407.10671), Qwen3
 *          (arXiv:2505.09388), Gemma 2 (arXiv:2408.00118), Gemma 3 (arXiv:2503.19786), Phi-3
 *          (arXiv:2404.14219), OLMo 2 (arXiv:2501.00656), SmolLM3.
 */
export const forwardTokens = (params: Params, config: DecoderConfig, tokens: Tokens): tf.Tensor => {
  const layers = Array.from({ length: config.layers }, (_, layer) => ({ config, layer }))
  const embedded = embedTokens(params, config, tokens)
  return finalNorm(
    params,
    config,
    layers.reduce((x, layer) => decoderLayer(params, layer, { x, tokens }), embedded),
  )
}

/**
 * Returns the bias of an earlier segment's keys that also masks those `window` or more positions
 * before the query.
 */
const pastInWindow = ({ bias, positions: keys }: Past, queries: tf.Tensor, window: number): tf.Tensor => {
  const [p, g, t] = queries.shape as [number, number, number] // [P, G, T]
  const [, groups, places] = keys.shape as [number, number, number] // [P, G or 1, C]
  const distance = tf.sub(tf.reshape(queries, [p, 1, g, 1, t, 1]), tf.reshape(keys, [p, 1, groups, 1, 1, places]))
  const outside = tf.mul(tf.cast(tf.greaterEqual(distance, tf.scalar(window, 'int32')), 'float32'), MASKED)
  return bias === undefined ? outside : tf.minimum(bias, outside)
}

/**
 * Returns the bias of a segment's positions on each other, `ownBias`, masked by the window.
 * Adjacent entries are adjacent positions.
 */
const ownInWindow = (
  bias: tf.Tensor,
  length: number,
  kind: { readonly window: number | null; readonly paddingSees: 'all' | 'past' },
): tf.Tensor => {
  const { window, paddingSees } = kind
  if (window === null && paddingSees === 'all') return bias
  const places = tf.range(0, length, 1, 'int32')
  const distance = tf.sub(tf.expandDims(places, 1), tf.expandDims(places, 0))
  const outside = tf.greaterEqual(distance, tf.scalar(window ?? length, 'int32'))
  if (paddingSees === 'all') return tf.minimum(bias, tf.mul(tf.cast(outside, 'float32'), MASKED))
  const hidden = tf.logicalOr(outside, tf.less(distance, tf.scalar(0, 'int32')))
  return tf.where(tf.reshape(hidden, [1, 1, 1, 1, length, length]), tf.scalar(Number.NEGATIVE_INFINITY), bias)
}

/** Makes the biases of a segment's sources, once for each window of its layers. */
const biasesByWindow = (segment: Segment, { paddingSees }: AttentionDescription) => {
  const made = new Map<number | null, readonly (tf.Tensor | undefined)[]>()
  const { ownBias, past, positions } = segment
  const make = (window: number | null): readonly (tf.Tensor | undefined)[] => [
    ...past.map((earlier) => (window === null ? earlier.bias : pastInWindow(earlier, positions, window))),
    ...(ownBias === undefined ? [] : [ownInWindow(ownBias, positions.shape[2]!, { window, paddingSees })]),
  ]
  return (window: number | null): readonly (tf.Tensor | undefined)[] => {
    const biases = made.get(window) ?? make(window)
    made.set(window, biases)
    return biases
  }
}

/**
 * Converts a segment to positions for the decoder, and collects the keys and values that its layers
 * make. These are complete, in the order of the layers, once the layers have been computed.
 *
 * Errors   throws if several positions have no ownBias.
 */
export const segmentTokens = (
  config: DecoderConfig,
  segment: Segment,
): { readonly tokens: Tokens; readonly made: readonly LayerCache[] } => {
  const [p, g, t] = segment.ids.shape as [number, number, number] // [P, G, T] by contract
  if (t > 1 && segment.ownBias === undefined) throw new Error(`forwardSegment: ${t} positions need an ownBias`)
  const { heads, keyValueHeads: k, headSize: h } = config
  const made: LayerCache[] = []
  const biases = biasesByWindow(segment, config.attention)
  const withBias = (source: AttentionSource, bias: tf.Tensor | undefined): AttentionSource =>
    bias === undefined ? source : { ...source, bias }
  const { filled } = segment
  const placed = (x: tf.Tensor, axes: number[]): tf.Tensor => tf.reshape(toPlaces(x, filled), [p, g, t, ...axes])
  const attend: Attend = ({ layer, window, softCap, scale, ...flat }) => {
    const queries = tf.transpose(placed(flat.queries, [k, heads / k, h]), [0, 3, 1, 4, 2, 5])
    const keys = tf.transpose(placed(flat.keys, [k, h]), [0, 3, 1, 2, 4])
    const values = tf.transpose(placed(flat.values, [k, h]), [0, 3, 1, 2, 4])
    made.push({ keys, values })
    const own: AttentionSource = { keys, values, reach: 'causal' }
    const sources: readonly AttentionSource[] = [...segment.past.map((past) => past.layers[layer]!), own]
    const biased = sources.map((source, i) => withBias(source, biases(window)[i]))
    const mixed = attention(queries, biased, { scale, softCap })
    return fromPlaces(tf.reshape(tf.transpose(mixed, [0, 2, 4, 1, 3, 5]), [p * g * t, heads * h]), filled)
  }
  const flat = (x: tf.Tensor): tf.Tensor => numbersAt(tf.reshape(x, [p * g * t]), filled)
  const tokens = { ids: flat(segment.ids), positions: flat(segment.positions), rotary: segment.rotary, attend }
  return { tokens, made }
}

/**
 * Computes the hidden states of one segment.
 *
 * Shapes   see `Segment` and `SegmentResult`.
 * Errors   throws if a parameter is missing or shapes do not match, and names them.
 */
export const forwardSegment = (params: Params, config: DecoderConfig, segment: Segment): SegmentResult => {
  const { tokens, made } = segmentTokens(config, segment)
  return { hidden: toPlaces(forwardTokens(params, config, tokens), segment.filled), layers: made }
}

/** Returns the weights of the output projection, `[V, D]`: its own, or those of the embedding. */
export const headWeight = (params: Params, { tiedEmbeddings, embedding }: DecoderConfig): tf.Tensor =>
  params[`${HEAD}.weight`] ?? parameter(params, `${tiedEmbeddings ? embedding.name : HEAD}.weight`)

/**
 * Computes the logits of every token of the vocabulary, `[N, V]`, from hidden states `[N, D]`.
 */
export const logitsOf = (params: Params, config: DecoderConfig, hidden: tf.Tensor): tf.Tensor => {
  const logits = addLora(params, HEAD, { x: hidden, y: tf.matMul(hidden, headWeight(params, config), false, true) })
  const { logitSoftCap: cap } = config
  return cap === null ? logits : tf.mul(tf.tanh(tf.div(logits, cap)), cap)
}
