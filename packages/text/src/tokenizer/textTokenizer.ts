/** Converts text to token ids and back, as the tokenizer files of a model define. */
import type { FormatFailure } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import type { Rendered } from '../template/chatTemplate.js'
import { tokenizerWork } from './budget.js'
import { cleaned, type DecodingMachine, decodingMachine } from './decode.js'
import { type Encoding, type TruncationOptions, windows } from './encoding.js'
import { parseConfigFile, parseTokenizerFile, type TokenizerFile } from './files.js'
import { pipelineOf, type TextReading } from './pipeline.js'
import { postProcessor } from './postProcess.js'
import { configuredTokenizer, type TokenizerSettings, tokenizerSettingsOf } from './settings.js'

export interface EncodeOptions {
  /**
   * The treatment of special tokens in the text. 'recognize' encodes `<|im_end|>` as that token:
   * for text that a template rendered. 'plainText' never gives the id of a special token: for text
   * from elsewhere, which must not end a turn or begin another. `{ plainText }` lists the ranges of
   * such text in one that is otherwise trusted. Default: 'recognize'.
   */
  readonly specialTokens?: TextReading
  /**
   * With 'add', the special tokens of the post-processor, such as a beginning-of-text token, are
   * put around the text. Default: 'omit'.
   */
  readonly template?: 'add' | 'omit'
}

export interface EncodingOptions extends EncodeOptions {
  /** A second text, after the first. */
  readonly second?: string
}

/** A token outside the model. It is searched in texts before they are split. */
export interface AddedToken {
  readonly id: number
  readonly content: string
  readonly kind: 'special' | 'ordinary'
}

/** The treatment of special tokens when decoding. */
export type SpecialTokensInText = 'keep' | 'skip'

export interface TextTokenizer {
  /** One more than the largest id. */
  readonly vocabularySize: number
  /** Special tokens, such as the end of a turn, and their ids. */
  readonly specialTokens: ReadonlyMap<string, number>
  readonly addedTokens: readonly AddedToken[]
  readonly settings: TokenizerSettings
  /** All tokens as the files write them, with their ids. */
  readonly vocabulary: ReadonlyMap<string, number>
  /**
   * Returns the ids of a text. By default, special tokens in it are recognized and none are added.
   *
   * Errors   like all methods that encode or decode, throws FailureError with the tag
   *          `TokenizerFailure` for a text on which the files of the model need more work than
   *          their budget: 2^20 steps, and 256 for each character.
   */
  readonly encode: (text: string, options?: EncodeOptions) => Int32Array
  /** Returns the ids of a text with offsets, masks and types. */
  readonly encoding: (text: string, options?: EncodingOptions) => Encoding
  /**
   * Returns the windows of a text of at most `maxLength` tokens, each with the template. Truncation
   * keeps the first.
   */
  readonly encodingWindows: (
    text: string,
    truncation: TruncationOptions,
    options?: EncodeOptions,
  ) => readonly Encoding[]
  /**
   * Returns the text of ids. An incomplete UTF-8 sequence becomes U+FFFD; an unknown id adds
   * nothing.
   */
  readonly decode: (ids: ArrayLike<number>, specialTokens: SpecialTokensInText) => string
  /** Returns the id of exactly this token, or undefined if it is not in the vocabulary. */
  readonly idOf: (token: string) => number | undefined
  /** Returns the token with this id, as the files write it, or undefined for an unknown id. */
  readonly tokenOf: (id: number) => string | undefined
  /** Returns the state before the first token, for `decodeNext` and `decodeEnd`. */
  readonly decodeStart: (specialTokens: SpecialTokensInText) => DecodeState
}

/** The state of a streaming decoder: an immutable value. */
export interface DecodeState {
  /** Returns the tokens of ids in the form that the decoder expects. */
  readonly tokensOf: (ids: ArrayLike<number>) => readonly string[]
  readonly machine: DecodingMachine
}

