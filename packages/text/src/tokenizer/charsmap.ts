/**
 * SentencePiece's compiled normalization rules: a double-array trie from UTF-8 bytes to positions
 * in a list of replacements.
 */
import type { TextChange } from './alignedText.js'
import { tokenizerWork } from './budget.js'

/**
 * Normalization rules. `replacement` returns undefined if no rule matches the beginning of the
 * piece.
 */
export interface Charsmap {
  readonly replacement: (piece: string) => string | undefined
}

const encoder = new TextEncoder()

const bytesOf = (base64: string): Uint8Array => Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))

/** The fields of a unit of the double array, as Darts-clone lays them out. */
const hasLeaf = (unit: number): boolean => ((unit >>> 8) & 1) === 1
const leafOf = (unit: number): number => unit & 0x7fffffff
const labelOf = (unit: number): number => (unit & 0x800000ff) >>> 0
const offsetOf = (unit: number): number => ((unit >>> 10) << ((unit & 0x200) >>> 6)) >>> 0

/**
 * Reads the rules from their base64 text in `tokenizer.json`.
 *
 * Errors   throws RangeError for a text that is not base64, or too short for its trie.
 */
export const readCharsmap = (base64: string): Charsmap => {
  let bytes: Uint8Array
  try {
    bytes = bytesOf(base64)
  } catch {
    throw new RangeError('precompiled_charsmap is not base64')
  }
  const view = new DataView(bytes.buffer)
  const trieBytes = bytes.length < 4 ? Number.NaN : view.getUint32(0, true)
  if (!(trieBytes <= bytes.length - 4) || trieBytes % 4 !== 0) {
    throw new RangeError(`precompiled_charsmap has ${bytes.length} bytes, which its trie does not fit`)
  }
  const units = Uint32Array.from({ length: trieBytes / 4 }, (_, i) => view.getUint32(4 + 4 * i, true))
  const replacements = bytes.subarray(4 + trieBytes)
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  const firstMatch = (key: Uint8Array): number | undefined => {
    let place = offsetOf(units[0] ?? 0)
    for (const byte of key) {
      if (byte === 0) return undefined
      place = (place ^ byte) >>> 0
      const unit = units[place]
      if (unit === undefined || labelOf(unit) !== byte) return undefined
      place = (place ^ offsetOf(unit)) >>> 0
      if (hasLeaf(unit)) return leafOf(units[place] ?? 0)
    }
    return undefined
  }
  const lookUp = (piece: string): string | undefined => {
    const start = firstMatch(encoder.encode(piece))
    if (start === undefined) return undefined
    const end = replacements.indexOf(0, start)
    const found = replacements.subarray(start, end < 0 ? replacements.length : end)
    tokenizerWork.spendCharacters(found.length)
    return decoder.decode(found)
  }
  const ascii = new Map<string, string | undefined>()
  return {
    replacement: (piece) => {
      if (piece.length !== 1 || piece > '\x7f') return lookUp(piece)
      if (!ascii.has(piece)) ascii.set(piece, lookUp(piece))
      const known = ascii.get(piece)
      if (known !== undefined) tokenizerWork.spendCharacters(known.length)
      return known
    },
  }
}

/**
 * The longest grapheme that is looked up as a whole; longer ones are looked up character by
 * character.
 */
const LONGEST_GRAPHEME_BYTES = 5

/**
 * Appends the changes that replace a part by another text. As in the Rust library, removals beyond
 * the end are ignored.
 */
const pushReplacement = (changes: TextChange[], part: string, replacement: string): void => {
  const characters = Array.from(replacement)
  const added = characters.length - Array.from(part).length
  for (const [i, character] of characters.entries()) {
    changes.push({ character, change: added > 0 && i >= characters.length - added ? 1 : 0 })
  }
  const last = changes.at(-1)
  if (added < 0 && last !== undefined) changes[changes.length - 1] = { ...last, change: last.change + added }
}

/**
 * Text that can contain graphemes of more than one character. The rest is printable ASCII, each
 * character a grapheme of its own.
 */
const OTHERS = /(?:[ -~]?[^ -~]+)+[ -~]?/gu

const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' })

const segments = (text: string): readonly string[] => {
  const parts: string[] = []
  let end = 0
  for (const match of text.matchAll(OTHERS)) {
    for (const character of text.slice(end, match.index)) parts.push(character)
    for (const { segment } of graphemes.segment(match[0])) parts.push(segment)
    end = match.index + match[0].length
  }
  for (const character of text.slice(end)) parts.push(character)
  return parts
}

/**
 * Computes the changes that the rules make to a text. Returns undefined if nothing changes.
 *
 * Source   `Precompiled` of Hugging Face tokenizers: a grapheme of fewer than six bytes as a whole,
 *          then each character by itself; the first, shortest rule that matches its beginning
 *          replaces all of it.
 */
export const charsmapChanges = ({ replacement }: Charsmap, text: string): readonly TextChange[] | undefined => {
  const changes: TextChange[] = []
  let isChanged = false
  const replaced = (part: string): boolean => {
    const other = replacement(part)
    if (other === undefined) return false
    isChanged = true
    pushReplacement(changes, part, other)
    return true
  }
  for (const segment of segments(text)) {
    if ((segment.length === 1 || encoder.encode(segment).length <= LONGEST_GRAPHEME_BYTES) && replaced(segment))
      continue
    for (const character of segment) if (!replaced(character)) changes.push({ character, change: 0 })
  }
  return isChanged ? changes : undefined
}
