/**
 * The decoder as pure functions of its parameters.
 *
 * Axis letters: P prompts, G completions of a prompt, T positions, D features, K key-value heads, R query heads for each of
 * them, H head size, N = P * G * T rows. A call computes one *segment*: T new positions of every row, which attend to
 * themselves and to earlier segments through those segments' keys and values. Scoring a batch is a prompt segment (G = 1) and
 * a completion segment that shares it; sampling is a prompt segment and then segments of one token.
 */
import * as tf from '@tensorflow/tfjs'
import { type AttentionSource, attention, MASKED } from '../../engine/ops/attention.js'
import { rmsNorm } from '../../engine/ops/rmsNorm.js'
import { type RotaryTable, rotary } from '../../engine/ops/rotary.js'
import { swiGlu } from '../../engine/ops/swiGlu.js'
import type { DecoderConfig } from './config.js'
import type { Params } from './params.js'

/** Keys and values of one layer, `[P, K, G, T, H]` each. */
export interface LayerCache {
  readonly keys: tf.Tensor
  readonly values: tf.Tensor
}

/** An earlier segment to attend to. */
export interface Past {
  /** One entry for each layer; a group axis of 1 means that all completions of a prompt share it. */
  readonly layers: readonly LayerCache[]
  /** Added to the scores, broadcast to `[P, K, G, R, T, C]`: 0 where attention is allowed, `MASKED` where it is not. */
  readonly bias?: tf.Tensor
  /** Positions of the C keys, `[P, G or 1, C]` int32. Read where a layer sees only a window. */
  readonly positions: tf.Tensor
}

/** Cosines and sines by the name that a layer asks for: `global`, and `local` where layers with a window turn by other angles. */
export type RotaryTables = Readonly<Record<string, RotaryTable>>

export interface Segment {
  /** `[P, G, T]` int32 */
  readonly ids: tf.Tensor
  /** `[P, G, T]` int32 */
  readonly positions: tf.Tensor
  /** Added to the scores of a position with the positions before it, broadcast to `[P, K, G, R, T, T]`; not needed for T = 1. */
  readonly beforeBias?: tf.Tensor
  /** Added to the score of a position with itself, broadcast to `[P, K, G, R, T, 1]`. */
  readonly selfBias?: tf.Tensor
  readonly past: readonly Past[]
  readonly rotary: RotaryTables
}

export interface SegmentResult {
  /** Last hidden states after the final norm, `[N, D]`. */
  readonly hidden: tf.Tensor
  /** Keys and values of the T positions, for later segments. */
  readonly layers: readonly LayerCache[]
}

/** One layer's projections of N positions, heads side by side; positions are already encoded in queries and keys. */
export interface HeadProjections {
  readonly layer: number
  /** `[N, heads * H]` */
  readonly queries: tf.Tensor
  /** `[N, K * H]` */
  readonly keys: tf.Tensor
  /** `[N, K * H]` */
  readonly values: tf.Tensor
  /** A position sees itself and the `window - 1` positions before it; null: all before it. */
  readonly window: number | null
  /** Scores become `softCap * tanh(score / softCap)` before anything is masked; null leaves them alone. */
  readonly softCap: number | null
  /** Products of queries and keys are multiplied by it. */
  readonly scale: number
}

/** How positions look at one another and at what came before: the values that each position sees, mixed, `[N, heads * H]`. */
export type Attend = (heads: HeadProjections) => tf.Tensor

/** N positions, in whatever order `attend` understands. */
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

/** `x W^T + b` with `W` as `[out, in]`; the bias is added where the model has one. */
const linear = (params: Params, name: string, x: tf.Tensor): tf.Tensor => {
  const product = tf.matMul(x, parameter(params, `${name}.weight`), false, true)
  const bias = params[`${name}.bias`]
  return bias === undefined ? product : tf.add(product, bias)
}

const selfAttention = (
  params: Params,
  { headSize }: DecoderConfig,
  layer: number,
  x: tf.Tensor,
  tokens: Tokens,
): tf.Tensor => {
  const name = `model.layers.${layer}.self_attn`
  const positions = tf.expandDims(tokens.positions, 1)
  const turned = (part: 'q' | 'k'): tf.Tensor =>
    tf.squeeze(
      rotary(tf.expandDims(linear(params, `${name}.${part}_proj`, x), 1), positions, tokens.rotary.global!),
      [1],
    )
  const queries = turned('q')
  const keys = turned('k')
  const values = linear(params, `${name}.v_proj`, x)
  const scale = 1 / Math.sqrt(headSize)
  const mixed = tokens.attend({ layer, queries, keys, values, window: null, softCap: null, scale })
  return linear(params, `${name}.o_proj`, mixed)
}

const feedForward = (params: Params, layer: number, x: tf.Tensor): tf.Tensor => {
  const name = `model.layers.${layer}.mlp`
  const activated = swiGlu(linear(params, `${name}.gate_proj`, x), linear(params, `${name}.up_proj`, x))
  return linear(params, `${name}.down_proj`, activated)
}

/**
 * Last hidden states after the final norm, `[N, D]`, of N positions that attend as they are told to.
 *
 * Errors   throws where a parameter is missing or shapes do not fit, naming them.
 * Source   Llama (arXiv:2302.13971) and Qwen2 (arXiv:2407.10671) as in Hugging Face Transformers 5.
 */
