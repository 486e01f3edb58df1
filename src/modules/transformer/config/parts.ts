/** The parts that descriptions of several families share. */
import type { Activation } from '@tandem-rl/tfjs-onnxruntime'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type {
  AttentionDescription,
  DecoderConfig,
  FeedForwardDescription,
  LayerKind,
  Norm,
  Projection,
} from './description.js'
import {
  commonFields,
  eitherField,
  layerCount,
  no,
  optionalField,
  positiveNumber,
  size,
  type Uninterpreted,
} from './fields.js'
import { ropeFields } from './rope.js'

/** A parsed JSON object. */
export type ConfigJson = Readonly<Record<string, unknown>>

/**
 * Converts a `config.json` to a description, or returns a message that names the invalid or
 * unsupported part.
 */
export type Family = (json: ConfigJson) => E.Either<string, DecoderConfig>

type Parts = Readonly<Record<string, E.Either<string, unknown>>>

/** Returns all parts, or all of their problems. */
export const gather = <P extends Parts>(
  parts: P,
): E.Either<string, { readonly [K in keyof P]: P[K] extends E.Either<string, infer A> ? A : never }> => {
  const problems = Object.values(parts).flatMap((part) => (E.isLeft(part) ? [part.left] : []))
  if (problems.length > 0) return E.left(problems.join('; '))
  const values = Object.entries(parts).map(([name, part]) => [name, E.isRight(part) ? part.right : undefined])
  return E.right(Object.fromEntries(values) as never) // the types of the parts, all of them Right
}

/** The fields of families with Llama's layout. */
export const llamaFields = {
  ...commonFields,
  ...ropeFields,
  hidden_size: size,
  intermediate_size: size,
  num_hidden_layers: layerCount,
  num_attention_heads: size,
  num_key_value_heads: optionalField(size),
  head_dim: optionalField(size),
  hidden_act: eitherField(z.string(), 'silu'),
  max_position_embeddings: eitherField(size, 2048),
  rms_norm_eps: eitherField(positiveNumber, 1e-6),
  tie_word_embeddings: no,
}

export type LlamaRaw = z.output<z.ZodObject<typeof llamaFields>> & Uninterpreted

/**
 * Returns the special tokens of a file, or the family's if the file has no such field and the
 * vocabulary contains them.
 */
export const specialTokens = (
  raw: Pick<LlamaRaw, 'eos_token_id' | 'pad_token_id' | 'vocab_size'>,
  family: { readonly end: number | null; readonly pad: number | null },
): Pick<DecoderConfig, 'endTokens' | 'padToken'> => {
  const known = (id: number | null): number | null => (id !== null && id < raw.vocab_size ? id : null)
  const end = raw.eos_token_id === undefined ? known(family.end) : raw.eos_token_id
  return {
    endTokens: end === null ? [] : typeof end === 'number' ? [end] : end,
    padToken: raw.pad_token_id === undefined ? known(family.pad) : raw.pad_token_id,
  }
}

/** The sizes of attention and feed-forward layers. */
export interface Sizes {
  readonly hidden: number
  readonly inner: number
  readonly heads: number
  readonly keyValueHeads: number
  readonly headSize: number
}

/** Checks that sizes match each other. */
export const sizesOf = (given: Sizes): E.Either<string, Sizes> => {
  const { hidden, heads, keyValueHeads, headSize } = given
  if (heads % keyValueHeads !== 0) {
    return E.left(`num_attention_heads ${heads} is not a multiple of num_key_value_heads ${keyValueHeads}`)
  }
  return Number.isInteger(headSize)
    ? E.right(given)
    : E.left(`head size ${headSize} is not an integer (hidden size ${hidden} / ${heads} heads)`)
}

export const llamaSizes = (raw: LlamaRaw): E.Either<string, Sizes> =>
  sizesOf({
    hidden: raw.hidden_size,
    inner: raw.intermediate_size,
    heads: raw.num_attention_heads,
    keyValueHeads: raw.num_key_value_heads ?? raw.num_attention_heads,
    headSize: raw.head_dim ?? raw.hidden_size / raw.num_attention_heads,
  })

const ACTIVATIONS: Readonly<Record<string, Activation>> = {
  silu: 'silu',
  swish: 'silu',
  gelu: 'gelu',
  gelu_new: 'geluTanh',
  gelu_fast: 'geluTanh',
  gelu_pytorch_tanh: 'geluTanh',
}

