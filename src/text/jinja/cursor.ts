/** A place in the tokens of a template: what a parser reads from. */
import type { tokenize } from '@huggingface/jinja'

type Token = ReturnType<typeof tokenize>[number]
export type TokenType = Token['type']

/** Reads tokens from the left. It is the one thing of a parse that moves. */
export interface Cursor {
  /** Whether the token at the place, or some places further on, is of a type and has a text. */
  readonly is: (type: TokenType, value?: string, ahead?: number) => boolean
  /** Goes over a token if it is there. */
  readonly skip: (type: TokenType, value?: string) => boolean
  /** The text of a token that must be there, and the place after it. */
  readonly expect: (type: TokenType, value?: string) => string
  readonly isEnd: () => boolean
  /** A refusal that names what was found. */
  readonly unexpected: (wanted: string) => SyntaxError
}

/** A cursor before the first token. */
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

/** Whether the next token is one of these words. */
export const isWord = (cursor: Cursor, ...words: readonly string[]): boolean =>
  words.some((word) => cursor.is('Identifier', word))
