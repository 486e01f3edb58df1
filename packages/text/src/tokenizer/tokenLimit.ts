/** Token limits of a text that are checked without encoding all of an oversized text. */
import type { TextTokenizer } from './textTokenizer.js'

/** The number of UTF-16 units that are encoded at a time. */
export const SLICE = 8192

/** The number of tokens at each border of a slice that the whole text may lack. */
const BORDER = 2

/** A slice of a text: its UTF-16 units, and a lower bound on the tokens that it adds. */
interface Slice {
  readonly units: number
  readonly tokens: number
}

/**
 * Encodes a text slice by slice. The sum of `tokens` is a lower bound of the tokens of the text.
 */
export function* tokensBySlice(text: string, { encode }: Pick<TextTokenizer, 'encode'>): Generator<Slice> {
  for (let at = 0; at < text.length; at += SLICE) {
    const slice = text.slice(at, at + SLICE)
    yield { units: slice.length, tokens: Math.max(0, encode(slice).length - BORDER) }
  }
}

const inWords = (count: number): string => count.toLocaleString('en-US')

/** Describes a number of tokens beyond a limit. Returns undefined within the limit. */
export const excess = (tokens: number, limit: number | undefined): string | undefined =>
  limit === undefined || tokens <= limit ? undefined : `has ${inWords(tokens)} tokens, the limit is ${inWords(limit)}`

/**
 * Describes texts that together exceed a token limit. Returns undefined for texts that may fit.
 *
 * Cost     that of encoding as many tokens as the limit. Short texts are not encoded.
 */
export const farBeyond = (
  texts: readonly string[],
  limit: number | undefined,
  tokenizer: Pick<TextTokenizer, 'encode'>,
): string | undefined => {
  const units = texts.reduce((sum, { length }) => sum + length, 0)
  if (limit === undefined || units <= SLICE) return undefined
  let tokens = 0
  for (const text of texts) {
    for (const slice of tokensBySlice(text, tokenizer)) {
      tokens += slice.tokens
      if (tokens > limit)
        return `has ${inWords(units)} characters and more than ${inWords(limit)} tokens, the limit is ${inWords(limit)}`
    }
  }
  return undefined
}