/**
 * Returns an activation by its name in Transformers. `field` is the field with the name, for
 * messages.
 */
export const activationOf = (field: string, name: string): E.Either<string, Activation> =>
  Object.hasOwn(ACTIVATIONS, name)
    ? E.right(ACTIVATIONS[name]!)
    : E.left(`not supported: ${field} '${name}' (supported: ${Object.keys(ACTIVATIONS).join(', ')})`)

/** Makes a linear map with the layout of PyTorch's Linear. */
export const linearMap = (
  name: string,
  [inputs, outputs]: readonly [number, number],
  bias: Projection['bias'] = 'none',
): Projection => ({ name, inputs, outputs, bias, layout: 'out-in' })

/** Makes root-mean-square norms with a common epsilon. `offset` is 1 for Gemma. */
export const rmsNorms =
  (epsilon: number, offset: 0 | 1 = 0) =>
  (name: string, width: number): Norm => ({ name, width, kind: 'rms', epsilon, offset })

/** Makes `q_proj`, `k_proj`, `v_proj` and `o_proj`. */
export const separateProjections = (
  sizes: Sizes,
  bias: { readonly inputs: Projection['bias']; readonly output: Projection['bias'] },
): Pick<AttentionDescription, 'inputs' | 'output'> => {
  const [queries, keys] = [sizes.heads * sizes.headSize, sizes.keyValueHeads * sizes.headSize]
  return {
    inputs: [
      linearMap('self_attn.q_proj', [sizes.hidden, queries], bias.inputs),
      linearMap('self_attn.k_proj', [sizes.hidden, keys], bias.inputs),
      linearMap('self_attn.v_proj', [sizes.hidden, keys], bias.inputs),
    ],
    output: linearMap('self_attn.o_proj', [queries, sizes.hidden], bias.output),
  }
}

/** Makes `gate_proj`, `up_proj` and `down_proj`. */
export const gatedProjections = (
  { hidden, inner }: Sizes,
  bias: Projection['bias'] = 'none',
): Pick<FeedForwardDescription, 'kind' | 'inputs' | 'output'> => ({
  kind: 'gated',
  inputs: [linearMap('mlp.gate_proj', [hidden, inner], bias), linearMap('mlp.up_proj', [hidden, inner], bias)],
  output: linearMap('mlp.down_proj', [inner, hidden], bias),
})

/** Makes the norms before both halves of a layer, with Llama's names. */
export const preNorms = (
  norm: (name: string, width: number) => Norm,
  hidden: number,
): {
  readonly attention: Pick<AttentionDescription, 'before' | 'after'>
  readonly feedForward: Pick<FeedForwardDescription, 'before' | 'after'>
} => ({
  attention: { before: norm('input_layernorm', hidden), after: null },
  feedForward: { before: norm('post_attention_layernorm', hidden), after: null },
})

/** Returns the window of each layer, from `layer_types` if present, otherwise from `planned`. */
export const attentionWindowsOf = (
  given: readonly string[] | null,
  planned: readonly boolean[],
  window: number | null,
): E.Either<string, readonly (number | null)[]> => {
  const types = given ?? planned.map((sliding) => (sliding ? 'sliding_attention' : 'full_attention'))
  if (types.length !== planned.length) {
    return E.left(`layer_types has ${types.length} entries for ${planned.length} layers`)
  }
  const strange = types.find((type) => type !== 'sliding_attention' && type !== 'full_attention')
  if (strange !== undefined) return E.left(`not supported: layer type '${strange}'`)
  if (window === null && types.includes('sliding_attention')) {
    return E.left('layer_types has sliding_attention, but no sliding_window is in use')
  }
  return E.right(types.map((type) => (type === 'sliding_attention' ? window : null)))
}

/** Makes layers that use the table `global` and differ only in their window. */
export const globalKinds = (windows: readonly (number | null)[], scale: number): readonly LayerKind[] =>
  windows.map((window) => ({ window, rotary: 'global', scale }))

export const MODEL_NAMES = {
  embedding: { name: 'model.embed_tokens', scale: 1 },
  learnedPositions: null,
  layerName: 'model.layers',
} as const
