/** Prompts that are too long by far, refused before all of their text is encoded. */
import type { TextTokenizer } from '../../data/textTokenizer.js'
import { SLICE, tokensBySlice } from '../../data/tokenizer/tokenLimit.js'
import { type ApiFailure, apiFailure } from '../failure.js'

/** A prompt that is to be truncated may be so many times longer than the context. */
const TRUNCATED = 4

/** Where the texts and the token ids of a request stand. */
const FIELDS = ['prompt', 'token_ids', 'tokens', 'messages', 'documents', 'tools'] as const

/** A piece of a prompt: a text, or a number of token ids. */
type Piece = string | number

/** The pieces of a value, at any depth; an array of numbers counts as one. */
function* piecesOf(value: unknown): Generator<Piece> {
  if (typeof value === 'string') yield value
  else if (Array.isArray(value)) {
    if (typeof value[0] === 'number') yield value.length
    else for (const item of value) yield* piecesOf(item)
  } else if (typeof value === 'object' && value !== null) yield* piecesOf(Object.values(value))
}

const isLongText = (pieces: readonly Piece[]): boolean =>
  pieces.reduce<number>((sum, piece) => sum + (typeof piece === 'string' ? piece.length : 0), 0) > SLICE

/** Lets others be answered. */
export const breathe = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0))

/** Whether pieces have more tokens than allowed; it looks no further than to where they have. */
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

/** Prompts of a request: each item of a list of texts or of lists of ids is one, a conversation is one. */
const promptsOf = (body: object): readonly unknown[] => {
  const given = 'prompt' in body ? body.prompt : undefined
  const isList = Array.isArray(given) && typeof given[0] !== 'number'
  const rest = FIELDS.flatMap((name): readonly unknown[] => {
    const value: unknown = Object.getOwnPropertyDescriptor(body, name)?.value
    return value === undefined || (name === 'prompt' && isList) ? [] : [value]
  })
  return [...(isList ? given : []), rest]
}

/**
 * Refuses a request with a prompt of more tokens than the model's context, or than four contexts where it is to be truncated. Short texts are
 * not looked at: encoding them takes no time, and then their length is known exactly.
 *
 * Errors   an `ApiFailure`, 400.
 * Cost     that of encoding as many tokens as are allowed, in slices with pauses.
 */
export const tooLong = async (
  body: unknown,
  { maxModelLength, tokenizer }: { readonly maxModelLength: number; readonly tokenizer: Pick<TextTokenizer, 'encode'> },
): Promise<ApiFailure | undefined> => {
  if (typeof body !== 'object' || body === null) return undefined
  const isCut = 'truncate_prompt_tokens' in body && body.truncate_prompt_tokens != null
  const most = maxModelLength * (isCut ? TRUNCATED : 1)
  for (const prompt of promptsOf(body)) {
    if ((await hasMore([...piecesOf(prompt)], most, tokenizer)) === 'no') continue
    const truncated = isCut ? `, of which a prompt to be truncated may have ${TRUNCATED} times as many` : ''
    const reason = `This model's maximum context length is ${maxModelLength} tokens${truncated}. However, your prompt contains more than ${most} input tokens.`
    return apiFailure(400, `${reason} Please reduce the length of the input prompt.`, 'input_tokens')
  }
  return undefined
}
