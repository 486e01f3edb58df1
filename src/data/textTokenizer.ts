/** Text to token ids and back: a typed face on `@huggingface/tokenizers`. */
import { Tokenizer as HubTokenizer } from '@huggingface/tokenizers'
import * as E from 'fp-ts/lib/Either.js'
import type { FormatFailure } from '../core/failure.js'
import type { Rendered } from './chatTemplate.js'

/** The part of the library that is used here; its own declarations are not resolved under Node's module rules. */
interface Backend {
  readonly encode: (
    text: string,
    options: { readonly add_special_tokens: boolean },
  ) => { readonly ids: readonly number[] }
  readonly decode: (
    ids: number[],
    options: { readonly skip_special_tokens: boolean; readonly clean_up_tokenization_spaces: boolean },
  ) => string
  readonly token_to_id: (token: string) => number | undefined
  readonly get_vocab: (withAddedTokens: boolean) => ReadonlyMap<string, number>
  readonly get_added_tokens_decoder: () => ReadonlyMap<number, { readonly content: string; readonly special: boolean }>
}

export interface TextTokenizer {
  /** One more than the largest id. */
  readonly vocabularySize: number
  /** Special tokens, such as the end of a turn, and their ids. */
  readonly specialTokens: ReadonlyMap<string, number>
  /** The ids of a text, in which special tokens are recognized; none are added. */
  readonly encode: (text: string) => Int32Array
  /** The text of ids. An incomplete UTF-8 sequence becomes U+FFFD. */
  readonly decode: (ids: ArrayLike<number>, specialTokens: 'keep' | 'skip') => string
  /** The id of exactly this token; undefined if it is not in the vocabulary. */
  readonly idOf: (token: string) => number | undefined
}

/** A half-open range of token ids, whose message it is, and whether the policy sampled it. */
export interface TokenSpan {
  readonly start: number
  readonly end: number
  readonly message: number
  readonly role: string
  readonly origin: 'rendered' | 'sampled'
}

/**
 * Makes a tokenizer from the parsed contents of `tokenizer.json` and `tokenizer_config.json`.
 *
 * Errors   `Left(FormatFailure)` if the library refuses them.
 */
export const textTokenizer = (
  tokenizerJson: object,
  tokenizerConfig: object = {},
): E.Either<FormatFailure, TextTokenizer> => {
  let backend: Backend
  try {
    backend = new HubTokenizer(tokenizerJson, tokenizerConfig) as Backend // see `Backend`
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    return E.left({ _tag: 'FormatFailure', format: 'tokenizer.json', reason })
  }
  const largest = Array.from(backend.get_vocab(true).values()).reduce((n, id) => Math.max(n, id), -1)
  const special = [...backend.get_added_tokens_decoder()].filter(([, token]) => token.special)
  return E.right({
    vocabularySize: largest + 1,
    specialTokens: new Map(special.map(([id, token]) => [token.content, id])),
    encode: (text) =>
      text === '' ? new Int32Array(0) : Int32Array.from(backend.encode(text, { add_special_tokens: false }).ids),
    decode: (ids, specialTokens) =>
      ids.length === 0 // the library throws for no ids
        ? ''
        : backend.decode(Array.from(ids), {
            skip_special_tokens: specialTokens === 'skip',
            clean_up_tokenization_spaces: false,
          }),
    idOf: (token) => backend.token_to_id(token),
  })
}

/** Token ids of a rendered conversation and, where they can be told, the spans of its messages among them. */
export interface EncodedText {
  readonly ids: Int32Array
  readonly spans: readonly TokenSpan[]
}

/**
 * Encodes a rendered conversation with its spans.
 *
 * The text is encoded whole, as the model was trained; the parts are encoded one by one to find their borders. Where the two
 * disagree (a token reaches over a border) there is one span for all, with the message -1 and the role `mixed`.
 */
export const encodeRendered = (tokenizer: TextTokenizer, { text, spans }: Rendered): EncodedText => {
  const ids = tokenizer.encode(text)
  const parts = spans.map(({ start, end }) => tokenizer.encode(text.slice(start, end)))
  const joined = parts.flatMap((part) => Array.from(part))
  const agree = joined.length === ids.length && joined.every((id, i) => id === ids[i])
  if (!agree) return { ids, spans: [{ start: 0, end: ids.length, message: -1, role: 'mixed', origin: 'rendered' }] }
  let start = 0
  return {
    ids,
    spans: spans.map(({ message, role }, i): TokenSpan => {
      const end = start + parts[i]!.length
      const span = { start, end, message, role, origin: 'rendered' } as const
      start = end
      return span
    }),
  }
}