/**
 * Decodes more ids. Returns the state after them and the text that is final. Half a character, and
 * text that a later token could change, is buffered.
 *
 * Laws     the texts of all steps and of `decodeEnd`, joined, equal `decode` of all the ids,
 *          however they are split.
 * Effects  none: the state before can be used again.
 *
 * @example
 * const tokenizer = orThrow(textTokenizer(trainBytePairEncoding([], { vocabularySize: 256 })))
 * decodeNext(tokenizer.decodeStart('skip'), tokenizer.encode('a'))[1] // 'a'
 */
export const decodeNext = (state: DecodeState, ids: ArrayLike<number>): readonly [DecodeState, string] => {
  const tokens = state.tokensOf(ids)
  const size = tokens.reduce((sum, { length }) => sum + length, 0)
  const [machine, texts] = tokenizerWork.withBudget(size, () => state.machine.push(tokens))
  return [{ ...state, machine }, texts.join('')]
}

/** Returns the buffered text at the end of the ids. Half a character becomes U+FFFD. */
export const decodeEnd = (state: DecodeState): string =>
  tokenizerWork.withBudget(0, () => state.machine.finish().join(''))

const assemble = (file: TokenizerFile, settings: TokenizerSettings): TextTokenizer => {
  const pipeline = pipelineOf(file)
  const { idOf, tokenOf, vocabulary } = pipeline
  const stripping = new Set(file.added_tokens.filter(({ lstrip, rstrip }) => lstrip || rstrip).map(({ id }) => id))
  const post = postProcessor(file.post_processor, (id, found) => (stripping.has(id) ? found : (tokenOf(id) ?? '')))
  const decoder = decodingMachine(file.decoder)
  const machine = settings.cleanUpSpaces === 'decoding' ? cleaned(decoder) : decoder
  const special = new Map(file.added_tokens.filter((token) => token.special).map(({ content, id }) => [content, id]))
  const encodingOf = (text: string, reading: TextReading, index: 0 | 1): Encoding =>
    tokenizerWork.withBudget(text.length, () => post.trim(pipeline.encode(text, reading, index), text))
  const decodeStart = (specialTokens: SpecialTokensInText): DecodeState => ({
    machine,
    tokensOf: (ids) => {
      const tokens: string[] = []
      for (let i = 0; i < ids.length; i++) {
        const token = tokenOf(ids[i]!)
        if (token !== undefined && (specialTokens === 'keep' || !special.has(token))) tokens.push(token)
      }
      return tokens
    },
  })
  return {
    vocabularySize: Array.from(vocabulary.values()).reduce((n, id) => Math.max(n, id), -1) + 1,
    specialTokens: special,
    addedTokens: file.added_tokens.map((token) => ({
      id: token.id,
      content: token.content,
      kind: token.special ? 'special' : 'ordinary',
    })),
    settings,
    vocabulary,
    encode: (text, { specialTokens = 'recognize', template = 'omit' } = {}) =>
      template === 'omit'
        ? tokenizerWork.withBudget(text.length, () => pipeline.ids(text, specialTokens))
        : post.frame([tokenizerWork.withBudget(text.length, () => pipeline.encode(text, specialTokens, 0))], 'add').ids,
    encoding: (text, { specialTokens = 'recognize', template = 'omit', second } = {}) => {
      const first = encodingOf(text, specialTokens, 0)
      return post.frame(second === undefined ? [first] : [first, encodingOf(second, specialTokens, 1)], template)
    },
    encodingWindows: (text, truncation, { specialTokens = 'recognize', template = 'omit' } = {}) => {
      const added = template === 'add' ? post.added(1) : 0
      const room = truncation.maxLength - added
      if (room < 1) {
        throw new RangeError(
          `encodingWindows: maxLength ${truncation.maxLength} leaves no room for text besides ${added} added tokens`,
        )
      }
      const inner = windows(encodingOf(text, specialTokens, 0), { ...truncation, maxLength: room })
      return inner.map((window) => post.frame([window], template))
    },
    decode: (ids, specialTokens) => {
      const [state, text] = decodeNext(decodeStart(specialTokens), ids)
      return text + decodeEnd(state)
    },
    idOf,
    tokenOf,
    decodeStart,
  }
}

