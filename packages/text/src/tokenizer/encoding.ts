/**
 * The tokens of a text with their offsets, types and masks: truncated, framed by a template,
 * padded.
 */
import { joinInts } from '@tandem-rl/base'

/** Columns of one row for each token. */
export interface Encoding {
  readonly ids: Int32Array
  /**
   * The UTF-16 code units [offsets[2t], offsets[2t + 1]) of the text for token t; 0, 0 for a token
   * that was added.
   */
  readonly offsets: Int32Array
  /** The type ids that the template assigns: 0, and usually 1 for the second text. */
  readonly typeIds: Int32Array
  /**
   * The text that a token came from: 0, or 1 for the second text, or -1 for tokens that were added.
   */
  readonly texts: Int32Array
  /** 1 for tokens, 0 for padding. */
  readonly attentionMask: Int32Array
  /** 1 for tokens that the template or the padding added, 0 for those of a text. */
  readonly specialTokensMask: Int32Array
}

/** The side on which tokens are removed or added. */
export type Side = 'left' | 'right'

export interface TruncationOptions {
  /** The maximum number of tokens, including those of the template. */
  readonly maxLength: number
  /** The side on which tokens are cut off. Default: 'right'. */
  readonly side?: Side
  /** The number of tokens that neighboring windows share. Default: 0. */
  readonly stride?: number
}

export interface PaddingOptions {
  readonly id: number
  readonly typeId?: number
  /** Default: 'right'. Policies that generate need 'left'. */
  readonly side?: Side
  /** The target length. Default: the longest of the batch. Longer encodings are not changed. */
  readonly length?: number | 'longest'
  /** The length is rounded up to a multiple of this. */
  readonly multipleOf?: number
}

const columns = ['ids', 'typeIds', 'texts', 'attentionMask', 'specialTokensMask'] as const

const build = (column: (name: (typeof columns)[number]) => Int32Array, offsets: Int32Array): Encoding => ({
  ids: column('ids'),
  offsets,
  typeIds: column('typeIds'),
  texts: column('texts'),
  attentionMask: column('attentionMask'),
  specialTokensMask: column('specialTokensMask'),
})

/** Concatenates encodings. */
export const concatenateEncodings = (parts: readonly Encoding[]): Encoding =>
  build((name) => joinInts(parts.map((part) => part[name])), joinInts(parts.map(({ offsets }) => offsets)))

/** Returns the tokens from `start` to `end`. */
const sliceEncoding = (whole: Encoding, start: number, end: number): Encoding =>
  build((name) => whole[name].slice(start, end), whole.offsets.slice(2 * start, 2 * end))

/** Creates the encoding of the tokens of a text. */
export const textEncoding = (ids: Int32Array, offsets: Int32Array, text: 0 | 1): Encoding => ({
  ids,
  offsets,
  typeIds: new Int32Array(ids.length).fill(text),
  texts: new Int32Array(ids.length).fill(text),
  attentionMask: new Int32Array(ids.length).fill(1),
  specialTokensMask: new Int32Array(ids.length),
})

/** Creates the encoding of tokens that a template adds. */
export const addedEncoding = (ids: readonly number[], typeId: number): Encoding => ({
  ids: Int32Array.from(ids),
  offsets: new Int32Array(2 * ids.length),
  typeIds: new Int32Array(ids.length).fill(typeId),
  texts: new Int32Array(ids.length).fill(-1),
  attentionMask: new Int32Array(ids.length).fill(1),
  specialTokensMask: new Int32Array(ids.length).fill(1),
})

const requireCount = (value: number, name: string, least: number): void => {
  if (!Number.isInteger(value) || value < least) {
    throw new RangeError(`${name} must be an integer of at least ${least}, got ${value}`)
  }
}

