/**
 * Reads the fields of a `config.json`: interpreted ones and harmless ones. Others that may change
 * the arithmetic are refused; the rest is reported.
 */
import { fitSchema } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'

/**
 * Largest allowed sizes of a model. Nothing larger fits into memory, and lists of such a length
 * must never be allocated. `docs/limits.md` lists them.
 */
export const CONFIG_LIMITS = { size: 2 ** 31 - 1, layers: 10_000 } as const
const { size: MAX_SIZE, layers: MAX_LAYERS } = CONFIG_LIMITS

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
  ...['is_llama_config', 'model_name', 'keys_to_ignore_at_inference', 'bos_token', 'eos_token', 'pad_token'],
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
  is_causal: [true],
  use_sliding_window: [false],
}

/** Names of further fields of training, special tokens, kernels and bookkeeping. */
const HARMLESS_NAME =
  /_token_ids?$|dropout|layerdrop|^initializer_|_init$|_init_|^init_|flash|sdpa|_implementation|^_(?:model_)?name/

/** Words in the names of fields with which models change their arithmetic. */
const ARITHMETIC = new RegExp(
  [
    ...['scal', 'multipl', 'alpha', 'cap', 'window', 'sliding', 'chunk', 'rope', 'rotary', 'theta', 'alibi'],
    ...['position', 'interleav', 'causal', 'direction', 'mask', 'act', 'attn', 'attention', 'norm', '(?:^|_)eps'],
    ...['residual', 'parallel', 'expert', 'moe', 'rout', 'gate', 'quant', 'pattern', 'layer', 'head', 'hidden'],
    ...['intermediate', 'embed', 'bias', 'tie', 'coder', 'qk', 'kv', 'rank', 'lora', 'mtp', 'nextn', 'conv(?!ert)'],
    ...['ssm', 'mamba', 'sparse', 'vision', 'audio', '(?:^|_)n(?:um)?_', 'size', 'dim'],
  ].join('|'),
  'i',
)

const isHarmless = (name: string, value: unknown): boolean => {
  if (value === null || value === undefined || HARMLESS.has(name)) return true
  if (name === 'pruned_heads') return typeof value === 'object' && Object.keys(value).length === 0
  return Object.hasOwn(HARMLESS_AT, name) && HARMLESS_AT[name]!.includes(value)
}

const shown = (value: unknown): string => {
  const text = JSON.stringify(value) ?? String(value)
  return text.length > 60 ? `${text.slice(0, 60)}...` : text
}

/** Returns true for a field that may change the arithmetic or require other weights. */
const isRisky = (name: string): boolean =>
  Object.hasOwn(HARMLESS_AT, name) || (ARITHMETIC.test(name) && !HARMLESS_NAME.test(name))

/** The fields without effect of a file. */
export interface Uninterpreted {
  /** Fields that are not known and whose names have no word of arithmetic, each as `name value`. */
  readonly ignored: readonly string[]
}

const named = ([name, value]: readonly [string, unknown]): string => `${name} ${shown(value)}`

/** The fields that are neither interpreted nor harmless. */
const strangersIn = (
  shape: z.ZodRawShape,
  json: Readonly<Record<string, unknown>>,
  harmless: readonly string[],
): readonly (readonly [string, unknown])[] =>
  Object.entries(json).filter(
    ([name, value]) => !Object.hasOwn(shape, name) && !harmless.includes(name) && !isHarmless(name, value),
  )

/**
 * Reads fields, all of which must be interpreted or harmless.
 *
 * Errors   `Left` with a message that names all problems.
 */
export const readEveryField = <S extends z.ZodRawShape>(
  shape: S,
  json: Readonly<Record<string, unknown>>,
  harmless: readonly string[] = [],
): E.Either<string, z.output<z.ZodObject<S>>> => {
  const strangers = strangersIn(shape, json, harmless)
  if (strangers.length > 0) return E.left(`not supported: ${strangers.map(named).join(', ')}`)
  return fitSchema(z.object(shape), json)
}

/**
 * Reads the fields that a family interprets, and lists those that are ignored.
 *
 * Errors   `Left` with a message that names all problems: fields that are missing or ill-typed, and
 *          fields that are not interpreted and may change the arithmetic.
 */
export const readFields = <S extends z.ZodRawShape>(
  shape: S,
  json: Readonly<Record<string, unknown>>,
  harmless: readonly string[] = [],
): E.Either<string, z.output<z.ZodObject<S>> & Uninterpreted> => {
  const strangers = strangersIn(shape, json, harmless).filter(([name]) => !HARMLESS_NAME.test(name))
  const risky = strangers.filter(([name]) => isRisky(name))
  if (risky.length > 0) return E.left(`not supported: ${risky.map(named).join(', ')}`)
  const ignored = strangers.filter(([name]) => !name.startsWith('_')).map(named)
  return E.map((fields: z.output<z.ZodObject<S>>) => ({ ...fields, ignored }))(fitSchema(z.object(shape), json))
}
