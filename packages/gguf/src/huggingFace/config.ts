/** The `config.json` of a model in GGUF. */
import type { GgufValue } from '../header.js'
import { type Fields, fieldsOf } from './fields.js'
import { GGUF_ARCHITECTURES, type GgufArchitecture, type HeadSizes } from './names.js'

/** The parts of a file that determine a config. */
export interface ConfigSource {
  readonly metadata: ReadonlyMap<string, GgufValue>
  /** Returns the shape of a tensor by its name in the file. */
  readonly shapeOf: (name: string) => readonly number[] | undefined
  /** The numbers of `rope_freqs.weight`, if the file has it. */
  readonly frequencies: Float32Array | undefined
}

/** A config, or everything that is wrong with the metadata. */
export type FoundConfig =
  | {
      readonly architecture: GgufArchitecture
      readonly heads: HeadSizes
      readonly json: Readonly<Record<string, unknown>>
    }
  | { readonly problems: readonly string[] }

type Json = Readonly<Record<string, unknown>>

/** Class in Transformers, and `model_type`. */
const CLASSES: Readonly<Record<GgufArchitecture, readonly [name: string, type: string]>> = {
  llama: ['LlamaForCausalLM', 'llama'],
  qwen2: ['Qwen2ForCausalLM', 'qwen2'],
  qwen3: ['Qwen3ForCausalLM', 'qwen3'],
  gemma2: ['Gemma2ForCausalLM', 'gemma2'],
  gemma3: ['Gemma3ForCausalLM', 'gemma3_text'],
  smollm3: ['SmolLM3ForCausalLM', 'smollm3'],
  olmo2: ['Olmo2ForCausalLM', 'olmo2'],
  gpt2: ['GPT2LMHeadModel', 'gpt2'],
}

/** Fields without effect on the arithmetic. */
const HARMLESS = ['vocab_size', 'rope.scaling.finetuned']

/** The constants of Llama 3's scaling, which files do not hold: all models have the same. */
const LLAMA3 = { low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 8192 } as const

/**
 * Returns the divisors of frequencies in Llama 3's scaling.
 *
 * Source   `_compute_llama3_parameters` of Transformers 5.17.
 */
const llama3Divisors = (theta: number, factor: number, count: number): readonly number[] => {
  const { low_freq_factor: low, high_freq_factor: high, original_max_position_embeddings: length } = LLAMA3
  return Array.from({ length: count }, (_, i) => {
    const turns = length / (2 * Math.PI * theta ** (i / count))
    const share = Math.min(1, Math.max(0, (turns - low) / (high - low)))
    return 1 / ((1 - share) / factor + share)
  })
}

/** Returns Llama 3's scaling if it has these divisors of frequencies. */
const llama3Scaling = (theta: number, divisors: Float32Array): Json | undefined => {
  const factor = Math.max(...divisors.subarray(0, 4096)) // at most half a head
  const expected = llama3Divisors(theta, factor, divisors.length)
  const fits = expected.every((divisor, i) => Math.abs(divisor / divisors[i]! - 1) < 1e-4)
  return fits ? { rope_type: 'llama3', factor, ...LLAMA3 } : undefined
}

interface Scaling {
  readonly scaling: Json | undefined
  readonly problem?: string
}

const scalingOf = (fields: Fields, theta: number, frequencies: Float32Array | undefined): Scaling => {
  const type = fields.optionalText('rope.scaling.type') ?? 'none'
  const factor = fields.optionalNumber('rope.scaling.factor')
  const length = fields.optionalSize('rope.scaling.original_context_length')
  if (frequencies !== undefined) {
    const scaling = llama3Scaling(theta, frequencies)
    return scaling === undefined
      ? { scaling, problem: `rope_freqs.weight has other divisors than Llama 3's scaling, which is not supported` }
      : { scaling }
  }
  if (type === 'none') return { scaling: undefined }
  if (type === 'linear') return { scaling: { rope_type: 'linear', factor } }
  if (type === 'yarn') return { scaling: { rope_type: 'yarn', factor, original_max_position_embeddings: length } }
  return { scaling: undefined, problem: `the scaling of positions '${type}' is not supported` }
}

const tokens = (metadata: ReadonlyMap<string, GgufValue>): Json => {
  const id = (name: string): number | undefined => {
    const value = metadata.get(`tokenizer.ggml.${name}_token_id`)
    return typeof value === 'number' ? value : undefined
  }
  const ends = [id('eos'), id('eot'), id('eom')].filter((end) => end !== undefined)
  return {
    bos_token_id: id('bos') ?? null,
    eos_token_id: ends.length > 1 ? [...new Set(ends)] : (ends[0] ?? null),
    pad_token_id: id('padding') ?? null,
  }
}

