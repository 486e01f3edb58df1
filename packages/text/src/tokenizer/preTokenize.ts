/**
 * The pre-tokenizers of `tokenizer.json`, which split a text into pieces before the model splits
 * the pieces into tokens.
 */
import { type AlignedText, mapCharacters, originStart, prepend, sliceAligned, substitute } from './alignedText.js'
import { byteCharacters } from './bytePairEncoding.js'
import type { SimplePreTokenizer, SplitBehavior } from './files.js'
import { PUNCTUATION, WORD_CHARACTERS } from './oldUnicode.js'
import { compilePattern, type FindMatches, type Found, findAll, matchesOf } from './pattern.js'

/** Splits a piece into pieces that are not empty. */
type Cut = (piece: AlignedText) => readonly AlignedText[]

export interface PreTokenizer {
  readonly cut: (section: AlignedText) => readonly AlignedText[]
  /**
   * The input of the model: the characters of a piece, or its UTF-8 bytes as GPT-2's characters.
   */
  readonly alphabet: 'characters' | 'bytes'
}

interface Range {
  readonly start: number
  readonly end: number
}

/** Joins each range to the one before it where `joins` returns 'join'. */
const joinBack = (
  found: readonly Found[],
  joins: (here: Found, before: Found | undefined) => 'join' | 'apart',
): readonly Range[] =>
  found.reduce<Range[]>((ranges, here, i) => {
    const last = ranges.at(-1)
    if (last !== undefined && joins(here, found[i - 1]) === 'join') {
      ranges[ranges.length - 1] = { start: last.start, end: here.end }
    } else {
      ranges.push(here)
    }
    return ranges
  }, [])

/** Joins a match with the text after it. Of several matches in a row, only the last one joins. */
const joinNext = (found: readonly Found[]): readonly Range[] =>
  found
    .reduceRight<Range[]>((ranges, here, i) => {
      const next = ranges.at(-1)
      if (next !== undefined && here.isMatch && found[i + 1]?.isMatch !== true) {
        ranges[ranges.length - 1] = { start: here.start, end: next.end }
      } else {
        ranges.push(here)
      }
      return ranges
    }, [])
    .reverse()

const rangesOf = (found: readonly Found[], behavior: SplitBehavior): readonly Range[] => {
  switch (behavior) {
    case 'Removed':
      return found.filter(({ isMatch }) => !isMatch)
    case 'Isolated':
      return found
    case 'MergedWithPrevious':
      return joinBack(found, (here, before) => (here.isMatch && before?.isMatch !== true ? 'join' : 'apart'))
    case 'MergedWithNext':
      return joinNext(found)
    case 'Contiguous':
      return joinBack(found, (here, before) => (here.isMatch === (before?.isMatch ?? false) ? 'join' : 'apart'))
  }
}

/** Splits at the matches of an expression, or with 'remain' at the text between them. */
const split =
  (find: FindMatches, behavior: SplitBehavior, matches: 'delimit' | 'remain' = 'delimit'): Cut =>
  (piece) => {
    const found = findAll(piece.text, find)
    const delimiters = matches === 'delimit' ? found : found.map((range) => ({ ...range, isMatch: !range.isMatch }))
    return rangesOf(delimiters, behavior)
      .filter(({ start, end }) => end > start)
      .map(({ start, end }) => sliceAligned(piece, start, end))
  }

/** Makes each match of an expression and each gap a piece: a faster `split` by `Isolated`. */
const isolate =
  (find: FindMatches): Cut =>
  (piece) => {
    const { text } = piece
    const pieces: AlignedText[] = []
    let end = 0
    for (const match of find(text)) {
      const { index } = match
      if (index > end) pieces.push(sliceAligned(piece, end, index))
      end = index + match[0].length
      if (end > index) pieces.push(sliceAligned(piece, index, end))
    }
    if (end < text.length) pieces.push(end === 0 ? piece : sliceAligned(piece, end, text.length))
    return pieces
  }

const inOrder =
  (steps: readonly Cut[]): Cut =>
  (piece) =>
    steps.reduce<readonly AlignedText[]>((pieces, step) => pieces.flatMap(step), [piece])

