/**
 * The schemas of `tokenizer.json` and `tokenizer_config.json`: each supported part by its type.
 * Other parts are refused by name.
 */
import type { FormatFailure } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'

/** A `char` of the Rust library. */
const oneCharacter = z.string().refine((text) => [...text.slice(0, 3)].length === 1, 'must be one character')

const pattern = z.union([z.object({ String: z.string() }), z.object({ Regex: z.string() })])

/** A search pattern: a literal text, or an expression in Oniguruma's syntax. */
export type PatternJson = z.infer<typeof pattern>

const behavior = z.enum(['Removed', 'Isolated', 'MergedWithPrevious', 'MergedWithNext', 'Contiguous'])

/** The treatment of the matches of a split. */
export type SplitBehavior = z.infer<typeof behavior>

const prependScheme = z.enum(['always', 'first', 'never'])

const simpleNormalizer = z.discriminatedUnion('type', [
  z.object({ type: z.literal(['NFC', 'NFD', 'NFKC', 'NFKD', 'Lowercase', 'StripAccents', 'Nmt']) }),
  z.object({
    type: z.literal('BertNormalizer'),
    clean_text: z.boolean(),
    handle_chinese_chars: z.boolean(),
    strip_accents: z.boolean().nullish(),
    lowercase: z.boolean(),
  }),
  z.object({ type: z.literal('Strip'), strip_left: z.boolean(), strip_right: z.boolean() }),
  z.object({ type: z.literal('Replace'), pattern, content: z.string() }),
  z.object({ type: z.literal('Prepend'), prepend: z.string() }),
  z.object({ type: z.literal('Precompiled'), precompiled_charsmap: z.string().nullish() }),
])

/** A normalizer that is not a sequence. */
export type SimpleNormalizer = z.infer<typeof simpleNormalizer>

const simplePreTokenizer = z.discriminatedUnion('type', [
  z.object({ type: z.literal(['BertPreTokenizer', 'Whitespace', 'WhitespaceSplit']) }),
  z.object({ type: z.literal('ByteLevel'), add_prefix_space: z.boolean(), use_regex: z.boolean().default(true) }),
  z.object({
    type: z.literal('Metaspace'),
    replacement: oneCharacter,
    prepend_scheme: prependScheme.optional(),
    add_prefix_space: z.boolean().optional(),
    split: z.boolean().default(true),
  }),
  z.object({ type: z.literal('Split'), pattern, behavior, invert: z.boolean() }),
  z.object({ type: z.literal('CharDelimiterSplit'), delimiter: z.string() }),
  z.object({ type: z.literal('Punctuation'), behavior: behavior.default('Isolated') }),
  z.object({ type: z.literal('Digits'), individual_digits: z.boolean() }),
  z.object({ type: z.literal('FixedLength'), length: z.int().positive() }),
])

/** A pre-tokenizer that is not a sequence. */
export type SimplePreTokenizer = z.infer<typeof simplePreTokenizer>

const specialPiece = z.object({ SpecialToken: z.object({ id: z.string(), type_id: z.int() }) })
const sequencePiece = z.object({ Sequence: z.object({ id: z.enum(['A', 'B']), type_id: z.int() }) })
const templatePiece = z.union([specialPiece, sequencePiece])

/** A slot of a template: a special token, or one of the texts. */
export type TemplatePiece = z.infer<typeof templatePiece>

const tokenAndId = z.tuple([z.string(), z.int()])

const simplePostProcessor = z.discriminatedUnion('type', [
  z.object({ type: z.literal('ByteLevel'), add_prefix_space: z.boolean(), trim_offsets: z.boolean() }),
  z.object({
    type: z.literal('TemplateProcessing'),
    single: z.array(templatePiece),
    pair: z.array(templatePiece),
    special_tokens: z.record(z.string(), z.object({ ids: z.array(z.int()) })),
  }),
  z.object({ type: z.literal('BertProcessing'), sep: tokenAndId, cls: tokenAndId }),
  z.object({
    type: z.literal('RobertaProcessing'),
    sep: tokenAndId,
    cls: tokenAndId,
    trim_offsets: z.boolean(),
    add_prefix_space: z.boolean(),
  }),
])

