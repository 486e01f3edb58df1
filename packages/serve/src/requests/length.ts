/** Rejects far too long prompts before all of their text is encoded. */
import { SLICE, type TextTokenizer, tokensBySlice } from '@tandem-rl/text'
import { type ApiFailure, apiFailure } from './failure.js'

/** Longest accepted prompt with truncation, as a multiple of the context. */
const TRUNCATED = 4

/** Fields of a request with texts or token ids. */
const FIELDS = [
  ...['prompt', 'token_ids', 'tokens', 'messages', 'input'],
  ...['system', 'instructions', 'documents', 'tools'],
]

/** Fields with a list of messages. Each message takes at least one token. */
const MESSAGES = ['messages', 'input'] as const

/** A piece of a prompt: a text, or a number of token ids. */
type Piece = string | number

/** Yields the pieces of a value at any depth. An array of numbers is one piece. */
function* piecesOf(value: unknown): Generator<Piece> {
  if (typeof value === 'string') yield value
  else if (Array.isArray(value)) {
    if (typeof value[0] === 'number') yield value.length
    else for (const item of value) yield* piecesOf(item)
  } else if (typeof value === 'object' && value !== null) yield* piecesOf(Object.values(value))
}

const isLongText = (pieces: readonly Piece[]): boolean =>
  pieces.reduce<number>((sum, piece) => sum + (typeof piece === 'string' ? piece.length : 0), 0) > SLICE

/** Yields to other requests. */
export const breathe = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0))

/** Returns `yes` if the pieces have more than `most` tokens. Stops encoding at that point. */
const hasMore = async (
  pieces: readonly Piece[],
  most: number,
  tokenizer: Pick<TextTokenizer, 'encode'>,
): Promise<'yes' | 'no'> => {
  const isLong = isLongText(pieces)
  let tokens = 0
  let sincePause = 0
  for (const piece of pieces) {
    if (typeof piece === 'number') tokens += piece
    else if (isLong) {
      for (const slice of tokensBySlice(piece, tokenizer)) {
        tokens += slice.tokens
        if (tokens > most) return 'yes'
        sincePause += slice.units
        if (sincePause < SLICE) continue
        sincePause = 0
        await breathe()
      }
    }
    if (tokens > most) return 'yes'
  }
  return 'no'
}

const fieldOf = (body: object, name: string): unknown => Object.getOwnPropertyDescriptor(body, name)?.value

/**
 * Lists the prompts of a request: each item of a list of texts or id lists, or one conversation.
 */
const promptsOf = (body: object): readonly unknown[] => {
  const given = fieldOf(body, 'prompt')
  const isList = Array.isArray(given) && typeof given[0] !== 'number'
  const rest = FIELDS.flatMap((name): readonly unknown[] => {
    const value = fieldOf(body, name)
    return value === undefined || (name === 'prompt' && isList) ? [] : [value]
  })
  return [...(isList ? given : []), rest]
}

/**
 * Rejects a request with a prompt longer than the model's context, or than four contexts if it is
 * to be truncated. Short texts are skipped: they are encoded quickly and then checked exactly.
 *
 * Errors   an `ApiFailure` with status 400.
 * Cost     encoding at most the allowed number of tokens, in slices with pauses.
 */
export const tooLong = async (
  body: unknown,
  { maxModelLength, tokenizer }: { readonly maxModelLength: number; readonly tokenizer: Pick<TextTokenizer, 'encode'> },
): Promise<ApiFailure | undefined> => {
  if (typeof body !== 'object' || body === null) return undefined
  const isCut = 'truncate_prompt_tokens' in body && body.truncate_prompt_tokens != null
  const most = maxModelLength * (isCut ? TRUNCATED : 1)
  const truncated = isCut ? `, of which a prompt to be truncated may have ${TRUNCATED} times as many` : ''
  const refused = (prompt: string): ApiFailure => {
    const reason = `This model's maximum context length is ${maxModelLength} tokens${truncated}. However, your ${prompt}.`
    return apiFailure(400, `${reason} Please reduce the length of the input prompt.`, 'input_tokens')
  }
  for (const name of MESSAGES) {
    const messages = fieldOf(body, name)
    if (Array.isArray(messages) && messages.length > most)
      return refused(`conversation contains ${messages.length} messages`)
  }
  for (const prompt of promptsOf(body))
    if ((await hasMore([...piecesOf(prompt)], most, tokenizer)) === 'yes')
      return refused(`prompt contains more than ${most} input tokens`)
  return undefined
}