const WHITE_SPACE = matchesOf(/\p{White_Space}/gu)
const BERT_PUNCTUATION = matchesOf(new RegExp(PUNCTUATION.source, 'gu'))
const WORDS = matchesOf(new RegExp(`[${WORD_CHARACTERS}]+|[^${WORD_CHARACTERS}\\p{White_Space}]+`, 'gu'))
const GPT2 = matchesOf(
  /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu,
)
const DIGITS = matchesOf(/\p{N}/gu)
const SPACE = matchesOf(/ /g)

const BYTE_CHARACTERS = byteCharacters()
const encoder = new TextEncoder()

/** Spells a piece with a character for each byte, for the pre-tokenizers that follow. */
const spellBytes: Cut = (piece) => [
  mapCharacters(piece, (character) => Array.from(encoder.encode(character), (byte) => BYTE_CHARACTERS[byte]!).join('')),
]

const leadingSpace: Cut = (piece) => [piece.text.startsWith(' ') ? piece : prepend(piece, ' ')]

const metaspace = (json: Extract<SimplePreTokenizer, { readonly type: 'Metaspace' }>): Cut => {
  const { replacement, split: splits } = json
  const scheme = json.prepend_scheme ?? (json.add_prefix_space === false ? 'never' : 'always')
  const words = split(compilePattern({ String: replacement }), 'MergedWithNext')
  return (piece) => {
    const isPrefixed = scheme === 'always' || (scheme === 'first' && originStart(piece, 0) === 0)
    const marked = substitute(piece, SPACE, replacement)
    const begun = isPrefixed && !marked.text.startsWith(replacement) ? prepend(marked, replacement) : marked
    return splits ? words(begun) : [begun]
  }
}

const chunks =
  (length: number): Cut =>
  (piece) => {
    const pieces: AlignedText[] = []
    let start = 0
    let end = 0
    let count = 0
    for (const character of piece.text) {
      end += character.length
      if (++count % length !== 0 && end < piece.text.length) continue
      pieces.push(sliceAligned(piece, start, end))
      start = end
    }
    return pieces
  }

const compile = (json: SimplePreTokenizer): Cut => {
  switch (json.type) {
    case 'ByteLevel': {
      const cut = json.use_regex ? isolate(GPT2) : (piece: AlignedText) => [piece]
      return json.add_prefix_space ? inOrder([leadingSpace, cut]) : cut
    }
    case 'Metaspace':
      return metaspace(json)
    case 'Split': {
      const find = compilePattern(json.pattern)
      return json.behavior === 'Isolated'
        ? isolate(find)
        : split(find, json.behavior, json.invert ? 'remain' : 'delimit')
    }
    case 'CharDelimiterSplit':
      return split(compilePattern({ String: json.delimiter }), 'Removed')
    case 'BertPreTokenizer':
      return inOrder([split(WHITE_SPACE, 'Removed'), isolate(BERT_PUNCTUATION)])
    case 'Whitespace':
      return split(WORDS, 'Removed', 'remain')
    case 'WhitespaceSplit':
      return split(WHITE_SPACE, 'Removed')
    case 'Punctuation':
      return split(BERT_PUNCTUATION, json.behavior)
    case 'Digits':
      return split(DIGITS, json.individual_digits ? 'Isolated' : 'Contiguous')
    case 'FixedLength':
      return chunks(json.length)
  }
}

/**
 * Combines the pre-tokenizers of a file. Those after a ByteLevel split the characters that
 * represent bytes, as in Falcon's files.
 *
 * Errors   throws for a pattern that is not valid.
 */
export const preTokenizer = (steps: readonly SimplePreTokenizer[]): PreTokenizer => {
  const last = steps.length - 1
  const cuts = steps.map((json, i) =>
    json.type === 'ByteLevel' && i < last ? inOrder([compile(json), spellBytes]) : compile(json),
  )
  return { cut: inOrder(cuts), alphabet: steps[last]?.type === 'ByteLevel' ? 'bytes' : 'characters' }
}