/** A post-processor that is not a sequence. */
export type SimplePostProcessor = z.infer<typeof simplePostProcessor>

const simpleDecoder = z.discriminatedUnion('type', [
  z.object({ type: z.literal(['ByteLevel', 'ByteFallback', 'Fuse']) }),
  z.object({ type: z.literal('WordPiece'), prefix: z.string(), cleanup: z.boolean() }),
  z.object({
    type: z.literal('Metaspace'),
    replacement: oneCharacter,
    prepend_scheme: prependScheme.optional(),
    add_prefix_space: z.boolean().optional(),
  }),
  z.object({ type: z.literal('BPEDecoder'), suffix: z.string() }),
  z.object({ type: z.literal('Replace'), pattern, content: z.string() }),
  z.object({ type: z.literal('Strip'), content: z.string(), start: z.int().min(0), stop: z.int().min(0) }),
])

/** A decoder that is not a sequence. */
export type SimpleDecoder = z.infer<typeof simpleDecoder>

/** Not `z.record`: a vocabulary may have the word `__proto__`, and 150,000 others. */
const vocabulary = z.custom<Readonly<Record<string, number>>>(
  (value) =>
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    Object.values(value).every((id) => Number.isInteger(id) && id >= 0 && id <= 0xffffffff),
  'expected tokens with their ids',
)

const pairOfTokens = (value: unknown): boolean =>
  typeof value === 'string'
    ? value.split(' ').length === 2
    : Array.isArray(value) && value.length === 2 && value.every((token) => typeof token === 'string')

const merges = z.custom<readonly (string | readonly [string, string])[]>(
  (value) => Array.isArray(value) && value.every(pairOfTokens),
  'expected pairs of tokens',
)

const scored = (value: unknown): boolean =>
  Array.isArray(value) && value.length === 2 && typeof value[0] === 'string' && Number.isFinite(value[1])

const scores = z.custom<readonly (readonly [string, number])[]>(
  (value) => Array.isArray(value) && value.length > 0 && value.every(scored),
  'expected tokens with their scores',
)

const model = z.discriminatedUnion('type', [
  z.object({
    type: z.literal('BPE'),
    dropout: z.literal(0, 'dropout makes ids random').nullish(),
    unk_token: z.string().nullish(),
    continuing_subword_prefix: z.string().nullish(),
    end_of_word_suffix: z.string().nullish(),
    fuse_unk: z.boolean().nullish(),
    byte_fallback: z.boolean().nullish(),
    ignore_merges: z.boolean().nullish(),
    vocab: vocabulary,
    merges,
  }),
  z.object({
    type: z.literal('WordPiece'),
    unk_token: z.string(),
    continuing_subword_prefix: z.string(),
    max_input_chars_per_word: z.int().positive(),
    vocab: vocabulary,
  }),
  z.object({
    type: z.literal('Unigram'),
    unk_id: z.int().min(0),
    byte_fallback: z.boolean().nullish(),
    vocab: scores,
  }),
  z.object({ type: z.literal('WordLevel'), unk_token: z.string(), vocab: vocabulary }),
])

/** The model that turns pieces of a text into tokens, with its vocabulary. */
export type ModelJson = z.infer<typeof model>

const addedToken = z.object({
  id: z.int().min(0),
  content: z.string(),
  single_word: z.boolean().default(false),
  lstrip: z.boolean().default(false),
  rstrip: z.boolean().default(false),
  normalized: z.boolean().default(false),
  special: z.boolean().default(false),
})

/** A token outside the model. It is searched in texts before they are split. */
export type AddedTokenJson = z.infer<typeof addedToken>

