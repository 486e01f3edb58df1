/** Reads the fields of a `config.json`: interpreted ones and harmless ones. Others are rejected. */
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { fitSchema } from '../../../data/schemaJson.js'

/**
 * Largest allowed size. Nothing larger fits into memory, and lists of such a length must never be
 * allocated.
 */
const MAX_SIZE = 2 ** 31 - 1
const MAX_LAYERS = 10_000

export const size = z.number().int().positive().max(MAX_SIZE)
export const layerCount = z.number().int().positive().max(MAX_LAYERS)
const tokenId = z.number().int().nonnegative().max(MAX_SIZE)
export const positiveNumber = z.number().positive()

/** Makes a field with a default value for missing and null. */
export const eitherField = <S extends z.ZodType>(schema: S, value: z.output<S>) =>
  schema.nullish().transform((given) => given ?? value)

/** Makes a field that is null if missing. */
export const optionalField = <S extends z.ZodType>(schema: S) => schema.nullish().transform((given) => given ?? null)

/** Boolean fields by their default. */
export const yes = eitherField(z.boolean(), true)
export const no = eitherField(z.boolean(), false)

/** A bias field of projections, by default without a bias. */
export const biasField = no.transform((given) => (given ? ('added' as const) : ('none' as const)))

/** Makes a field with Transformers' default if missing, and null if disabled. */
export const switchable = <S extends z.ZodType>(schema: S, value: z.output<S>) =>
  schema
    .nullable()
    .optional()
    .transform((given) => (given === undefined ? value : given))

/** Fields of all families. Defaults of the special tokens are the family's own. */
export const commonFields = {
  model_type: z.string(),
  vocab_size: size,
  eos_token_id: z.union([tokenId, z.array(tokenId)]).nullish(),
  pad_token_id: tokenId.nullish(),
}

/** Fields that never affect the arithmetic of the forward pass. */
const HARMLESS: ReadonlySet<string> = new Set([
  // origin of the file
  ...['architectures', 'transformers_version', '_name_or_path', 'auto_map', 'tokenizer_class', 'torch_dtype', 'dtype'],
  ...['transformers.js_config', 'unsloth_fixed', 'unsloth_version', '_commit_hash', 'finetuning_task', 'prefix'],
  ...['is_llama_config', 'model_name', '_attn_implementation', '_attn_implementation_autoset', 'attn_implementation'],
  // training: random initial values, dropout
  ...['initializer_range', 'attention_dropout', 'resid_pdrop', 'embd_pdrop', 'attn_pdrop', 'resid_dropout'],
  ...['embed_dropout', 'classifier_dropout', 'gradient_checkpointing', 'pretraining_tp', 'embedding_dropout'],
  // heads for other tasks
  ...['summary_type', 'summary_use_proj', 'summary_activation', 'summary_proj_to_labels', 'summary_first_dropout'],
  ...['id2label', 'label2id', 'num_labels', 'problem_type', 'task_specific_params'],
  // return values and caches
  ...['use_cache', 'cache_implementation', 'output_attentions', 'output_hidden_states', 'return_dict', 'torchscript'],
  ...['use_bfloat16', 'return_dict_in_generate', 'output_scores', 'n_ctx'],
  // special tokens of the tokenizer, and sampling settings that are now in generation_config.json
  ...['bos_token_id', 'sep_token_id', 'decoder_start_token_id', 'forced_bos_token_id', 'forced_eos_token_id'],
  ...['max_length', 'min_length', 'do_sample', 'early_stopping', 'num_beams', 'num_beam_groups', 'diversity_penalty'],
  ...['temperature', 'top_k', 'top_p', 'typical_p', 'repetition_penalty', 'length_penalty', 'no_repeat_ngram_size'],
  ...['encoder_no_repeat_ngram_size', 'bad_words_ids', 'num_return_sequences', 'suppress_tokens'],
  ...['begin_suppress_tokens', 'exponential_decay_length_penalty', 'remove_invalid_values'],
])

/** Fields that are harmless at these values only. Other values require unsupported arithmetic. */
const HARMLESS_AT: Readonly<Record<string, readonly unknown[]>> = {
  is_encoder_decoder: [false],
  is_decoder: [false, true], // all of these attend to the past only
  add_cross_attention: [false],
  tie_encoder_decoder: [false],
  chunk_size_feed_forward: [0],
  rope_interleaved: [false],
  use_mrope: [false],
  lm_head_bias: [false],
  full_attn_mod: [1],
  interpolate_factor: [1],
  use_bidirectional_attention: [false],
}

const isHarmless = (name: string, value: unknown): boolean => {
  if (value === null || value === undefined || HARMLESS.has(name)) return true
  if (name === 'pruned_heads') return typeof value === 'object' && Object.keys(value).length === 0
  return Object.hasOwn(HARMLESS_AT, name) && HARMLESS_AT[name]!.includes(value)
}

const shown = (value: unknown): string => {
  const text = JSON.stringify(value) ?? String(value)
  return text.length > 60 ? `${text.slice(0, 60)}...` : text
}

/**
 * Reads the fields that a family interprets.
 *
 * Errors   `Left` with a message that names all problems: fields that are missing or ill-typed, and
 *          unknown fields that are not known to be harmless, because they may change the
 *          arithmetic.
 */
export const readFields = <S extends z.ZodRawShape>(
  shape: S,
  json: Readonly<Record<string, unknown>>,
  harmless: readonly string[] = [],
): E.Either<string, z.output<z.ZodObject<S>>> => {
  const unknown = Object.entries(json).filter(
    ([name, value]) => !Object.hasOwn(shape, name) && !harmless.includes(name) && !isHarmless(name, value),
  )
  if (unknown.length > 0) {
    return E.left(`not supported: ${unknown.map(([name, value]) => `${name} ${shown(value)}`).join(', ')}`)
  }
  return fitSchema(z.object(shape), json)
}
