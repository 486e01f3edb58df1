/** Byte pair encoding: merges the pair of neighbors that was learned first, from the left. */
import { tokenizerWork } from './budget.js'
import { byteCharacters } from './bytePairEncoding.js'
import type { ModelJson } from './files.js'
import { byteToken, type CutPiece, type Model, remembering, type Vocabulary, vocabularyOf } from './model.js'

type BytePairJson = Extract<ModelJson, { readonly type: 'BPE' }>

interface Merges {
  /** By left id, by right id: the rank of the merge. */
  readonly ranks: ReadonlyMap<number, ReadonlyMap<number, number>>
  /** By rank: the id of the merged token. */
  readonly merged: Int32Array
}

const readMerges = (json: BytePairJson, { ids }: Vocabulary): Merges => {
  const prefix = json.continuing_subword_prefix ?? ''
  const ranks = new Map<number, Map<number, number>>()
  const idOf = (token: string, rank: number): number => {
    const id = ids.get(token)
    if (id === undefined) throw new RangeError(`merge ${rank} has the token '${token}', which is not in the vocabulary`)
    return id
  }
  const merged = Int32Array.from(json.merges, (merge, rank) => {
    const [left = '', right = ''] = typeof merge === 'string' ? merge.split(' ') : merge
    const leftId = idOf(left, rank)
    const rights = ranks.get(leftId) ?? new Map<number, number>()
    ranks.set(leftId, rights.set(idOf(right, rank), rank))
    return idOf(left + right.slice(prefix.length), rank)
  })
  return { ranks, merged }
}

/** Creates a min-heap of numbers. */
const heap = () => {
  const items: number[] = []
  const put = (place: number, item: number): void => {
    items[place] = item
  }
  return {
    push: (item: number): void => {
      let place = items.push(item) - 1
      while (place > 0) {
        const parent = (place - 1) >> 1
        if (items[parent]! <= item) break
        put(place, items[parent]!)
        place = parent
      }
      put(place, item)
    },
    pop: (): number | undefined => {
      const least = items[0]
      const last = items.pop()
      if (last === undefined || items.length === 0) return least
      let place = 0
      for (;;) {
        let child = 2 * place + 1
        if (child >= items.length) break
        if (child + 1 < items.length && items[child + 1]! < items[child]!) child++
        if (items[child]! >= last) break
        put(place, items[child]!)
        place = child
      }
      put(place, last)
      return least
    },
  }
}

/**
 * Packs a rank and a position into one number. Numbers compare by rank, and equal ranks by
 * position.
 */
const POSITIONS = 2 ** 30

/** The symbols of a piece before any merge. */
interface Symbols {
  readonly ids: number[]
  readonly starts: number[]
  readonly ends: number[]
}

/** Merges until no pair of neighbors may be merged. */
const mergeAll = (
  { ids, starts, ends }: Symbols,
  { ranks, merged }: Merges,
  forbidden: ReadonlySet<number>,
): Int32Array => {
  const next = ids.map((_, i) => (i + 1 < ids.length ? i + 1 : -1))
  const previous = ids.map((_, i) => i - 1)
  const queue = heap()
  const rankAt = (left: number): number | undefined => {
    const right = left < 0 ? -1 : next[left]!
    const rank = right < 0 ? undefined : ranks.get(ids[left]!)?.get(ids[right]!)
    return rank === undefined || forbidden.has(merged[rank]!) ? undefined : rank
  }
  const offer = (left: number): void => {
    const rank = rankAt(left)
    if (rank !== undefined) queue.push(rank * POSITIONS + left)
  }
  for (let i = 0; i < ids.length; i++) offer(i)
  for (let item = queue.pop(); item !== undefined; item = queue.pop()) {
    const left = item % POSITIONS
    const id = merged[Math.floor(item / POSITIONS)]!
    const rank = ids[left]! < 0 ? undefined : rankAt(left)
    if (rank === undefined || merged[rank] !== id) continue // one of the two has been merged since
    const right = next[left]!
    ids[left] = id
    ends[left] = ends[right]!
    ids[right] = -1
    next[left] = next[right]!
    if (next[left]! >= 0) previous[next[left]!] = left
    offer(left)
    offer(previous[left]!)
  }
  const tokens: number[] = []
  for (let i = ids.length === 0 ? -1 : 0; i >= 0; i = next[i]!) tokens.push(ids[i]!, starts[i]!, ends[i]!)
  return Int32Array.from(tokens)
}