const sequence = <T extends z.ZodType, K extends string>(simple: T, field: K) => {
  const shape = { type: z.literal('Sequence'), [field]: z.array(z.unknown()) }
  return z.unknown().transform((value, context): readonly z.infer<T>[] => {
    const parts = (json: unknown): readonly unknown[] => {
      const whole = z.object(shape).safeParse(json)
      if (!whole.success) return [json]
      const list: unknown = whole.data[field]
      return Array.isArray(list) ? list.flatMap(parts) : []
    }
    return value === null || value === undefined
      ? []
      : parts(value).flatMap((part) => {
          const parsed = simple.safeParse(part)
          if (parsed.success) return [parsed.data]
          const type = z.object({ type: z.string() }).safeParse(part)
          context.addIssue({
            code: 'custom',
            message: `the part '${type.success ? type.data.type : '?'}' is unknown or malformed: ${z.prettifyError(parsed.error)}`,
          })
          return []
        })
  })
}

const tokenizerFile = z.object({
  added_tokens: z.array(addedToken),
  normalizer: sequence(simpleNormalizer, 'normalizers'),
  pre_tokenizer: sequence(simplePreTokenizer, 'pretokenizers'),
  post_processor: sequence(simplePostProcessor, 'processors'),
  decoder: sequence(simpleDecoder, 'decoders'),
  model: z.unknown(),
})

/**
 * The contents of `tokenizer.json` with sequences flattened: the parts in the order in which they
 * act.
 */
export type TokenizerFile = Omit<z.infer<typeof tokenizerFile>, 'model'> & { readonly model: ModelJson }

const tokenText = z
  .union([z.string(), z.object({ content: z.string() }).transform(({ content }) => content)])
  .nullish()
  .transform((text) => text ?? undefined)

const configFile = z.object({
  bos_token: tokenText,
  eos_token: tokenText,
  pad_token: tokenText,
  unk_token: tokenText,
  sep_token: tokenText,
  cls_token: tokenText,
  mask_token: tokenText,
  additional_special_tokens: z.array(z.union([z.string(), z.object({ content: z.string() })])).nullish(),
  clean_up_tokenization_spaces: z.boolean().nullish(),
  clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output: z.boolean().nullish(),
  model_max_length: z.number().nullish(),
  padding_side: z.enum(['left', 'right']).nullish(),
  truncation_side: z.enum(['left', 'right']).nullish(),
})

/** The fields of `tokenizer_config.json` that are used. */
export type ConfigFile = z.infer<typeof configFile>

const failure = (format: string, reason: string): E.Either<FormatFailure, never> =>
  E.left({ _tag: 'FormatFailure', format, reason })

/** Adds the type of the model that older files leave out, from their fields. */
const withType = (json: unknown): unknown => {
  if (typeof json !== 'object' || json === null || 'type' in json) return json
  if ('merges' in json) return { ...json, type: 'BPE' }
  if ('unk_id' in json) return { ...json, type: 'Unigram' }
  return { ...json, type: 'continuing_subword_prefix' in json ? 'WordPiece' : 'WordLevel' }
}

const typeOf = (json: unknown): string =>
  typeof json === 'object' && json !== null && 'type' in json ? `the model '${String(json.type)}': ` : 'the model: '

/**
 * Reads the parsed contents of `tokenizer.json`. Errors: `Left(FormatFailure)` with everything that
 * is unknown, missing or malformed.
 */
export const parseTokenizerFile = (json: object): E.Either<FormatFailure, TokenizerFile> => {
  const file = tokenizerFile.safeParse(json)
  const cut = model.safeParse(withType('model' in json ? json.model : undefined))
  if (file.success && cut.success) return E.right({ ...file.data, model: cut.data })
  const problems = [
    ...(file.success ? [] : [z.prettifyError(file.error)]),
    ...(cut.success ? [] : [`${typeOf('model' in json ? json.model : undefined)}${z.prettifyError(cut.error)}`]),
  ]
  return failure('tokenizer.json', problems.join('\n'))
}

/**
 * Reads the parsed contents of `tokenizer_config.json`. Errors: `Left(FormatFailure)` with
 * everything that is malformed.
 */
export const parseConfigFile = (json: object): E.Either<FormatFailure, ConfigFile> => {
  const file = configFile.safeParse(json)
  return file.success ? E.right(file.data) : failure('tokenizer_config.json', z.prettifyError(file.error))
}
