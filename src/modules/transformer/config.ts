/** What a decoder-only transformer is made of, read from a Hugging Face `config.json`. */
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { ConfigFailure } from '../../core/failure.js'

/** Architectures whose arithmetic this project reproduces. */
export type Architecture = 'llama' | 'qwen2'

/** The numbers that define the arithmetic. Sizes are counts of features, heads or tokens. */
export interface DecoderConfig {
  readonly architecture: Architecture
  readonly vocabularySize: number
  readonly hiddenSize: number
  readonly intermediateSize: number
  readonly layers: number
  readonly heads: number
  readonly keyValueHeads: number
  readonly headSize: number
  readonly ropeTheta: number
  readonly normEpsilon: number
  readonly maxPositions: number
  /** Biases on the query, key and value projections. */
  readonly projectionBias: boolean
  /** The output projection is the embedding matrix. */
  readonly tiedEmbeddings: boolean
  readonly endTokens: readonly number[]
  readonly padToken: number | null
}

const positive = z.number().int().positive()
const tokenId = z.number().int().nonnegative()

const rope = z
  .looseObject({
    rope_type: z.string().optional(),
    type: z.string().optional(),
    rope_theta: z.number().positive().optional(),
  })
  .nullish()

/** The fields of `config.json` that are read. Others do not change the arithmetic of these architectures. */
const configSchema = z.looseObject({
  model_type: z.string(),
  vocab_size: positive,
  hidden_size: positive,
  intermediate_size: positive,
  num_hidden_layers: positive,
  num_attention_heads: positive,
  num_key_value_heads: positive.optional(),
  head_dim: positive.nullish(),
  hidden_act: z.string().default('silu'),
  rms_norm_eps: z.number().positive().default(1e-6),
  max_position_embeddings: positive.default(2048),
  rope_theta: z.number().positive().optional(),
  rope_parameters: rope,
  rope_scaling: rope,
  tie_word_embeddings: z.boolean().default(false),
  attention_bias: z.boolean().default(false),
  mlp_bias: z.boolean().default(false),
  use_sliding_window: z.boolean().default(false),
  eos_token_id: z.union([tokenId, z.array(tokenId)]).nullish(),
  pad_token_id: tokenId.nullish(),
})

type RawConfig = z.infer<typeof configSchema>

const isArchitecture = (name: string): name is Architecture => name === 'llama' || name === 'qwen2'

/** What of a config this project does not compute; undefined if it computes all of it. */
const unsupported = (raw: RawConfig): string | undefined => {
  const ropeType =
    raw.rope_scaling?.rope_type ??
    raw.rope_scaling?.type ??
    raw.rope_parameters?.rope_type ??
    raw.rope_parameters?.type ??
    'default'
  if (!isArchitecture(raw.model_type)) return `model_type '${raw.model_type}' (supported: llama, qwen2)`
  if (raw.hidden_act !== 'silu') return `hidden_act '${raw.hidden_act}' (supported: silu)`
  if (ropeType !== 'default') return `rope type '${ropeType}' (supported: default)`
  if (raw.use_sliding_window) return 'use_sliding_window true'
  if (raw.mlp_bias) return 'mlp_bias true'
  if (raw.model_type === 'llama' && raw.attention_bias) return 'attention_bias true'
  return undefined
}

const inconsistent = (config: DecoderConfig): string | undefined => {
  if (config.heads % config.keyValueHeads !== 0) {
    return `num_attention_heads ${config.heads} is not a multiple of num_key_value_heads ${config.keyValueHeads}`
  }
  if (!Number.isInteger(config.headSize) || config.headSize % 2 !== 0) {
    return `head size ${config.headSize} is not an even integer (hidden_size / num_attention_heads, or head_dim)`
  }
  return undefined
}

/**
 * Reads a parsed `config.json`.
 *
 * Errors   `Left(ConfigFailure)` for a missing or ill-typed field (named), an architecture or a setting whose arithmetic is
 *          not supported (named), or sizes that contradict each other.
 */
export const parseConfig = (json: unknown): E.Either<ConfigFailure, DecoderConfig> => {
  const fail = (reason: string): E.Either<ConfigFailure, never> => E.left({ _tag: 'ConfigFailure', reason })
  const parsed = configSchema.safeParse(json)
  if (!parsed.success) return fail(z.prettifyError(parsed.error))
  const raw = parsed.data
  const refused = unsupported(raw)
  if (refused !== undefined) return fail(`not supported: ${refused}`)
  const end = raw.eos_token_id ?? []
  const config: DecoderConfig = {
    architecture: raw.model_type as Architecture, // checked by `unsupported`
    vocabularySize: raw.vocab_size,
    hiddenSize: raw.hidden_size,
    intermediateSize: raw.intermediate_size,
    layers: raw.num_hidden_layers,
    heads: raw.num_attention_heads,
    keyValueHeads: raw.num_key_value_heads ?? raw.num_attention_heads,
    headSize: raw.head_dim ?? raw.hidden_size / raw.num_attention_heads,
    ropeTheta: raw.rope_theta ?? raw.rope_parameters?.rope_theta ?? 10000,
    normEpsilon: raw.rms_norm_eps,
    maxPositions: raw.max_position_embeddings,
    projectionBias: raw.model_type === 'qwen2',
    tiedEmbeddings: raw.tie_word_embeddings,
    endTokens: typeof end === 'number' ? [end] : end,
    padToken: raw.pad_token_id ?? null,
  }
  const contradiction = inconsistent(config)
  return contradiction === undefined ? E.right(config) : fail(contradiction)
}

const MODEL_CLASS: Readonly<Record<Architecture, string>> = { llama: 'LlamaForCausalLM', qwen2: 'Qwen2ForCausalLM' }

/** The `config.json` of a config, as Transformers 5 reads it. `parseConfig` is its inverse. */
export const formatConfig = (config: DecoderConfig): Readonly<Record<string, unknown>> => ({
  architectures: [MODEL_CLASS[config.architecture]],
  model_type: config.architecture,
  vocab_size: config.vocabularySize,
  hidden_size: config.hiddenSize,
  intermediate_size: config.intermediateSize,
  num_hidden_layers: config.layers,
  num_attention_heads: config.heads,
  num_key_value_heads: config.keyValueHeads,
  head_dim: config.headSize,
  hidden_act: 'silu',
  rms_norm_eps: config.normEpsilon,
  max_position_embeddings: config.maxPositions,
  rope_theta: config.ropeTheta,
  rope_parameters: { rope_type: 'default', rope_theta: config.ropeTheta },
  tie_word_embeddings: config.tiedEmbeddings,
  attention_dropout: 0,
  use_cache: true,
  eos_token_id: config.endTokens.length === 1 ? config.endTokens[0] : config.endTokens,
  pad_token_id: config.padToken,
  dtype: 'float32',
})