export const forwardTokens = (params: Params, config: DecoderConfig, tokens: Tokens): tf.Tensor => {
  const norm = (name: string, x: tf.Tensor): tf.Tensor =>
    rmsNorm(x, parameter(params, `${name}.weight`), config.normEpsilon)
  const embedded = tf.gather(parameter(params, 'model.embed_tokens.weight'), tokens.ids as tf.Tensor1D) // [N] by contract
  const hidden = Array.from({ length: config.layers }, (_, i) => i).reduce<tf.Tensor>((x, layer) => {
    const name = `model.layers.${layer}`
    const middle = tf.add(x, selfAttention(params, config, layer, norm(`${name}.input_layernorm`, x), tokens))
    return tf.add(middle, feedForward(params, layer, norm(`${name}.post_attention_layernorm`, middle)))
  }, embedded)
  return norm('model.norm', hidden)
}

/** A bias that also hides keys at positions `window` or more before the query's. */
const insideWindow = (
  bias: tf.Tensor | undefined,
  positions: { readonly queries: tf.Tensor; readonly keys: tf.Tensor },
  window: number,
): tf.Tensor => {
  const [p, g, t] = positions.queries.shape as [number, number, number] // [P, G, T]
  const [, groups, places] = positions.keys.shape as [number, number, number] // [P, G or 1, C]
  const distance = tf.sub(
    tf.reshape(positions.queries, [p, 1, g, 1, t, 1]),
    tf.reshape(positions.keys, [p, 1, groups, 1, 1, places]),
  )
  const outside = tf.mul(tf.cast(tf.greaterEqual(distance, tf.scalar(window, 'int32')), 'float32'), MASKED)
  return bias === undefined ? outside : tf.minimum(bias, outside)
}

/** The biases of a segment's sources, those before the position itself, for each window that its layers ask for: made once. */
const biasesByWindow = (segment: Segment) => {
  const made = new Map<number | null, readonly (tf.Tensor | undefined)[]>()
  const sources = [
    ...segment.past.map(({ bias, positions }) => ({ bias, positions })),
    ...(segment.beforeBias === undefined ? [] : [{ bias: segment.beforeBias, positions: segment.positions }]),
  ]
  return (window: number | null): readonly (tf.Tensor | undefined)[] => {
    const known = made.get(window)
    if (known !== undefined) return known
    const biases = sources.map(({ bias, positions }) =>
      window === null ? bias : insideWindow(bias, { queries: segment.positions, keys: positions }, window),
    )
    made.set(window, biases)
    return biases
  }
}

/**
 * Hidden states of one segment.
 *
 * Shapes   see `Segment` and `SegmentResult`.
 * Errors   throws where a parameter is missing or shapes do not fit, naming them.
 */
export const forwardSegment = (params: Params, config: DecoderConfig, segment: Segment): SegmentResult => {
  const [p, g, t] = segment.ids.shape as [number, number, number] // [P, G, T] by contract
  if (t > 1 && segment.beforeBias === undefined) throw new Error(`forwardSegment: ${t} positions need a beforeBias`)
  const { heads, keyValueHeads: k, headSize: h } = config
  const layers: LayerCache[] = []
  const biases = biasesByWindow(segment)
  const withBias = (source: AttentionSource, bias: tf.Tensor | undefined): AttentionSource =>
    bias === undefined ? source : { ...source, bias }
  const attend: Attend = ({ layer, window, softCap, scale, ...flat }) => {
    const queries = tf.transpose(tf.reshape(flat.queries, [p, g, t, k, heads / k, h]), [0, 3, 1, 4, 2, 5])
    const keys = tf.transpose(tf.reshape(flat.keys, [p, g, t, k, h]), [0, 3, 1, 2, 4])
    const values = tf.transpose(tf.reshape(flat.values, [p, g, t, k, h]), [0, 3, 1, 2, 4])
    layers.push({ keys, values })
    const before = segment.beforeBias === undefined ? [] : [{ keys, values }]
    const others = [...segment.past.map((past) => past.layers[layer]!), ...before]
    const itself = withBias({ keys, values, reach: 'same' }, segment.selfBias)
    const sources = [...others.map((source, i) => withBias(source, biases(window)[i])), itself]
    const mixed = attention(queries, sources, { scale, softCap })
    return tf.reshape(tf.transpose(mixed, [0, 2, 4, 1, 3, 5]), [p * g * t, heads * h])
  }
  const flat = (x: tf.Tensor): tf.Tensor => tf.reshape(x, [p * g * t])
  const hidden = forwardTokens(params, config, {
    ids: flat(segment.ids),
    positions: flat(segment.positions),
    rotary: segment.rotary,
    attend,
  })
  return { hidden, layers }
}

/** Scores of every token of the vocabulary, `[N, V]`, from hidden states `[N, D]`. */
export const logitsOf = (params: Params, config: DecoderConfig, hidden: tf.Tensor): tf.Tensor => {
  const head = config.tiedEmbeddings ? 'model.embed_tokens.weight' : 'lm_head.weight'
  return tf.matMul(hidden, parameter(params, head), false, true)
}

/**
 * Cosines and sines for positions `0 .. length - 1`, `[length, H / 2]`, in float32 arithmetic as the reference does it, by table name.
 *
 * Effects  makes two tensors that belong to the enclosing scope.
 */
export const rotaryTables = (config: DecoderConfig, length: number): RotaryTables => {
  const half = config.headSize / 2
  const frequencies = Float32Array.from({ length: half }, (_, i) =>
    Math.fround(1 / Math.fround(config.ropeTheta ** Math.fround((2 * i) / config.headSize))),
  )
  const angle = (i: number): number => Math.fround(Math.floor(i / half) * frequencies[i % half]!)
  const table = (f: (x: number) => number): tf.Tensor =>
    tf.tensor2d(
      Float32Array.from({ length: length * half }, (_, i) => f(angle(i))),
      [length, half],
    )
  return { global: { cos: table(Math.cos), sin: table(Math.sin) } }
}