/**
 * Creates a tokenizer from the parsed contents of `tokenizer.json` and `tokenizer_config.json`.
 *
 * Ids, offsets and texts are those of the Rust library of Hugging Face;
 * `docs/guide/24-tokenizers.md` lists the known differences.
 *
 * Errors   `Left(FormatFailure)` naming everything that is missing, malformed, unknown or not
 *          supported. Nothing is replaced by an approximation.
 * Effects  an internal cache of the tokens of up to 20,000 short pieces of text.
 *
 * @example
 * orThrow(textTokenizer(trainBytePairEncoding([], { vocabularySize: 256 }))).encode('!') // [0]
 */
export const textTokenizer = (
  tokenizerJson: object,
  tokenizerConfig: object = {},
): E.Either<FormatFailure, TextTokenizer> => {
  const file = parseTokenizerFile(tokenizerJson)
  if (E.isLeft(file)) return file
  const config = parseConfigFile(tokenizerConfig)
  if (E.isLeft(config)) return config
  try {
    return E.right(
      assemble(configuredTokenizer(file.right, config.right), tokenizerSettingsOf(config.right, file.right.model.type)),
    )
  } catch (error) {
    if (!(error instanceof RangeError || error instanceof SyntaxError)) throw error
    return E.left({ _tag: 'FormatFailure', format: 'tokenizer.json', reason: error.message })
  }
}

/**
 * A half-open range of token ids, with its message and its origin: rendered, or sampled by the
 * policy.
 */
export interface TokenSpan {
  readonly start: number
  readonly end: number
  readonly message: number
  readonly role: string
  readonly origin: 'rendered' | 'sampled'
}

/** Token ids of a rendered conversation with the spans of its messages. */
export interface EncodedText {
  readonly ids: Int32Array
  readonly spans: readonly TokenSpan[]
}

/**
 * Encodes a rendered conversation with its spans.
 *
 * The text is encoded as a whole, as in the model's training, and offsets assign the tokens to its
 * parts. Tokens that cross a border are a span of their own, with the message -1 and the role
 * `mixed`. Parts without a token of their own have no span. By default, special tokens are
 * recognized only in the template's own text, not in text from messages; `specialTokens` overrides
 * this.
 *
 * @example
 * const tokenizer = orThrow(textTokenizer(trainBytePairEncoding([], { vocabularySize: 256 })))
 * encodeRendered(tokenizer, { text: 'a', spans: [{ start: 0, end: 1, message: 0, role: 'user' }], plainText: [] }).spans.length // 1
 */
export const encodeRendered = (
  tokenizer: TextTokenizer,
  rendered: Rendered,
  options: Pick<EncodeOptions, 'specialTokens'> = {},
): EncodedText => {
  const { ids, offsets } = tokenizer.encoding(rendered.text, {
    specialTokens: { plainText: rendered.plainText },
    ...options,
  })
  const spans: TokenSpan[] = []
  let [owner, at] = [-1, 0]
  for (let i = 0; i < ids.length; i++) {
    const [start, end] = [offsets[2 * i]!, offsets[2 * i + 1]!]
    while (at < rendered.spans.length && rendered.spans[at]!.end <= start) at++
    const span = rendered.spans[at]
    const next = span !== undefined && start >= span.start && end <= span.end ? at : -1 // -1: across a border
    const last = spans.at(-1)
    if (last !== undefined && next === owner) {
      spans[spans.length - 1] = { ...last, end: i + 1 }
    } else {
      const { message, role } = rendered.spans[next] ?? { message: -1, role: 'mixed' }
      spans.push({ start: i, end: i + 1, message, role, origin: 'rendered' })
    }
    owner = next
  }
  return { ids, spans }
}
