/** GPT-2 and GPT-Neo: learned positions, layer norms with biases, plain feed-forward layers. */
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { AttentionDescription, DecoderConfig, LayerKind, Norm, Projection } from './description.js'
import {
  commonFields,
  eitherField,
  layerCount,
  no,
  optionalField,
  positiveNumber,
  readFields,
  size,
  type Uninterpreted,
  yes,
} from './fields.js'
import {
  activationOf,
  type ConfigJson,
  type Family,
  gather,
  linearMap,
  type Sizes,
  sizesOf,
  specialTokens,
} from './parts.js'

const GPT_NAMES = {
  embedding: { name: 'transformer.wte', scale: 1 },
  learnedPositions: 'transformer.wpe',
  layerName: 'transformer.h',
} as const

const gptFields = {
  ...commonFields,
  activation_function: eitherField(z.string(), 'gelu_new'),
  layer_norm_epsilon: eitherField(positiveNumber, 1e-5),
  tie_word_embeddings: yes,
}

type GptRaw = z.output<z.ZodObject<typeof gptFields>> & Uninterpreted

/** The differences between the two families. */
interface Variant {
  readonly architecture: 'gpt2' | 'gpt_neo'
  readonly sizes: Sizes
  readonly layers: number
  readonly maxPositions: number
  readonly inputs: readonly Projection[]
  readonly output: Projection
  readonly feedForward: { readonly input: Projection; readonly output: Projection }
  readonly paddingSees: AttentionDescription['paddingSees']
  readonly kinds: E.Either<string, readonly LayerKind[]>
}

const describe = (json: ConfigJson, raw: GptRaw, variant: Variant): E.Either<string, DecoderConfig> => {
  const parts = gather({
    sizes: sizesOf(variant.sizes),
    activation: activationOf('activation_function', raw.activation_function),
    kinds: variant.kinds,
  })
  if (E.isLeft(parts)) return parts
  const { sizes, activation, kinds } = parts.right
  const norm = (name: string): Norm => ({
    name,
    width: sizes.hidden,
    kind: 'layer',
    epsilon: raw.layer_norm_epsilon,
    offset: 0,
  })
  return E.right({
    architecture: variant.architecture,
    vocabularySize: raw.vocab_size,
    hiddenSize: sizes.hidden,
    intermediateSize: sizes.inner,
    layers: variant.layers,
    heads: sizes.heads,
    keyValueHeads: sizes.keyValueHeads,
    headSize: sizes.headSize,
    maxPositions: variant.maxPositions,
    tiedEmbeddings: raw.tie_word_embeddings,
    ...specialTokens(raw, { end: 50_256, pad: null }),
    ...GPT_NAMES,
    attention: {
      before: norm('ln_1'),
      after: null,
      inputs: variant.inputs,
      output: variant.output,
      queryNorm: null,
      keyNorm: null,
      softCap: null,
      paddingSees: variant.paddingSees,
    },
    feedForward: {
      before: norm('ln_2'),
      after: null,
      kind: 'plain',
      inputs: [variant.feedForward.input],
      activation,
      output: variant.feedForward.output,
    },
    layerKinds: kinds,
    rotary: {},
    finalNorm: norm('transformer.ln_f'),
    logitSoftCap: null,
    source: json,
    ignoredFields: raw.ignored,
  })
}

const evenSizes = (hidden: number, heads: number, inner: number | null): Sizes => ({
  hidden,
  inner: inner ?? 4 * hidden,
  heads,
  keyValueHeads: heads,
  headSize: hidden / heads,
})

const gpt2Fields = {
  ...gptFields,
  n_embd: size,
  n_layer: layerCount,
  n_head: size,
  n_positions: eitherField(size, 1024),
  n_inner: optionalField(size),
  scale_attn_weights: yes,
  scale_attn_by_inverse_layer_idx: no,
}

/**
 * Ignored fields. The position of the scale in `reorder_and_upcast_attn` makes no difference in
 * float32.
 */
