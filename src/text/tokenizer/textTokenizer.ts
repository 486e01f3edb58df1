/**
 * Converts text to token ids and back, as the tokenizer files of a model define.
 *
 * This folder holds tokenizers: reading their files, encoding, decoding and training them. It does
 * not hold chat templates (`../template`).
 */
import * as E from 'fp-ts/lib/Either.js'
import type { FormatFailure } from '../../core/failure.js'
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
   * 'recognize' gives the text `<|im_end|>` the id of that token: for text that a template rendered. 'plainText' never gives the id of a
   * special token: for text from elsewhere, which must not end a turn or begin another. `{ plainText }` lists the ranges of such text in
   * one that is otherwise trusted. 'recognize' unless told.
   */
  readonly specialTokens?: TextReading
  /** Whether the special tokens of the post-processor, such as one for the beginning, are put around the text. 'omit' unless told. */
  readonly template?: 'add' | 'omit'
}

export interface EncodingOptions extends EncodeOptions {
  /** A second text, after the first. */
  readonly second?: string
}

/** A token outside the model: texts are searched for it before they are cut. */
export interface AddedToken {
  readonly id: number
  readonly content: string
  readonly kind: 'special' | 'ordinary'
}

/** Whether decoding leaves special tokens out. */
export type SpecialTokensInText = 'keep' | 'skip'

export interface TextTokenizer {
  /** One more than the largest id. */
  readonly vocabularySize: number
  /** Special tokens, such as the end of a turn, and their ids. */
  readonly specialTokens: ReadonlyMap<string, number>
  readonly addedTokens: readonly AddedToken[]
  readonly settings: TokenizerSettings
  /** All tokens as the files write them, and their ids. */
  readonly vocabulary: ReadonlyMap<string, number>
  /**
   * Returns the ids of a text. Special tokens in it are recognized, and none are added, unless the options say otherwise.
   *
   * Errors   like all methods that encode or decode, throws FailureError with the tag `TokenizerFailure` for a text on which the
   *          files of the model need more work than their budget: 2^20 steps, and 256 for each character.
   */
  readonly encode: (text: string, options?: EncodeOptions) => Int32Array
  /** The ids of a text with offsets, masks and types. */
  readonly encoding: (text: string, options?: EncodingOptions) => Encoding
  /** The windows of at most `maxLength` tokens of a text, each with the template: the first is what truncation keeps. */
  readonly encodingWindows: (
    text: string,
    truncation: TruncationOptions,
    options?: EncodeOptions,
  ) => readonly Encoding[]
  /** The text of ids. An incomplete UTF-8 sequence becomes U+FFFD; an id that is no token gives nothing. */
  readonly decode: (ids: ArrayLike<number>, specialTokens: SpecialTokensInText) => string
  /** The id of exactly this token; undefined if it is not in the vocabulary. */
  readonly idOf: (token: string) => number | undefined
  /** The token with this id, as the files write it; undefined if there is none. */
  readonly tokenOf: (id: number) => string | undefined
  /** Decoding before the first token, for `decodeNext` and `decodeEnd`. */
  readonly decodeStart: (specialTokens: SpecialTokensInText) => DecodeState
}

/** Where a decoding is: an immutable value. */
export interface DecodeState {
  /** The tokens of ids as the decoder wants them. */
  readonly tokensOf: (ids: ArrayLike<number>) => readonly string[]
  readonly machine: DecodingMachine
}

/**
 * The text that is certain with these ids, and the state after them. Half a character, and what a later token could change, waits.
 *
 * Laws     the texts of all steps and of `decodeEnd` are, joined, what `decode` gives for all the ids, wherever they are cut.
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

/** The text that still waits, now that no ids follow. Half a character becomes U+FFFD. */
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
          `encodingWindows: maxLength ${truncation.maxLength} leaves no room beside ${added} added tokens`,
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
 * Makes a tokenizer from the parsed contents of `tokenizer.json` and `tokenizer_config.json`.
 *
 * Ids, offsets and texts are those of the Rust library of Hugging Face; `docs/guide/7-tokenizers.md` lists the known differences.
 *
 * Errors   `Left(FormatFailure)` naming what is missing, malformed, unknown or not supported: nothing is replaced by something similar.
 * Effects  none outside: it remembers how some thousand pieces of text were cut.
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

/** A half-open range of token ids, whose message it is, and whether the policy sampled it. */
export interface TokenSpan {
  readonly start: number
  readonly end: number
  readonly message: number
  readonly role: string
  readonly origin: 'rendered' | 'sampled'
}

/** Token ids of a rendered conversation and, where they can be told, the spans of its messages among them. */
export interface EncodedText {
  readonly ids: Int32Array
  readonly spans: readonly TokenSpan[]
}

/** The index of the span that a token lies in; -1 if it reaches over a border. `at` is the span of the token before it. */
const ownerOf = ([start, end]: readonly [number, number], { spans }: Rendered, at: number): number => {
  const owner = spans.findIndex((span, i) => i >= at && start < span.end)
  return owner >= 0 && start >= spans[owner]!.start && end <= spans[owner]!.end ? owner : -1
}

/**
 * Encodes a rendered conversation with its spans.
 *
 * The text is encoded whole, as the model was trained; offsets tell which tokens are of which part. Tokens that reach over a border are
 * a span of their own, with the message -1 and the role `mixed`. Parts without a token of their own have no span. Special tokens are
 * recognized only in what the template wrote, not in what messages gave it, unless `specialTokens` says otherwise.
 *
 * @example
 * const tokenizer = orThrow(textTokenizer(trainBytePairEncoding([], { vocabularySize: 256 })))
 * encodeRendered(tokenizer, { text: 'a', spans: [{ start: 0, end: 1, message: 0, role: 'user' }], given: [] }).spans.length // 1
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
    const next = ownerOf([offsets[2 * i]!, offsets[2 * i + 1]!], rendered, at)
    const last = spans.at(-1)
    if (last !== undefined && next === owner) {
      spans[spans.length - 1] = { ...last, end: i + 1 }
    } else {
      const { message, role } = rendered.spans[next] ?? { message: -1, role: 'mixed' }
      spans.push({ start: i, end: i + 1, message, role, origin: 'rendered' })
    }
    owner = next
    at = Math.max(at, next)
  }
  return { ids, spans }
}
