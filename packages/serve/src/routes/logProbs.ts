/** Log-probabilities in the formats of each endpoint. */
import type { GeneratedToken, PromptLogProbs, TextTokenizer, TokenLogProb } from '@tandem-rl/text'

/** vLLM's lowest log-probability, because JSON has no infinity. */
const FLOOR = -9999

/** Limits a log-probability to numbers that JSON supports. */
const floored = (logProb: number): number => (logProb >= FLOOR ? logProb : FLOOR)

/** The format of tokens in an answer. */
export interface TokenWriting {
  readonly tokenizer: TextTokenizer
  /** The reported kind of a token's log-probabilities. */
  readonly mode: 'raw_logprobs' | 'processed_logprobs'
  /** As text, or as `token_id:N`, which is unique. */
  readonly tokens: 'text' | 'ids'
  /** Requested number of alternatives. */
  readonly count: number
}

/**
 * A token and its alternatives at one position: the token itself first, then the most probable
 * ones.
 */
type Place = readonly [TokenLogProb, ...TokenLogProb[]]

const textOf = ({ tokenizer }: Pick<TokenWriting, 'tokenizer'>, id: number): string => tokenizer.decode([id], 'keep')

const written = (writing: TokenWriting, id: number): string =>
  writing.tokens === 'ids' ? `token_id:${id}` : textOf(writing, id)

const placeOf = ({ id, logProb, rank }: TokenLogProb, top: readonly TokenLogProb[]): Place => [
  { id, logProb, rank },
  ...top.filter((other) => other.id !== id),
]

const sampledPlace = (token: GeneratedToken, { mode }: TokenWriting): Place =>
  placeOf(
    { id: token.id, rank: token.rank, logProb: mode === 'raw_logprobs' ? token.rawLogProb : token.processedLogProb },
    token.top,
  )

/** Returns the length in characters, as Python counts it. */
const pythonLength = (text: string): number => Array.from(text).length

/**
 * The `logprobs` of a choice of `/v1/completions`. Positions without a log-probability, such as the
 * first of a prompt, are null.
 */
export interface CompletionLogProbs {
  readonly text_offset: readonly number[]
  readonly token_logprobs: readonly (number | null)[]
  readonly tokens: readonly string[]
  readonly top_logprobs: readonly (Readonly<Record<string, number>> | null)[]
}

/** A position of an echoed prompt or of a completion. */
export type CompletionPlace = { readonly id: number; readonly place: Place | null }

/** Returns the positions of an echoed prompt. */
export const promptPlaces = (prompt: Int32Array, logProbs: PromptLogProbs): readonly CompletionPlace[] =>
  Array.from(prompt, (id, i) => {
    const known = logProbs[i] ?? null
    return { id, place: known === null ? null : placeOf(known, known.top) }
  })

/** Returns the positions of sampled tokens. */
export const sampledPlaces = (tokens: readonly GeneratedToken[], writing: TokenWriting): readonly CompletionPlace[] =>
  tokens.map((token) => ({ id: token.id, place: sampledPlace(token, writing) }))

/**
 * Returns log-probabilities in the format of `/v1/completions`: for each position the token and its
 * `count` alternatives, by their text. Offsets start at `offset` and count characters, as in
 * Python.
 */
export const completionLogProbs = (
  places: readonly CompletionPlace[],
  writing: TokenWriting,
  offset: number,
): CompletionLogProbs => {
  const tokens = places.map(({ id }) => written(writing, id))
  let at = offset
  return {
    text_offset: tokens.map((token) => {
      const start = at
      at += pythonLength(token)
      return start
    }),
    token_logprobs: places.map(({ place }) => (place === null ? null : floored(place[0].logProb))),
    tokens,
    top_logprobs: places.map(({ place }) =>
      place === null
        ? null
        : Object.fromEntries(
            place.slice(0, writing.count + 1).map(({ id, logProb }) => [written(writing, id), floored(logProb)]),
          ),
    ),
  }
}

const chatEntry = (writing: TokenWriting, { id, logProb }: TokenLogProb): object => ({
  token: written(writing, id),
  logprob: floored(logProb),
  bytes: Array.from(new TextEncoder().encode(textOf(writing, id))),
})

/**
 * Returns the `logprobs` of a choice of `/v1/chat/completions`: for each token, the first `count`
 * of the token itself and its alternatives.
 */
export const chatLogProbs = (tokens: readonly GeneratedToken[], writing: TokenWriting): object => ({
  content: tokens.map((token) => {
    const place = sampledPlace(token, writing)
    return {
      ...chatEntry(writing, place[0]),
      top_logprobs: place.slice(0, writing.count).map((other) => chatEntry(writing, other)),
    }
  }),
})

const idEntry = ({ id, logProb, rank }: TokenLogProb): object => ({ token_id: id, logprob: floored(logProb), rank })

/**
 * Returns the `logprobs` of a choice of `/inference/v1/generate`, by ids: for each token, the first
 * `count` of itself and its alternatives, at least itself.
 */
export const generateLogProbs = (tokens: readonly GeneratedToken[], writing: TokenWriting): object => ({
  content: tokens.map((token) => {
    const place = sampledPlace(token, writing)
    return { ...idEntry(place[0]), top_logprobs: place.slice(0, Math.max(1, writing.count)).map(idEntry) }
  }),
})

/**
 * Returns vLLM's `prompt_logprobs`: null for the first token, otherwise the token and its
 * alternatives by id.
 */
export const promptLogProbsJson = (
  logProbs: PromptLogProbs | null,
  tokenizer: TextTokenizer,
): readonly (object | null)[] | null =>
  logProbs === null
    ? null
    : logProbs.map((known) =>
        known === null
          ? null
          : Object.fromEntries(
              placeOf(known, known.top).map(({ id, logProb, rank }) => [
                String(id),
                { logprob: floored(logProb), rank, decoded_token: textOf({ tokenizer }, id) },
              ]),
            ),
      )
