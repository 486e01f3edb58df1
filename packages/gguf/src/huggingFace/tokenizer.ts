/** The tokenizer of a GGUF file as `tokenizer.json` and `tokenizer_config.json`. */
import type { GgufValue } from '../header.js'
import { mergesOfScores } from './scoredMerges.js'

type Json = Readonly<Record<string, unknown>>

/** The kinds of tokens in `tokenizer.ggml.token_type`. */
const KIND = { unknown: 2, control: 3, userDefined: 4, unused: 5, byte: 6 } as const

const isTexts = (value: GgufValue | undefined): value is readonly string[] =>
  Array.isArray(value) && value.every((item) => typeof item === 'string')

const isNumbers = (value: GgufValue | undefined): value is readonly number[] =>
  Array.isArray(value) && value.every((item) => typeof item === 'number')

/** The cuts of a byte-level tokenizer before it merges bytes. */
interface Cutting {
  readonly names: readonly string[]
  readonly normalizer: Json | null
  readonly cuts: readonly Json[]
  /** `whole words` if a piece that is a token needs no merges. */
  readonly lookup: 'merges' | 'whole words'
  /** If texts begin with the token of their start. Files may also state it. */
  readonly start: 'added' | 'none'
}

const byteLevel = (cutting: 'words' | 'none'): Json => ({
  type: 'ByteLevel',
  add_prefix_space: false,
  trim_offsets: true,
  use_regex: cutting === 'words',
})

const split = (regex: string): Json => ({
  type: 'Split',
  pattern: { Regex: regex },
  behavior: 'Isolated',
  invert: false,
})

/** Words with one other character before them, numbers of `digits` digits, marks, and blanks. */
const wordsAndNumbers = (digits: string): string =>
  `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}${digits}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`

/**
 * Cuttings by `tokenizer.ggml.pre`.
 *
 * Source   `llama-vocab.cpp` of llama.cpp, and the tokenizer.json files that its converter knows by
 *          these names.
 */
const CUTTINGS: readonly Cutting[] = [
  {
    names: ['gpt-2', 'gpt2', 'phi-2', 'mpt', 'olmo', 'jais', 'gigachat', 'granite-docling'],
    normalizer: null,
    cuts: [byteLevel('words')],
    lookup: 'merges',
    start: 'none',
  },
  {
    names: ['smollm', 'starcoder', 'refact', 'command-r', 'codeshell', 'exaone', 'minerva-7b'],
    normalizer: null,
    cuts: [{ type: 'Digits', individual_digits: true }, byteLevel('words')],
    lookup: 'merges',
    start: 'none',
  },
  {
    names: ['qwen2', 'deepseek-r1-qwen', 'megrez', 'kormo'],
    normalizer: { type: 'NFC' },
    cuts: [split(wordsAndNumbers('')), byteLevel('none')],
    lookup: 'merges',
    start: 'none',
  },
  {
    names: ['llama-bpe', 'llama3', 'llama-v3', 'falcon3', 'smaug-bpe', 'pixtral-bpe', 'lfm2'],
    normalizer: null,
    cuts: [split(wordsAndNumbers('{1,3}')), byteLevel('none')],
    lookup: 'whole words',
    start: 'added',
  },
  {
    names: ['dbrx', 'smollm3'],
    normalizer: null,
    cuts: [split(wordsAndNumbers('{1,3}')), byteLevel('none')],
    lookup: 'merges',
    start: 'none',
  },
]

/** The tokens of a file and their kinds. */
interface Vocabulary {
  readonly metadata: ReadonlyMap<string, GgufValue>
  readonly tokens: readonly string[]
  readonly kinds: readonly number[]
}

/** Placeholders with which the converter fills the vocabulary up to the rows of the embedding. */
const isPlaceholder = ({ tokens, kinds }: Vocabulary, id: number): boolean =>
  kinds[id] === KIND.unused && /^\[PAD\d+\]$/.test(tokens[id] ?? '')

const isAdded = (kind: number | undefined): boolean => kind === KIND.control || kind === KIND.userDefined

const addedTokens = ({ tokens, kinds }: Vocabulary): readonly Json[] =>
  tokens.flatMap((content, id) =>
    isAdded(kinds[id]) || kinds[id] === KIND.unknown
      ? [
          {
            id,
            content,
            single_word: false,
            lstrip: false,
            rstrip: false,
            normalized: false,
            special: kinds[id] !== KIND.userDefined,
          },
        ]
      : [],
  )

