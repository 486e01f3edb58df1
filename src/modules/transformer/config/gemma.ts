/** Gemma 2 and the text part of Gemma 3. */
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { DecoderConfig, RotaryDescription } from './description.js'
import {
  biasField,
  eitherField,
  layerCount,
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
  llamaFields,
  llamaSizes,
  MODEL_NAMES,
  rmsNorms,
  separateProjections,
  specialTokens,
} from './parts.js'
import { ropeParameters, rotaryOf } from './rope.js'

const gemmaFields = {
  ...llamaFields,
  num_key_value_heads: switchable(size, 4),
  head_dim: switchable(size, 256),
  hidden_activation: eitherField(z.string(), 'gelu_pytorch_tanh'),
  tie_word_embeddings: yes,
  attention_bias: biasField,
  query_pre_attn_scalar: eitherField(positiveNumber, 256),
  sliding_window: switchable(size, 4096),
  layer_types: optionalField(z.array(z.string())),
  use_bidirectional_attention: eitherField(z.literal(false), false),
}

type GemmaRaw = z.output<z.ZodObject<typeof gemmaFields>> & Uninterpreted

/** The differences between the two generations. */
interface Generation {
  readonly architecture: 'gemma2' | 'gemma3_text'
  /** Returns true for layers with a window. `layer_types` takes precedence. */
  readonly sliding: (layer: number) => boolean
  readonly queryKeyNorms: 'none' | 'each head'
  readonly attentionSoftCap: number | null
  readonly logitSoftCap: number | null
  readonly rotary: E.Either<string, Readonly<Record<string, RotaryDescription>>>
  /** The rotary table of layers with a window. */
  readonly slidingTable: 'global' | 'local'
}

const describe = (json: ConfigJson, raw: GemmaRaw, generation: Generation): E.Either<string, DecoderConfig> => {
  const planned = Array.from({ length: raw.num_hidden_layers }, (_, i) => generation.sliding(i))
  const parts = gather({
    sizes: llamaSizes(raw),
    activation: activationOf('hidden_activation', raw.hidden_activation),
    windows: attentionWindowsOf(raw.layer_types, planned, raw.sliding_window),
    rotary: generation.rotary,
  })
  if (E.isLeft(parts)) return parts
  const { sizes, activation, windows, rotary } = parts.right
  const { hidden, headSize } = sizes
  const norm = rmsNorms(raw.rms_norm_eps, 1)
  const each = generation.queryKeyNorms === 'each head'
  const bias = { inputs: raw.attention_bias, output: raw.attention_bias }
  return E.right({
    architecture: generation.architecture,
    vocabularySize: raw.vocab_size,
    hiddenSize: hidden,
    intermediateSize: raw.intermediate_size,
    layers: raw.num_hidden_layers,
    heads: sizes.heads,
    keyValueHeads: sizes.keyValueHeads,
    headSize,
    maxPositions: raw.max_position_embeddings,
    tiedEmbeddings: raw.tie_word_embeddings,
    ...specialTokens(raw, { end: 1, pad: 0 }),
    ...MODEL_NAMES,
    embedding: { name: MODEL_NAMES.embedding.name, scale: Math.fround(Math.sqrt(hidden)) },
    attention: {
      before: norm('input_layernorm', hidden),
      after: norm('post_attention_layernorm', hidden),
      ...separateProjections(sizes, bias),
      queryNorm: each ? norm('self_attn.q_norm', headSize) : null,
      keyNorm: each ? norm('self_attn.k_norm', headSize) : null,
      softCap: generation.attentionSoftCap,
      paddingSees: 'all',
    },
    feedForward: {
      before: norm('pre_feedforward_layernorm', hidden),
      after: norm('post_feedforward_layernorm', hidden),
      ...gatedProjections(sizes),
      activation,
    },
    layerKinds: globalKinds(windows, raw.query_pre_attn_scalar ** -0.5).map((kind) =>
      kind.window === null ? kind : { ...kind, rotary: generation.slidingTable },
    ),
    rotary,
    finalNorm: norm('model.norm', hidden),
    logitSoftCap: generation.logitSoftCap,
    source: json,
    ignoredFields: raw.ignored,
  })
}

const contextOf = (raw: GemmaRaw, defaultTheta: number) => ({
  headSize: raw.head_dim ?? raw.hidden_size / raw.num_attention_heads,
  maxPositions: raw.max_position_embeddings,
  defaultTheta,
  originalMaxPositions: raw.original_max_position_embeddings,
  partial: { factor: 1, allowed: 'whole' } as const,
})

/** Ignored fields. `hidden_act` occurs in older files; Transformers reads `hidden_activation`. */
const UNREAD = ['hidden_act']

export const gemma2: Family = (json) => {
  const fields = {
    ...gemmaFields,
    max_position_embeddings: eitherField(size, 8192),
    final_logit_softcapping: switchable(positiveNumber, 30),
    attn_logit_softcapping: switchable(positiveNumber, 50),
  }
  const read = readFields(fields, json, UNREAD)
  if (E.isLeft(read)) return read
  const raw = read.right
  const table = rotaryOf(ropeParameters(raw), contextOf(raw, 10_000))
  return describe(json, raw, {
    architecture: 'gemma2',
    sliding: (layer) => layer % 2 === 0,
    queryKeyNorms: 'none',
    attentionSoftCap: raw.attn_logit_softcapping,
    logitSoftCap: raw.final_logit_softcapping,
    rotary: E.map((global: RotaryDescription) => ({ global }))(table),
    slidingTable: 'global',
  })
}

const gemma3Fields = {
  ...gemmaFields,
  max_position_embeddings: eitherField(size, 131_072),
  final_logit_softcapping: optionalField(positiveNumber),
  rope_local_base_freq: optionalField(positiveNumber),
  rope_parameters: optionalField(
    z.strictObject({
      full_attention: optionalField(z.record(z.string(), z.unknown())),
      sliding_attention: optionalField(z.record(z.string(), z.unknown())),
    }),
  ),
  sliding_window_pattern: eitherField(layerCount, 6),
}

export const gemma3: Family = (json) => {
  const read = readFields(gemma3Fields, json, [...UNREAD, '_sliding_window_pattern'])
  if (E.isLeft(read)) return read
  const raw = read.right
  const { full_attention: full, sliding_attention: sliding } = raw.rope_parameters ?? {}
  const rotary = gather({
    global: rotaryOf({ rope_theta: raw.rope_theta, ...full, ...raw.rope_scaling }, contextOf(raw, 1_000_000)),
    local: rotaryOf({ rope_theta: raw.rope_local_base_freq, ...sliding }, contextOf(raw, 10_000)),
  })
  return describe(
    json,
    { ...raw, rope_parameters: null },
    {
      architecture: 'gemma3_text',
      sliding: (layer) => (layer + 1) % raw.sliding_window_pattern !== 0,
      queryKeyNorms: 'each head',
      attentionSoftCap: null,
      logitSoftCap: raw.final_logit_softcapping,
      rotary,
      slidingTable: 'local',
    },
  )
}