/**
 * Splits an encoding into windows of at most `maxLength` tokens. Truncation keeps the first window
 * and cuts off the others.
 *
 * Neighbors share `stride` tokens. With the side 'left', the first window is the end of the text.
 *
 * Errors   throws RangeError unless 0 <= stride < maxLength.
 *
 * @example
 * const tokenizer = orThrow(textTokenizer(trainBytePairEncoding([], { vocabularySize: 256 })))
 * windows(tokenizer.encoding('abcde'), { maxLength: 2 }).length // 3
 */
export const windows = (encoding: Encoding, options: TruncationOptions): readonly Encoding[] => {
  const { maxLength, side = 'right', stride = 0 } = options
  requireCount(maxLength, 'maxLength', 1)
  requireCount(stride, 'stride', 0)
  if (stride >= maxLength) throw new RangeError(`stride must be less than maxLength, got ${stride} and ${maxLength}`)
  const { length } = encoding.ids
  if (length <= maxLength) return [encoding]
  const count = Math.ceil((length - maxLength) / (maxLength - stride)) + 1
  return Array.from({ length: count }, (_, i) => {
    const at = i * (maxLength - stride)
    return side === 'right'
      ? sliceEncoding(encoding, at, Math.min(at + maxLength, length))
      : sliceEncoding(encoding, Math.max(length - at - maxLength, 0), length - at)
  })
}

/**
 * Pads encodings to one length. The attention mask of padding is 0.
 *
 * Shapes   B encodings of any lengths give B encodings; with `length: 'longest'` all are as long as
 *          the longest, rounded up to `multipleOf`.
 * Errors   throws RangeError for a length or a multiple that is not a positive integer.
 *
 * @example
 * const tokenizer = orThrow(textTokenizer(trainBytePairEncoding([], { vocabularySize: 256 })))
 * padEncodings([tokenizer.encoding('ab')], { id: 0, multipleOf: 4 })[0]!.attentionMask // [1, 1, 0, 0]
 */
export const padEncodings = (encodings: readonly Encoding[], options: PaddingOptions): readonly Encoding[] => {
  const { id, typeId = 0, side = 'right', length = 'longest', multipleOf = 1 } = options
  requireCount(multipleOf, 'multipleOf', 1)
  if (length !== 'longest') requireCount(length, 'length', 1)
  const longest = encodings.reduce((most, { ids }) => Math.max(most, ids.length), 0)
  const wanted = Math.ceil((length === 'longest' ? longest : length) / multipleOf) * multipleOf
  return encodings.map((encoding) => {
    const missing = wanted - encoding.ids.length
    if (missing <= 0) return encoding
    const padding: Encoding = {
      ...addedEncoding(Array<number>(missing).fill(id), typeId),
      attentionMask: new Int32Array(missing),
    }
    return concatenateEncodings(side === 'left' ? [padding, encoding] : [encoding, padding])
  })
}

const utf8Width = (text: string, at: number): number => {
  const code = text.codePointAt(at) ?? 0
  if (code < 0x80) return 1
  if (code < 0x800) return 2
  return code < 0x10000 ? 3 : 4
}

/**
 * Converts offsets in UTF-16 code units to offsets in UTF-8 bytes of the same text.
 *
 * Shapes   `offsets` is any list of positions in the text, such as `Encoding.offsets`, `[2T]`; the
 *          result is as long.
 * Errors   throws RangeError for a position outside the text.
 * Cost     one pass over the text.
 *
 * @example
 * utf8Offsets('é!', [0, 1, 1, 2]) // [0, 2, 2, 3]
 */
export const utf8Offsets = (text: string, offsets: ArrayLike<number>): Int32Array => {
  const places = new Int32Array(text.length + 1)
  for (let at = 0, bytes = 0; at < text.length; ) {
    const next = at + (text.codePointAt(at)! > 0xffff ? 2 : 1)
    bytes += utf8Width(text, at)
    places.fill(bytes, at + 1, next + 1)
    at = next
  }
  return Int32Array.from(offsets, (offset) => {
    const place = places[offset]
    if (place === undefined) throw new RangeError(`offset ${offset} is outside a text of ${text.length} code units`)
    return place
  })
}