/**
 * Returns the vocabulary of the model. Added tokens after its last token are not in it: with a
 * lookup of whole words, plain text could spell them.
 */
const vocabOf = (given: Vocabulary): Readonly<Record<string, number>> => {
  const { tokens, kinds } = given
  const last = tokens.findLastIndex((_, id) => !isAdded(kinds[id]) && !isPlaceholder(given, id))
  return Object.fromEntries(
    tokens.slice(0, last + 1).flatMap((token, id) => (isPlaceholder(given, id) ? [] : [[token, id] as const])),
  )
}

const tokenOf = ({ metadata, tokens }: Vocabulary, role: string): readonly [token: string, id: number] | undefined => {
  const id = metadata.get(`tokenizer.ggml.${role}_token_id`)
  const token = typeof id === 'number' ? tokens[id] : undefined
  return typeof id !== 'number' || token === undefined ? undefined : [token, id]
}

/** Returns the tokens around texts, by the file or by its kind of tokenizer. */
const framing = (given: Vocabulary, startDefault: 'added' | 'none'): Json | null => {
  const stated = (name: string): GgufValue | undefined => given.metadata.get(`tokenizer.ggml.add_${name}_token`)
  const start = (stated('bos') ?? startDefault === 'added') ? tokenOf(given, 'bos') : undefined
  const end = stated('eos') === true ? tokenOf(given, 'eos') : undefined
  if (start === undefined && end === undefined) return null
  const special = (pair: readonly [string, number] | undefined, type_id: 0 | 1): readonly Json[] =>
    pair === undefined ? [] : [{ SpecialToken: { id: pair[0], type_id } }]
  const framed = (id: 'A' | 'B', type_id: 0 | 1): readonly Json[] => [
    ...special(start, type_id),
    { Sequence: { id, type_id } },
    ...special(end, type_id),
  ]
  return {
    type: 'TemplateProcessing',
    single: framed('A', 0),
    pair: [...framed('A', 0), ...framed('B', 1)],
    special_tokens: Object.fromEntries(
      [start, end].flatMap((pair) =>
        pair === undefined ? [] : [[pair[0], { id: pair[0], ids: [pair[1]], tokens: [pair[0]] }]],
      ),
    ),
  }
}

type Made = { readonly json: Json } | { readonly problem: string }

const bytePairs = (given: Vocabulary): Made => {
  const merges = given.metadata.get('tokenizer.ggml.merges')
  if (!isTexts(merges)) return { problem: "'tokenizer.ggml.merges' is missing or not a list of texts" }
  const pre = given.metadata.get('tokenizer.ggml.pre') ?? 'gpt-2'
  const cutting = CUTTINGS.find(({ names }) => names.some((name) => name === pre))
  if (cutting === undefined) {
    const known = CUTTINGS.flatMap(({ names }) => names).join(', ')
    return { problem: `the pre-tokenizer '${String(pre)}' is not supported (supported: ${known})` }
  }
  const { normalizer, cuts, lookup, start } = cutting
  return {
    json: {
      normalizer,
      pre_tokenizer: { type: 'Sequence', pretokenizers: cuts },
      post_processor: framing(given, start) ?? byteLevel('words'),
      decoder: byteLevel('words'),
      model: {
        type: 'BPE',
        dropout: null,
        unk_token: null,
        continuing_subword_prefix: null,
        end_of_word_suffix: null,
        fuse_unk: false,
        byte_fallback: false,
        ignore_merges: lookup === 'whole words',
        vocab: vocabOf(given),
        merges,
      },
    },
  }
}

/** The mark of a blank in tokens of SentencePiece. */
const BLANK = '▁'

