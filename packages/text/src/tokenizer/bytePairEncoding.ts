/**
 * Training of a byte-level byte pair encoding, into the contents of a Hugging Face
 * `tokenizer.json`.
 *
 * Source   Sennrich, Haddow and Birch 2016, arXiv:1508.07909 (merge the most frequent pair of
 *          symbols); Radford et al. 2019, GPT-2 (start from the 256 bytes, written as printable
 *          characters; merge within the pieces of a regular expression). Numbers are cut into
 *          single digits, as in Qwen2.
 */
import type { AddedTokenJson } from './files.js'
import { addedSpecial } from './settings.js'

/** The contents of `tokenizer.json`. */
export interface TokenizerJson {
  readonly version: '1.0'
  readonly truncation: null
  readonly padding: null
  readonly added_tokens: readonly AddedTokenJson[]
  readonly normalizer: null
  readonly pre_tokenizer: object
  readonly post_processor: null
  readonly decoder: object
  readonly model: {
    readonly type: 'BPE'
    readonly vocab: Readonly<Record<string, number>>
    /** In the order in which they were learned: `left right`. */
    readonly merges: readonly string[]
    readonly [setting: string]: unknown
  }
}

export interface BytePairEncodingOptions {
  /** The total number of tokens: 256 bytes, the learned ones, the special ones. */
  readonly vocabularySize: number
  /**
   * Tokens that are never split and never produced from plain text. They get the last ids, in this
   * order.
   */
  readonly specialTokens?: readonly string[]
  /** Called after each merge. */
  readonly onProgress?: (progress: TokenizerProgress) => void
}

/** The progress of training a tokenizer. */
export interface TokenizerProgress {
  /** Number of tokens so far, including special ones. */
  readonly tokens: number
  readonly vocabularySize: number
}