/** A symbol in the spelling of the vocabulary, with its range of the piece. */
interface Spelled {
  readonly text: string
  readonly start: number
  readonly end: number
}

const BYTE_CHARACTERS = byteCharacters()

const charactersOf = (piece: string): readonly Spelled[] => {
  let end = 0
  return Array.from(piece, (text) => {
    end += text.length
    return { text, start: end - text.length, end }
  })
}

const encoder = new TextEncoder()

const bytesOf = (piece: string): readonly Spelled[] =>
  charactersOf(piece).flatMap(({ text, start, end }) =>
    Array.from(encoder.encode(text), (byte) => ({ text: BYTE_CHARACTERS[byte]!, start, end })),
  )

interface Spelling {
  readonly spell: (piece: string) => readonly Spelled[]
  readonly idOf: (text: string) => number | undefined
  readonly unknown: number | undefined
}

/**
 * Returns the initial symbols of a piece. Text that the vocabulary lacks becomes bytes, the unknown
 * token, or nothing.
 */
const symbolsOf = (json: BytePairJson, { spell, idOf, unknown }: Spelling, piece: string): Symbols => {
  const symbols: Symbols = { ids: [], starts: [], ends: [] }
  const add = (id: number, start: number, end: number): void => {
    symbols.ids.push(id)
    symbols.starts.push(start)
    symbols.ends.push(end)
  }
  const spelled = spell(piece)
  let pending: Spelled | undefined
  const flush = (): void => {
    if (pending !== undefined && unknown !== undefined) add(unknown, pending.start, pending.end)
    pending = undefined
  }
  for (const [i, symbol] of spelled.entries()) {
    const prefix = i > 0 ? (json.continuing_subword_prefix ?? '') : ''
    const suffix = i === spelled.length - 1 ? (json.end_of_word_suffix ?? '') : ''
    tokenizerWork.spendCharacters(prefix.length + suffix.length)
    const text = `${prefix}${symbol.text}${suffix}`
    const id = idOf(text)
    if (id !== undefined) {
      flush()
      add(id, symbol.start, symbol.end)
      continue
    }
    const bytes = json.byte_fallback === true ? Array.from(encoder.encode(text), (byte) => idOf(byteToken(byte))) : []
    if (bytes.length > 0 && bytes.every((byte) => byte !== undefined)) {
      for (const byte of bytes) add(byte, symbol.start, symbol.end)
      continue
    }
    if (json.fuse_unk === true && pending !== undefined) {
      pending = { ...symbol, start: pending.start }
    } else {
      flush()
      pending = symbol
    }
  }
  flush()
  return symbols
}

/**
 * Creates a byte pair encoding model.
 *
 * Errors   throws RangeError for a merge of tokens, or an unknown token, that the vocabulary lacks.
 * Cost     O(n log n) for a piece of n characters.
 */
export const bytePairModel = (json: BytePairJson, alphabet: 'characters' | 'bytes'): Model => {
  const vocabulary = vocabularyOf(Object.entries(json.vocab))
  const merges = readMerges(json, vocabulary)
  const unknownToken = json.unk_token ?? undefined
  const unknown = unknownToken === undefined ? undefined : vocabulary.ids.get(unknownToken)
  if (unknownToken !== undefined && unknown === undefined) {
    throw new RangeError(`the unknown token '${unknownToken}' is not in the vocabulary`)
  }
  const spell = alphabet === 'bytes' ? bytesOf : charactersOf
  const cutter = (forbidden: ReadonlySet<number>): CutPiece => {
    const idOf = (text: string): number | undefined => {
      const id = vocabulary.ids.get(text)
      return id === undefined || forbidden.has(id) ? undefined : id
    }
    const spelling: Spelling = { spell, idOf, unknown }
    const wholeId = (piece: string): number | undefined =>
      json.ignore_merges === true
        ? idOf(
            spell(piece)
              .map(({ text }) => text)
              .join(''),
          )
        : undefined
    return remembering((piece) => {
      const whole = wholeId(piece)
      if (whole !== undefined) return Int32Array.of(whole, 0, piece.length)
      return mergeAll(symbolsOf(json, spelling, piece), merges, forbidden)
    })
  }
  return { vocabulary, cutter, unknown }
}