/** Pairs of tokens with scores, as in SentencePiece: of Gemma, Llama 2 and Mistral. */
const scoredPairs = (given: Vocabulary): Made => {
  const scores = given.metadata.get('tokenizer.ggml.scores')
  if (!isNumbers(scores) || scores.length !== given.tokens.length) {
    return { problem: "'tokenizer.ggml.scores' is not a list with a number for each token" }
  }
  const unknown =
    tokenOf(given, 'unknown') ??
    given.tokens.flatMap((token, id) => (given.kinds[id] === KIND.unknown ? [[token, id] as const] : []))[0]
  const blank = { type: 'Replace', pattern: { String: ' ' }, content: BLANK }
  const isPrefixed = given.metadata.get('tokenizer.ggml.add_space_prefix') !== false
  const inModel = given.tokens.map((token, id) => (isAdded(given.kinds[id]) ? undefined : token))
  return {
    json: {
      normalizer: isPrefixed ? { type: 'Sequence', normalizers: [{ type: 'Prepend', prepend: BLANK }, blank] } : blank,
      pre_tokenizer: null,
      post_processor: framing(given, 'added'),
      decoder: {
        type: 'Sequence',
        decoders: [
          { type: 'Replace', pattern: { String: BLANK }, content: ' ' },
          { type: 'ByteFallback' },
          { type: 'Fuse' },
          ...(isPrefixed ? [{ type: 'Strip', content: ' ', start: 1, stop: 0 }] : []),
        ],
      },
      model: {
        type: 'BPE',
        dropout: null,
        unk_token: unknown?.[0] ?? null,
        continuing_subword_prefix: null,
        end_of_word_suffix: null,
        fuse_unk: true,
        byte_fallback: given.kinds.includes(KIND.byte),
        ignore_merges: false,
        vocab: vocabOf(given),
        merges: mergesOfScores(inModel, scores),
      },
    },
  }
}

/** The files of a model's text side. */
export interface TokenizerFiles {
  /** `tokenizer.json`. */
  readonly tokenizer: Json
  /** `tokenizer_config.json`. */
  readonly settings: Json
  /** `chat_template.jinja`. */
  readonly template: string | undefined
  /** Further templates by name. */
  readonly templates: Readonly<Record<string, string>>
}

const templatesOf = (metadata: ReadonlyMap<string, GgufValue>): Pick<TokenizerFiles, 'template' | 'templates'> => {
  const own = metadata.get('tokenizer.chat_template')
  const prefix = 'tokenizer.chat_template.'
  const named = [...metadata].flatMap(([key, value]) =>
    key.startsWith(prefix) && typeof value === 'string' ? [[key.slice(prefix.length), value] as const] : [],
  )
  return { template: typeof own === 'string' ? own : undefined, templates: Object.fromEntries(named) }
}

const settingsOf = (given: Vocabulary): Json => {
  const roles = { bos: 'bos', eos: 'eos', unknown: 'unk', padding: 'pad', seperator: 'sep', mask: 'mask', cls: 'cls' }
  return {
    tokenizer_class: 'PreTrainedTokenizerFast',
    clean_up_tokenization_spaces: false,
    ...Object.fromEntries(
      Object.entries(roles).flatMap(([role, name]) => {
        const pair = tokenOf(given, role)
        return pair === undefined ? [] : [[`${name}_token`, pair[0]]]
      }),
    ),
  }
}

/**
 * Returns the files of the text side of a model, or what is wrong with its metadata.
 *
 * Kinds    byte-level BPE with a known pre-tokenizer (`gpt2`), and BPE by scores (`llama`).
 */
export const tokenizerFiles = (
  metadata: ReadonlyMap<string, GgufValue>,
): TokenizerFiles | { readonly problem: string } => {
  const tokens = metadata.get('tokenizer.ggml.tokens')
  if (!isTexts(tokens)) return { problem: "'tokenizer.ggml.tokens' is missing or not a list of texts" }
  const kinds = metadata.get('tokenizer.ggml.token_type') ?? []
  if (!isNumbers(kinds)) return { problem: "'tokenizer.ggml.token_type' is not a list of numbers" }
  const given = { metadata, tokens, kinds }
  const model = metadata.get('tokenizer.ggml.model')
  if (model !== 'gpt2' && model !== 'llama') {
    return { problem: `the tokenizer '${String(model)}' is not supported (supported: gpt2, llama)` }
  }
  const made = model === 'gpt2' ? bytePairs(given) : scoredPairs(given)
  if ('problem' in made) return made
  return {
    tokenizer: { version: '1.0', truncation: null, padding: null, added_tokens: addedTokens(given), ...made.json },
    settings: settingsOf(given),
    ...templatesOf(metadata),
  }
}