/** GPT-2's pieces with single digits: contractions, words, digits, punctuation, white space. */
const PIECE = String.raw`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

/** The same pattern as tokenizer libraries read it: JavaScript's own \s is another set. */
const PIECES = new RegExp(PIECE.replaceAll('\\s', '\\p{White_Space}').replaceAll('\\S', '\\P{White_Space}'), 'gu')

const isPrintable = (byte: number): boolean =>
  (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae

/**
 * Returns GPT-2's characters for the 256 bytes: a printable byte is its own Latin-1 character, the
 * n-th of the others is U+0100 + n.
 *
 * @example
 * byteCharacters()[0x20] // 'Ġ'
 */
export const byteCharacters = (): readonly string[] => {
  const bytes = Array.from({ length: 256 }, (_, byte) => byte)
  const others = bytes.filter((byte) => !isPrintable(byte))
  return bytes.map((byte) => String.fromCharCode(isPrintable(byte) ? byte : 0x100 + others.indexOf(byte)))
}

/**
 * A bound above every id, so that one number encodes a pair of ids and pairs compare by their first
 * and then their second id.
 */
const ID_LIMIT = 2 ** 20

/** A distinct piece of the texts: its current symbols, and its number of occurrences. */
interface Piece {
  symbols: readonly number[]
  readonly count: number
}

/**
 * The positions and counts of pairs of neighboring symbols. The counts change as pieces are
 * rewritten.
 */
interface Pairs {
  readonly counts: Map<number, number>
  /** Pieces that contain the pair, or once did. */
  readonly pieces: Map<number, Set<Piece>>
}

const escapePattern = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')

/** Counts each piece outside the special tokens. */
const countPieces = (texts: Iterable<string>, specialTokens: readonly string[]): ReadonlyMap<string, number> => {
  const longestFirst = [...specialTokens].sort((a, b) => b.length - a.length)
  const special = new RegExp(longestFirst.map(escapePattern).join('|'))
  const counts = new Map<string, number>()
  for (const text of texts) {
    for (const part of specialTokens.length === 0 ? [text] : text.split(special)) {
      for (const [piece] of part.matchAll(PIECES)) counts.set(piece, (counts.get(piece) ?? 0) + 1)
    }
  }
  return counts
}

const pairsOf = (symbols: readonly number[]): readonly number[] =>
  symbols.slice(1).map((right, i) => symbols[i]! * ID_LIMIT + right)

const addPiece = ({ counts, pieces }: Pairs, piece: Piece): void => {
  for (const pair of pairsOf(piece.symbols)) {
    counts.set(pair, (counts.get(pair) ?? 0) + piece.count)
    const places = pieces.get(pair)
    if (places === undefined) pieces.set(pair, new Set([piece]))
    else places.add(piece)
  }
}

const removePiece = ({ counts }: Pairs, piece: Piece): void => {
  for (const pair of pairsOf(piece.symbols)) {
    const rest = (counts.get(pair) ?? 0) - piece.count
    if (rest > 0) counts.set(pair, rest)
    else counts.delete(pair)
  }
}

/**
 * Returns the most frequent pair that may be merged. A tie goes to the smallest ids, so the order
 * of texts does not matter.
 */
const mostFrequent = (counts: ReadonlyMap<number, number>, mayMerge: (pair: number) => boolean): number | undefined => {
  let best: number | undefined
  let most = 0
  for (const [pair, count] of counts) {
    if (count < most || (count === most && best !== undefined && pair > best) || !mayMerge(pair)) continue
    best = pair
    most = count
  }
  return best
}

/** Replaces every `left`, `right` by `merged`, from the left. */
const merge = (symbols: readonly number[], pair: number, merged: number): readonly number[] => {
  const result: number[] = []
  for (let i = 0; i < symbols.length; i++) {
    const found = i + 1 < symbols.length && symbols[i]! * ID_LIMIT + symbols[i + 1]! === pair
    result.push(found ? merged : symbols[i]!)
    if (found) i++
  }
  return result
}

interface Learned {
  /** Element i is the token with id i. */
  readonly tokens: readonly string[]
  readonly merges: readonly string[]
}

interface LearnOptions {
  readonly size: number
  readonly forbidden: ReadonlySet<string>
  readonly onToken: (tokens: number) => void
}

/** Merges the most frequent pair until there are `size` tokens, or no pair is left to merge. */
const learn = (
  pieces: readonly Piece[],
  alphabet: readonly string[],
  { size, forbidden, onToken }: LearnOptions,
): Learned => {
  const tokens = [...alphabet]
  const ids = new Map(tokens.map((token, id) => [token, id]))
  const merges = new Set<string>() // in order; a pair can come back when another pair spells the same token
  const pairs: Pairs = { counts: new Map(), pieces: new Map() }
  for (const piece of pieces) addPiece(pairs, piece)
  const halves = (pair: number): readonly [string, string] => [
    tokens[Math.floor(pair / ID_LIMIT)]!,
    tokens[pair % ID_LIMIT]!,
  ]
  while (tokens.length < size) {
    const pair = mostFrequent(pairs.counts, (candidate) => !forbidden.has(halves(candidate).join('')))
    if (pair === undefined) break
    const token = halves(pair).join('')
    const id = ids.get(token) ?? tokens.push(token) - 1
    ids.set(token, id)
    merges.add(halves(pair).join(' '))
    for (const piece of pairs.pieces.get(pair) ?? []) {
      removePiece(pairs, piece)
      piece.symbols = merge(piece.symbols, pair, id)
      addPiece(pairs, piece)
    }
    pairs.pieces.delete(pair)
    onToken(tokens.length)
  }
  return { tokens, merges: [...merges] }
}

const checkTraining = (vocabularySize: number, specialTokens: readonly string[], alphabet: readonly string[]): void => {
  const least = alphabet.length + specialTokens.length
  if (!Number.isInteger(vocabularySize) || vocabularySize < least || vocabularySize > ID_LIMIT) {
    throw new RangeError(
      `trainBytePairEncoding: vocabularySize must be an integer from ${least} (256 bytes and ${specialTokens.length} special tokens) to ${ID_LIMIT}, got ${vocabularySize}`,
    )
  }
  const bad = specialTokens.find(
    (token, i) => token === '' || alphabet.includes(token) || specialTokens.indexOf(token) < i,
  )
  if (bad !== undefined) {
    throw new RangeError(
      `trainBytePairEncoding: special tokens must be distinct, not empty and not the character of a byte, got '${bad}'`,
    )
  }
}

/** Builds the file from the learned tokens and merges. */
const tokenizerJson = ({ tokens, merges }: Learned, specialTokens: readonly string[]): TokenizerJson => ({
  version: '1.0',
  truncation: null,
  padding: null,
  added_tokens: specialTokens.map((content, i) => addedSpecial(content, tokens.length + i)),
  normalizer: null,
  pre_tokenizer: {
    type: 'Sequence',
    pretokenizers: [
      { type: 'Split', pattern: { Regex: PIECE }, behavior: 'Isolated', invert: false },
      { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false },
    ],
  },
  post_processor: null,
  decoder: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: false, use_regex: false },
  model: {
    type: 'BPE',
    dropout: null,
    unk_token: null,
    continuing_subword_prefix: null,
    end_of_word_suffix: null,
    fuse_unk: false,
    byte_fallback: false,
    ignore_merges: false,
    vocab: Object.fromEntries(tokens.map((token, id) => [token, id])),
    merges,
  },
})

/**
 * Trains a tokenizer that spends its vocabulary on the most frequent byte sequences of the texts.
 *
 * Ids 0 to 255 are the bytes, in the order of their characters; then the learned tokens, in the
 * order of their merges; then the special tokens. Every text can be encoded and decoded again. A
 * digit is always a token of its own. Special tokens in the texts are cut out and not learned from.
 * The order of the texts does not matter: of equally frequent pairs, the one with the smaller ids
 * is merged.
 *
 * The vocabulary has exactly `vocabularySize` tokens, or fewer if no piece has a pair left to
 * merge.
 *
 * Errors   throws RangeError for a vocabulary smaller than bytes and special tokens or larger than
 *          2^20, and for a special token that is empty, given twice, or the character of a byte.
 * Effects  those of `onProgress`. Equal texts give an equal tokenizer.
 * Source   the merges are those of `BpeTrainer` in Hugging Face tokenizers 0.23.3, in the same
 *          order (compared on GSM8K, 3837 merges).
 * Cost     one pass over all distinct pairs for each merge: seconds for a few thousand merges of
 *          tens of thousands of distinct words.
 *
 * @example
 * trainBytePairEncoding(['low low lower'], { vocabularySize: 259 }).model.merges // ['l o', 'lo w', 'Ġ low']
 */
export const trainBytePairEncoding = (texts: Iterable<string>, options: BytePairEncodingOptions): TokenizerJson => {
  const { vocabularySize, specialTokens = [], onProgress } = options
  const characters = byteCharacters()
  const alphabet = [...characters].sort((a, b) => a.charCodeAt(0) - b.charCodeAt(0))
  checkTraining(vocabularySize, specialTokens, alphabet)
  const idOfByte = characters.map((character) => alphabet.indexOf(character))
  const encoder = new TextEncoder()
  const pieces = Array.from(
    countPieces(texts, specialTokens),
    ([piece, count]): Piece => ({ symbols: Array.from(encoder.encode(piece), (byte) => idOfByte[byte]!), count }),
  )
  const size = vocabularySize - specialTokens.length
  const onToken = (tokens: number): void => onProgress?.({ tokens: tokens + specialTokens.length, vocabularySize })
  return tokenizerJson(learn(pieces, alphabet, { size, forbidden: new Set(specialTokens), onToken }), specialTokens)
}
