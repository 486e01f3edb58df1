/** The common interface of all models: a vocabulary, and the tokens of a piece of text. */

/**
 * Token ids of a piece with their ranges of it, in UTF-16 code units: id, start, end; id, start,
 * end; ...
 */
type PieceTokens = Int32Array

export interface Vocabulary {
  readonly ids: ReadonlyMap<string, number>
  readonly tokens: ReadonlyMap<number, string>
}

/**
 * Splits a piece into tokens. Ids of `forbidden` are never produced; their text is split further.
 */
export type CutPiece = (piece: string) => PieceTokens

export interface Model {
  readonly vocabulary: Vocabulary
  readonly cutter: (forbidden: ReadonlySet<number>) => CutPiece
  /** The id for text that no other token spells, if the model has one. */
  readonly unknown: number | undefined
}

export const vocabularyOf = (pairs: Iterable<readonly [string, number]>): Vocabulary => {
  const ids = new Map(pairs)
  return { ids, tokens: new Map(Array.from(ids, ([token, id]) => [id, token])) }
}

/** Returns the text of the token for a single byte. */
export const byteToken = (byte: number): string => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`

const CACHED_PIECES = 20_000
const LONGEST_CACHED_PIECE = 64

/** Adds a cache for short pieces, which is cleared when it is full. */
export const remembering = (cut: CutPiece): CutPiece => {
  const known = new Map<string, PieceTokens>()
  return (piece) => {
    const before = known.get(piece)
    if (before !== undefined) return before
    const tokens = cut(piece)
    if (piece.length > LONGEST_CACHED_PIECE) return tokens
    if (known.size >= CACHED_PIECES) known.clear()
    known.set(piece, tokens)
    return tokens
  }
}
