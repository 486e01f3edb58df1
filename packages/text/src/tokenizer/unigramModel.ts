/**
 * The Unigram model: of all ways to spell a piece with tokens, it takes the one with the largest
 * sum of scores.
 */
import { tokenizerWork } from './budget.js'
import type { ModelJson } from './files.js'
import { byteToken, type CutPiece, type Model, remembering, vocabularyOf } from './model.js'

type UnigramJson = Extract<ModelJson, { readonly type: 'Unigram' }>

/** A tree of the tokens by their code units. */
interface Node {
  readonly children: Map<number, Node>
  id: number
}

const newNode = (): Node => ({ children: new Map(), id: -1 })

const trieOf = (ids: ReadonlyMap<string, number>, forbidden: ReadonlySet<number>): Node => {
  const root = newNode()
  for (const [token, id] of ids) {
    if (forbidden.has(id) || token === '') continue
    let node = root
    for (let i = 0; i < token.length; i++) {
      const unit = token.charCodeAt(i)
      const child = node.children.get(unit) ?? newNode()
      node.children.set(unit, child)
      node = child
    }
    node.id = id
  }
  return root
}

/** The score of an unknown character below that of the worst token. */
const UNKNOWN_PENALTY = 10

/** The best path to each position of a piece: the start and the id of its last token. */
interface Paths {
  readonly starts: Int32Array
  readonly ids: Int32Array
}

interface Scored {
  readonly scores: Float64Array
  readonly unknownScore: number
  readonly unknown: number
}

/** Computes the best path to each position, from the left. */
const bestPaths = (piece: string, root: Node, { scores, unknownScore, unknown }: Scored): Paths => {
  const best = new Float64Array(piece.length + 1)
  const starts = new Int32Array(piece.length + 1).fill(-1)
  const ids = new Int32Array(piece.length + 1)
  const offer = (start: number, end: number, id: number, score: number): void => {
    const sum = best[start]! + score
    if (starts[end]! >= 0 && sum <= best[end]!) return
    best[end] = sum
    starts[end] = start
    ids[end] = id
  }
  for (let start = 0; start < piece.length; ) {
    const width = piece.codePointAt(start)! > 0xffff ? 2 : 1
    let hasCharacter = false
    let node = root.children.get(piece.charCodeAt(start))
    let end = start + 1
    for (; node !== undefined; end++) {
      if (node.id >= 0) {
        offer(start, end, node.id, scores[node.id]!)
        hasCharacter ||= end === start + width
      }
      node = end < piece.length ? node.children.get(piece.charCodeAt(end)) : undefined
    }
    tokenizerWork.spend(end - start)
    if (!hasCharacter) offer(start, start + width, unknown, unknownScore)
    start += width
  }
  return { starts, ids }
}

/** Returns the parts of the best path. Unknown characters in a row are one part. */
const partsOf = ({ starts, ids }: Paths, unknown: number): readonly { start: number; end: number }[] => {
  const parts: { start: number; end: number }[] = []
  let isUnknown = false
  for (let end = starts.length - 1; end > 0; ) {
    const start = starts[end]!
    const last = parts.at(-1)
    if (ids[end] === unknown && isUnknown && last !== undefined) last.start = start
    else parts.push({ start, end })
    isUnknown = ids[end] === unknown
    end = start
  }
  return parts.reverse()
}

/**
 * Creates a unigram model.
 *
 * Errors   throws RangeError for the id of an unknown token outside the vocabulary.
 * Cost     O(n) look-ups for a piece of n characters, one of the tokens that begin at each.
 * Source   Kudo 2018, arXiv:1804.10959; the search is SentencePiece's `EncodeOptimized`.
 */
export const unigramModel = (json: UnigramJson): Model => {
  const unknown = json.unk_id
  if (unknown >= json.vocab.length) {
    throw new RangeError(`unk_id is ${unknown}, but the vocabulary has ${json.vocab.length} tokens`)
  }
  const vocabulary = vocabularyOf(json.vocab.map(([token], id) => [token, id] as const))
  const scores = Float64Array.from(json.vocab, ([, score]) => score)
  const unknownScore =
    scores.reduce((least, score) => Math.min(least, score), Number.POSITIVE_INFINITY) - UNKNOWN_PENALTY
  const scored: Scored = { scores, unknownScore, unknown }
  const encoder = new TextEncoder()
  const cutter = (forbidden: ReadonlySet<number>): CutPiece => {
    const root = trieOf(vocabulary.ids, forbidden)
    const idsOf = (text: string): readonly number[] => {
      const id = vocabulary.ids.get(text)
      if (id !== undefined && !forbidden.has(id)) return [id]
      const bytes =
        json.byte_fallback === true
          ? Array.from(encoder.encode(text), (byte) => vocabulary.ids.get(byteToken(byte)))
          : [undefined]
      return bytes.every((byte) => byte !== undefined) ? bytes : [unknown]
    }
    return remembering((piece) =>
      Int32Array.from(
        partsOf(bestPaths(piece, root, scored), unknown).flatMap(({ start, end }) =>
          idsOf(piece.slice(start, end)).flatMap((id) => [id, start, end]),
        ),
      ),
    )
  }
  return { vocabulary, cutter, unknown }
}