const GPT2_UNREAD = ['reorder_and_upcast_attn']

export const gpt2: Family = (json) => {
  const read = readFields(gpt2Fields, json, GPT2_UNREAD)
  if (E.isLeft(read)) return read
  const raw = read.right
  const sizes = evenSizes(raw.n_embd, raw.n_head, raw.n_inner)
  const { hidden, inner, headSize } = sizes
  const stored = (name: string, from: number, to: number): Projection => ({
    ...linearMap(name, [from, to], 'added'),
    layout: 'in-out',
  })
  const base = raw.scale_attn_weights ? 1 / Math.sqrt(headSize) : 1
  return describe(json, raw, {
    architecture: 'gpt2',
    sizes,
    layers: raw.n_layer,
    maxPositions: raw.n_positions,
    inputs: [stored('attn.c_attn', hidden, 3 * hidden)],
    output: stored('attn.c_proj', hidden, hidden),
    feedForward: { input: stored('mlp.c_fc', hidden, inner), output: stored('mlp.c_proj', inner, hidden) },
    paddingSees: 'all',
    kinds: E.right(
      Array.from({ length: raw.n_layer }, (_, i) => ({
        window: null,
        rotary: null,
        scale: raw.scale_attn_by_inverse_layer_idx ? base / (i + 1) : base,
      })),
    ),
  })
}

const attentionName = z.enum(['global', 'local'])

const gptNeoFields = {
  ...gptFields,
  hidden_size: size,
  num_layers: layerCount,
  num_heads: size,
  intermediate_size: optionalField(size),
  max_position_embeddings: eitherField(size, 2048),
  window_size: eitherField(size, 256),
  attention_types: optionalField(z.array(z.tuple([z.array(attentionName), z.number().int().nonnegative()]))),
  attention_layers: optionalField(z.array(attentionName)),
}

type GptNeoRaw = z.output<z.ZodObject<typeof gptNeoFields>>

/** Expands the repeated pattern of layers with a window (`local`) and without (`global`). */
const attentionLayers = (raw: GptNeoRaw): E.Either<string, readonly ('global' | 'local')[]> => {
  const pattern = raw.attention_types ?? [[['global', 'local'], 12] as const]
  const count = pattern.reduce((sum, [names, times]) => sum + names.length * times, 0)
  if (count !== raw.num_layers)
    return E.left(`attention_types describes ${count} layers, num_layers is ${raw.num_layers}`)
  const layers = pattern.flatMap(([names, times]) =>
    Array.from({ length: names.length * times }, (_, i) => names[i % names.length]!),
  )
  return raw.attention_layers !== null && raw.attention_layers.join() !== layers.join()
    ? E.left('attention_layers and attention_types contradict each other')
    : E.right(layers)
}

export const gptNeo: Family = (json) => {
  const read = readFields(gptNeoFields, json)
  if (E.isLeft(read)) return read
  const raw = read.right
  const sizes = evenSizes(raw.hidden_size, raw.num_heads, raw.intermediate_size)
  const { hidden, inner } = sizes
  const name = 'attn.attention'
  return describe(json, raw, {
    architecture: 'gpt_neo',
    sizes,
    layers: raw.num_layers,
    maxPositions: raw.max_position_embeddings,
    inputs: ['q_proj', 'k_proj', 'v_proj'].map((part) => linearMap(`${name}.${part}`, [hidden, hidden])),
    output: linearMap(`${name}.out_proj`, [hidden, hidden], 'added'),
    feedForward: {
      input: linearMap('mlp.c_fc', [hidden, inner], 'added'),
      output: linearMap('mlp.c_proj', [inner, hidden], 'added'),
    },
    paddingSees: 'past',
    kinds: E.map((layers: readonly ('global' | 'local')[]) =>
      layers.map(
        (layer): LayerKind => ({ window: layer === 'local' ? raw.window_size : null, rotary: null, scale: 1 }),
      ),
    )(attentionLayers(raw)),
  })
}
