/** Llama and the families that vary it: Mistral, Qwen2, Qwen3, Phi-3, OLMo 2, SmolLM3. */
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type {
  Architecture,
  AttentionDescription,
  DecoderConfig,
  FeedForwardDescription,
  LayerKind,
  Projection,
} from './description.js'
import {
  biasField,
  eitherField,
  layerCount,
  no,
  optionalField,
  positiveNumber,
  readFields,
  size,
  switchable,
  type Uninterpreted,
  yes,
} from './fields.js'
import {
  activationOf,
  attentionWindowsOf,
  type ConfigJson,
  type Family,
  gatedProjections,
  gather,
  globalKinds,
  type LlamaRaw,
  linearMap,
  llamaFields,
  llamaSizes,
  MODEL_NAMES,
  preNorms,
  rmsNorms,
  type Sizes,
  separateProjections,
  specialTokens,
} from './parts.js'
import { type RopeContext, ropeParameters, rotaryOf } from './rope.js'

/** The properties of a family that differ from Llama's. */
interface Variant {
  readonly architecture: Architecture
  readonly tokens: { readonly end: number | null; readonly pad: number | null }
  readonly defaultTheta?: number
  readonly partial?: RopeContext['partial']
  readonly windows: E.Either<string, readonly (number | null)[]>
  /** True for layers that encode positions. Default: all. */
  readonly encodes?: readonly boolean[]
  readonly attention: (sizes: Sizes) => Omit<AttentionDescription, 'softCap' | 'paddingSees'>
  readonly feedForward: (sizes: Sizes) => Omit<FeedForwardDescription, 'activation'>
}

const WHOLE: RopeContext['partial'] = { factor: 1, allowed: 'whole' }

const kindsOf = (
  windows: readonly (number | null)[],
  encodes: readonly boolean[] | undefined,
  scale: number,
): readonly LayerKind[] =>
  globalKinds(windows, scale).map((kind, i) => (encodes?.[i] === false ? { ...kind, rotary: null } : kind))

const describe = (json: ConfigJson, raw: LlamaRaw, variant: Variant): E.Either<string, DecoderConfig> => {
  const sizes = llamaSizes(raw)
  if (E.isLeft(sizes)) return sizes
  const { hidden, headSize } = sizes.right
  const parts = gather({
    activation: activationOf('hidden_act', raw.hidden_act),
    windows: variant.windows,
    rotary: rotaryOf(ropeParameters(raw), {
      headSize,
      maxPositions: raw.max_position_embeddings,
      defaultTheta: variant.defaultTheta ?? 10_000,
      originalMaxPositions: raw.original_max_position_embeddings,
      partial: variant.partial ?? WHOLE,
    }),
  })
  if (E.isLeft(parts)) return parts
  const { activation, windows, rotary } = parts.right
  return E.right({
    architecture: variant.architecture,
    vocabularySize: raw.vocab_size,
    hiddenSize: hidden,
    intermediateSize: raw.intermediate_size,
    layers: raw.num_hidden_layers,
    heads: sizes.right.heads,
    keyValueHeads: sizes.right.keyValueHeads,
    headSize,
    // longrope uses other angles beyond the trained length, so a sequence that grows past it must
    // be computed again
    maxPositions: rotary.scaling.type === 'longrope' ? rotary.scaling.trainedLength : raw.max_position_embeddings,
    tiedEmbeddings: raw.tie_word_embeddings,
    ...specialTokens(raw, variant.tokens),
    ...MODEL_NAMES,
    attention: { ...variant.attention(sizes.right), softCap: null, paddingSees: 'all' },
    feedForward: { ...variant.feedForward(sizes.right), activation },
    layerKinds: kindsOf(windows, variant.encodes, 1 / Math.sqrt(headSize)),
    rotary: { global: rotary },
    finalNorm: rmsNorms(raw.rms_norm_eps)('model.norm', hidden),
    logitSoftCap: null,
    source: json,
    ignoredFields: raw.ignored,
  })
}

/** Returns false for every layer, as the default without windows. */
const none = (raw: LlamaRaw): readonly boolean[] => new Array<boolean>(raw.num_hidden_layers).fill(false)

const all = (raw: LlamaRaw, window: number | null): readonly boolean[] => none(raw).map(() => window !== null)

