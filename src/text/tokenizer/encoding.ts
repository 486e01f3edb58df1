/** The tokens of a text with all that is known of them: cut to a length, framed by a template, filled up to a length. */

/** Columns of one row for each token. */
export interface Encoding {
  readonly ids: Int32Array
  /** Of token t the UTF-16 code units [offsets[2t], offsets[2t + 1]) of its text; 0, 0 for a token that no text gave. */
  readonly offsets: Int32Array
  /** What the template says of the text that a token is of: 0, and often 1 in the second text. */
  readonly typeIds: Int32Array
  /** The text that a token came from: 0, or 1 for the second text, or -1 for tokens that were added. */
  readonly texts: Int32Array
  /** 1 for tokens, 0 for padding. */
  readonly attentionMask: Int32Array
  /** 1 for tokens that the template or the padding added, 0 for those of a text. */
  readonly specialTokensMask: Int32Array
}

/** Where tokens are taken away or filled in. */
export type Side = 'left' | 'right'

export interface TruncationOptions {
  /** How many tokens there may be, those of the template included. */
  readonly maxLength: number
  /** Where tokens are cut off. 'right' unless told. */
  readonly side?: Side
  /** How many tokens neighboring windows share. 0 unless told. */
  readonly stride?: number
}

export interface PaddingOptions {
  readonly id: number
  readonly typeId?: number
  /** 'right' unless told; a policy that generates wants 'left'. */
  readonly side?: Side
  /** To the longest of the batch unless told. Longer encodings stay as they are. */
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

const joined = (arrays: readonly Int32Array[]): Int32Array => {
  const all = new Int32Array(arrays.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const array of arrays) {
    all.set(array, at)
    at += array.length
  }
  return all
}

/** One encoding after another. */
export const concatenateEncodings = (parts: readonly Encoding[]): Encoding =>
  build((name) => joined(parts.map((part) => part[name])), joined(parts.map(({ offsets }) => offsets)))

/** The tokens from `start` to `end`. */
const sliceEncoding = (whole: Encoding, start: number, end: number): Encoding =>
  build((name) => whole[name].slice(start, end), whole.offsets.slice(2 * start, 2 * end))

/** Tokens of a text. */
export const textEncoding = (ids: Int32Array, offsets: Int32Array, text: 0 | 1): Encoding => ({
  ids,
  offsets,
  typeIds: new Int32Array(ids.length).fill(text),
  texts: new Int32Array(ids.length).fill(text),
  attentionMask: new Int32Array(ids.length).fill(1),
  specialTokensMask: new Int32Array(ids.length),
})

/** Tokens of a template. */
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
 * An encoding in windows of at most `maxLength` tokens: the first is what truncation keeps, the others are what it cuts off.
 *
 * Neighbors share `stride` tokens. From the side 'left' the first window is the end of the text.
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
 * Encodings of one length, filled up with padding that attention does not see.
 *
 * Shapes   B encodings of any lengths give B encodings; with `length: 'longest'` all are as long as the longest, rounded up to `multipleOf`.
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
 * Offsets in UTF-16 code units as offsets in UTF-8 bytes of the same text.
 *
 * Shapes   `offsets` is any list of places of the text, such as `Encoding.offsets`, `[2T]`; the result is as long.
 * Errors   throws RangeError for a place outside the text.
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