/** The fields that only Gemma has. Its largest models scale queries by other numbers than heads. */
const gemmaFields = (
  fields: Fields,
  generation: 'gemma2' | 'gemma3',
  { hidden, heads, layers, headSize }: Record<'hidden' | 'heads' | 'layers' | 'headSize', number>,
): Json => {
  const is27B = layers === (generation === 'gemma2' ? 46 : 62)
  const shared = {
    query_pre_attn_scalar: is27B ? hidden / heads : headSize,
    sliding_window: fields.optionalSize('attention.sliding_window') ?? null,
    final_logit_softcapping: fields.optionalNumber('final_logit_softcapping') ?? null,
  }
  if (generation === 'gemma2') {
    return { ...shared, attn_logit_softcapping: fields.optionalNumber('attn_logit_softcapping') ?? null }
  }
  return {
    ...shared,
    rope_local_base_freq: fields.optionalNumber('rope.freq_base_swa') ?? 10_000,
    sliding_window_pattern: fields.optionalSize('attention.sliding_window_pattern') ?? 6,
  }
}

const gpt2Config = (fields: Fields, heads: number): Json => ({
  n_embd: fields.size('embedding_length'),
  n_layer: fields.size('block_count'),
  n_head: heads,
  n_positions: fields.size('context_length'),
  n_inner: fields.size('feed_forward_length'),
  layer_norm_epsilon: fields.optionalNumber('attention.layer_norm_epsilon') ?? 1e-5,
})

const layeredConfig = (
  architecture: Exclude<GgufArchitecture, 'gpt2'>,
  fields: Fields,
  sizes: HeadSizes,
  source: ConfigSource,
): { readonly json: Json; readonly problems: readonly string[] } => {
  const hidden = fields.size('embedding_length')
  const layers = fields.size('block_count')
  const headSize = fields.optionalSize('attention.key_length') ?? hidden / sizes.heads
  const theta = fields.optionalNumber('rope.freq_base') ?? 10_000
  const { scaling, problem } = scalingOf(fields, theta, source.frequencies)
  const values = fields.optionalSize('attention.value_length') ?? headSize
  const turned = fields.optionalSize('rope.dimension_count') ?? headSize
  const has = (name: string): boolean => source.shapeOf(name) !== undefined
  const isGemma = architecture === 'gemma2' || architecture === 'gemma3'
  return {
    json: {
      hidden_size: hidden,
      num_hidden_layers: layers,
      intermediate_size: fields.size('feed_forward_length'),
      num_attention_heads: sizes.heads,
      num_key_value_heads: sizes.keyValueHeads,
      head_dim: headSize,
      max_position_embeddings: fields.size('context_length'),
      rms_norm_eps: fields.optionalNumber('attention.layer_norm_rms_epsilon') ?? 1e-6,
      rope_theta: theta,
      ...(scaling !== undefined && { rope_scaling: scaling }),
      ...(isGemma && gemmaFields(fields, architecture, { hidden, heads: sizes.heads, layers, headSize })),
      ...(architecture !== 'qwen2' && has('blk.0.attn_q.bias') && { attention_bias: true }), // Qwen 2 always has them
      ...(has('blk.0.ffn_gate.bias') && { mlp_bias: true }),
    },
    problems: [
      ...(problem === undefined ? [] : [problem]),
      ...(values === headSize ? [] : [`values of ${values} features beside keys of ${headSize} are not supported`]),
      ...(turned === headSize ? [] : [`positions in ${turned} of ${headSize} features are not supported`]),
    ],
  }
}

const isArchitecture = (name: unknown): name is GgufArchitecture =>
  typeof name === 'string' && (GGUF_ARCHITECTURES as readonly string[]).includes(name) // a list of texts

/**
 * Returns the `config.json` of a file's metadata.
 *
 * Sources  `convert_hf_to_gguf.py` of llama.cpp, which writes the metadata, and the constants of
 *          `llama-model.cpp`, which has what the metadata lacks: Gemma's factor of queries, and the
 *          layers of SmolLM3 without positions (every fourth, also Transformers' default).
 */
export const configOf = (source: ConfigSource): FoundConfig => {
  const architecture = source.metadata.get('general.architecture')
  if (!isArchitecture(architecture)) {
    return {
      problems: [
        `the architecture '${String(architecture)}' is not supported (supported: ${GGUF_ARCHITECTURES.join(', ')})`,
      ],
    }
  }
  const embedding = source.shapeOf('token_embd.weight')
  if (embedding === undefined) return { problems: ['token_embd.weight is missing'] }
  const fields = fieldsOf(source.metadata, `${architecture}.`)
  const heads = fields.size('attention.head_count')
  const sizes = { heads, keyValueHeads: fields.optionalSize('attention.head_count_kv') ?? heads }
  const { json, problems } =
    architecture === 'gpt2'
      ? { json: gpt2Config(fields, heads), problems: [] }
      : layeredConfig(architecture, fields, sizes, source)
  const all = [...fields.problems(HARMLESS), ...problems]
  if (all.length > 0) return { problems: all }
  const [name, type] = CLASSES[architecture]
  return {
    architecture,
    heads: sizes,
    json: {
      architectures: [name],
      model_type: type,
      vocab_size: embedding[0],
      ...json,
      tie_word_embeddings: source.shapeOf('output.weight') === undefined,
      ...tokens(source.metadata),
    },
  }
}