/** Makes Llama's layer with the biases of a family. */
const llamaLayer = (
  raw: LlamaRaw,
  bias: {
    readonly inputs: Projection['bias']
    readonly output: Projection['bias']
    readonly feedForward: Projection['bias']
  },
): Pick<Variant, 'attention' | 'feedForward'> => {
  const norms = preNorms(rmsNorms(raw.rms_norm_eps), raw.hidden_size)
  return {
    attention: (sizes) => ({ ...norms.attention, ...separateProjections(sizes, bias), queryNorm: null, keyNorm: null }),
    feedForward: (sizes) => ({ ...norms.feedForward, ...gatedProjections(sizes, bias.feedForward) }),
  }
}

const everywhere = (bias: Projection['bias'], feedForward: Projection['bias'] = 'none') => ({
  inputs: bias,
  output: bias,
  feedForward,
})

export const llama: Family = (json) => {
  const read = readFields({ ...llamaFields, attention_bias: biasField, mlp_bias: biasField }, json)
  if (E.isLeft(read)) return read
  const raw = read.right
  return describe(json, raw, {
    architecture: 'llama',
    tokens: { end: 2, pad: null },
    windows: attentionWindowsOf(null, none(raw), null),
    ...llamaLayer(raw, everywhere(raw.attention_bias, raw.mlp_bias)),
  })
}

export const mistral: Family = (json) => {
  const fields = {
    ...llamaFields,
    num_key_value_heads: switchable(size, 8),
    max_position_embeddings: eitherField(size, 131_072),
    sliding_window: switchable(size, 4096),
  }
  const read = readFields(fields, json)
  if (E.isLeft(read)) return read
  const raw = read.right
  return describe(json, raw, {
    architecture: 'mistral',
    tokens: { end: 2, pad: null },
    windows: attentionWindowsOf(null, all(raw, raw.sliding_window), raw.sliding_window),
    ...llamaLayer(raw, everywhere('none')),
  })
}

const qwenFields = {
  ...llamaFields,
  num_key_value_heads: switchable(size, 32),
  max_position_embeddings: eitherField(size, 32_768),
  use_sliding_window: no,
  sliding_window: switchable(size, 4096),
  max_window_layers: eitherField(z.number().int().nonnegative(), 28),
  layer_types: optionalField(z.array(z.string())),
}

type QwenRaw = z.output<z.ZodObject<typeof qwenFields>> & Uninterpreted

const qwenWindows = (raw: QwenRaw): Variant['windows'] => {
  const window = raw.use_sliding_window ? raw.sliding_window : null
  const planned = none(raw).map((_, i) => window !== null && i >= raw.max_window_layers)
  return attentionWindowsOf(raw.layer_types, planned, window)
}

export const qwen2: Family = (json) => {
  const read = readFields(qwenFields, json)
  if (E.isLeft(read)) return read
  const raw = read.right
  return describe(json, raw, {
    architecture: 'qwen2',
    tokens: { end: null, pad: null },
    windows: qwenWindows(raw),
    ...llamaLayer(raw, { inputs: 'added', output: 'none', feedForward: 'none' }),
  })
}

export const qwen3: Family = (json) => {
  const read = readFields({ ...qwenFields, head_dim: switchable(size, 128), attention_bias: biasField }, json)
  if (E.isLeft(read)) return read
  const raw = read.right
  const layer = llamaLayer(raw, everywhere(raw.attention_bias))
  const norm = rmsNorms(raw.rms_norm_eps)
  return describe(json, raw, {
    architecture: 'qwen3',
    tokens: { end: null, pad: null },
    windows: qwenWindows(raw),
    ...layer,
    attention: (sizes) => ({
      ...layer.attention(sizes),
      queryNorm: norm('self_attn.q_norm', sizes.headSize),
      keyNorm: norm('self_attn.k_norm', sizes.headSize),
    }),
  })
}

/** Renames the scaling type `su` or `yarn` of older files to `longrope`. */
const renamed = (parameters: ConfigJson | null): ConfigJson | null => {
  const type = parameters?.rope_type ?? parameters?.type
  return type === 'su' || type === 'yarn' ? { ...parameters, rope_type: 'longrope' } : parameters
}

const phi3Fields = {
  ...llamaFields,
  rms_norm_eps: eitherField(positiveNumber, 1e-5),
  max_position_embeddings: eitherField(size, 4096),
  original_max_position_embeddings: eitherField(size, 4096),
  partial_rotary_factor: eitherField(positiveNumber, 1),
  sliding_window: optionalField(size),
  attention_bias: eitherField(z.literal(false), false),
  mlp_bias: eitherField(z.literal(false), false),
}

