/** The position of a parser in the tokens of a template. */
import type { tokenize } from '@huggingface/jinja'

type Token = ReturnType<typeof tokenize>[number]
export type TokenType = Token['type']

/** Reads tokens from the left. The cursor is the only mutable state of a parse. */
export interface Cursor {
  /** Returns true if the token at the cursor, or `ahead` tokens later, has this type and text. */
  readonly is: (type: TokenType, value?: string, ahead?: number) => boolean
  /** Skips a token if it is next. */
  readonly skip: (type: TokenType, value?: string) => boolean
  /** Consumes a required token and returns its text. */
  readonly expect: (type: TokenType, value?: string) => string
  readonly isEnd: () => boolean
  /** Creates the error for an unexpected token, with the token that was found. */
  readonly unexpected: (wanted: string) => SyntaxError
}

/** Creates a cursor before the first token. */
export const cursorOf = (tokens: readonly Token[]): Cursor => {
  let at = 0
  const is: Cursor['is'] = (type, value, ahead = 0) => {
    const token = tokens[at + ahead]
    return token?.type === type && (value === undefined || token.value === value)
  }
  const unexpected = (wanted: string): SyntaxError => {
    const token = tokens[at]
    return new SyntaxError(`expected ${wanted}, found ${token === undefined ? 'the end' : `'${token.value}'`}`)
  }
  return {
    is,
    isEnd: () => at >= tokens.length,
    unexpected,
    skip: (type, value) => {
      const isThere = is(type, value)
      if (isThere) at += 1
      return isThere
    },
    expect: (type, value) => {
      if (!is(type, value)) throw unexpected(value === undefined ? type : `'${value}'`)
      at += 1
      return tokens[at - 1]!.value
    },
  }
}

/** Returns true if the next token is one of these words. */
export const isWord = (cursor: Cursor, ...words: readonly string[]): boolean =>
  words.some((word) => cursor.is('Identifier', word))
