/**
 * Models that look pieces up in a list of words. WordPiece takes the longest match from the left,
 * WordLevel the whole piece.
 */
import { tokenizerWork } from './budget.js'
import type { ModelJson } from './files.js'
import { type Model, remembering, vocabularyOf } from './model.js'

type Json<T> = Extract<ModelJson, { readonly type: T }>

const unknownOf = (json: Json<'WordPiece' | 'WordLevel'>): number => {
  const id = new Map(Object.entries(json.vocab)).get(json.unk_token)
  if (id === undefined) throw new RangeError(`the unknown token '${json.unk_token}' is not in the vocabulary`)
  return id
}

/**
 * Creates a WordPiece model. A piece that cannot be spelled to its end, or that is too long, is one
 * unknown token.
 *
 * Errors   throws RangeError if the vocabulary lacks the unknown token.
 */
export const wordPieceModel = (json: Json<'WordPiece'>): Model => {
  const { ids, tokens } = vocabularyOf(Object.entries(json.vocab))
  const unknown = unknownOf(json)
  const longest = Array.from(ids.keys()).reduce((length, token) => Math.max(length, token.length), 0)
  const isHalf = (piece: string, end: number): boolean =>
    end < piece.length && piece.charCodeAt(end) >= 0xdc00 && piece.charCodeAt(end) < 0xe000
  return {
    vocabulary: { ids, tokens },
    unknown,
    cutter: (forbidden) => {
      const longestFrom = (piece: string, start: number): readonly [number, number] | undefined => {
        const prefix = start > 0 ? json.continuing_subword_prefix : ''
        for (let end = Math.min(piece.length, start + longest); end > start; end--) {
          if (isHalf(piece, end)) continue
          tokenizerWork.spend(1)
          tokenizerWork.spendCharacters(prefix.length + end - start)
          const id = ids.get(prefix + piece.slice(start, end))
          if (id !== undefined && !forbidden.has(id)) return [id, end]
        }
        return undefined
      }
      return remembering((piece) => {
        const wholly = Int32Array.of(unknown, 0, piece.length)
        if (Array.from(piece).length > json.max_input_chars_per_word) return wholly
        const found: number[] = []
        for (let start = 0; start < piece.length; ) {
          const match = longestFrom(piece, start)
          if (match === undefined) return wholly
          const [id, end] = match
          found.push(id, start, end)
          start = end
        }
        return Int32Array.from(found)
      })
    },
  }
}

/**
 * Creates a WordLevel model. Errors: throws RangeError if the vocabulary lacks the unknown token.
 */
export const wordLevelModel = (json: Json<'WordLevel'>): Model => {
  const vocabulary = vocabularyOf(Object.entries(json.vocab))
  const unknown = unknownOf(json)
  return {
    vocabulary,
    unknown,
    cutter: (forbidden) => (piece) => {
      const id = vocabulary.ids.get(piece)
      return Int32Array.of(id === undefined || forbidden.has(id) ? unknown : id, 0, piece.length)
    },
  }
}