export const phi3: Family = (json) => {
  const read = readFields(phi3Fields, json)
  if (E.isLeft(read)) return read
  const raw = {
    ...read.right,
    rope_scaling: renamed(read.right.rope_scaling),
    rope_parameters: renamed(read.right.rope_parameters),
  }
  const type = ropeParameters(raw).rope_type ?? ropeParameters(raw).type ?? 'default'
  if (type !== 'default' && type !== 'longrope') {
    return E.left(`not supported: rope type ${JSON.stringify(type)} (phi3 supports default, longrope)`)
  }
  const norms = preNorms(rmsNorms(raw.rms_norm_eps), raw.hidden_size)
  return describe(json, raw, {
    architecture: 'phi3',
    tokens: { end: 32_000, pad: 32_000 },
    windows: attentionWindowsOf(null, all(raw, raw.sliding_window), raw.sliding_window),
    partial: { factor: raw.partial_rotary_factor, allowed: 'any' },
    attention: ({ hidden, heads, keyValueHeads, headSize }) => ({
      ...norms.attention,
      inputs: [linearMap('self_attn.qkv_proj', [hidden, (heads + 2 * keyValueHeads) * headSize])],
      output: linearMap('self_attn.o_proj', [heads * headSize, hidden]),
      queryNorm: null,
      keyNorm: null,
    }),
    feedForward: ({ hidden, inner }) => ({
      ...norms.feedForward,
      kind: 'gated',
      inputs: [linearMap('mlp.gate_up_proj', [hidden, 2 * inner])],
      output: linearMap('mlp.down_proj', [inner, hidden]),
    }),
  })
}

export const olmo2: Family = (json) => {
  const read = readFields(
    { ...llamaFields, rms_norm_eps: eitherField(positiveNumber, 1e-5), attention_bias: biasField },
    json,
  )
  if (E.isLeft(read)) return read
  const raw = read.right
  const norm = rmsNorms(raw.rms_norm_eps)
  return describe(json, raw, {
    architecture: 'olmo2',
    tokens: { end: 50_279, pad: 1 },
    windows: attentionWindowsOf(null, none(raw), null),
    attention: (sizes) => ({
      before: null,
      after: norm('post_attention_layernorm', sizes.hidden),
      ...separateProjections(sizes, everywhere(raw.attention_bias)),
      queryNorm: norm('self_attn.q_norm', sizes.heads * sizes.headSize),
      keyNorm: norm('self_attn.k_norm', sizes.keyValueHeads * sizes.headSize),
    }),
    feedForward: (sizes) => ({
      before: null,
      after: norm('post_feedforward_layernorm', sizes.hidden),
      ...gatedProjections(sizes),
    }),
  })
}

const smollm3Fields = {
  ...llamaFields,
  num_key_value_heads: switchable(size, 4),
  max_position_embeddings: eitherField(size, 32_768),
  tie_word_embeddings: yes,
  use_sliding_window: no,
  sliding_window: optionalField(size),
  no_rope_layers: optionalField(z.array(z.union([z.literal(0), z.literal(1)]))),
  no_rope_layer_interval: eitherField(layerCount, 4),
  layer_types: optionalField(z.array(z.string())),
  attention_bias: biasField,
  mlp_bias: biasField,
}

export const smollm3: Family = (json) => {
  const read = readFields(smollm3Fields, json, ['max_window_layers'])
  if (E.isLeft(read)) return read
  const raw = read.right
  const encodes =
    raw.no_rope_layers?.map((turned) => turned === 1) ??
    none(raw).map((_, i) => (i + 1) % raw.no_rope_layer_interval !== 0)
  if (encodes.length !== raw.num_hidden_layers) {
    return E.left(`no_rope_layers has ${encodes.length} entries for ${raw.num_hidden_layers} layers`)
  }
  const window = raw.use_sliding_window ? raw.sliding_window : null
  return describe(json, raw, {
    architecture: 'smollm3',
    tokens: { end: 128_001, pad: 128_004 },
    defaultTheta: 2_000_000,
    windows: attentionWindowsOf(
      raw.layer_types,
      encodes.map((turned) => window !== null && !turned),
      window,
    ),
    encodes,
    ...llamaLayer(raw, everywhere(raw.attention_bias, raw.mlp_bias)),
  })
}
