/**
 * A text that keeps, for each UTF-16 code unit, the range of the original that it came from.
 *
 * The rules are those of `NormalizedString` of the Rust library: a replaced character keeps its
 * range, an inserted one takes the range of the character before it, a removed one disappears with
 * its range.
 */
import { tokenizerWork } from './budget.js'
import { type FindMatches, replaceMatches } from './pattern.js'

/**
 * Ranges of the original, in UTF-16 code units, by code unit of the text. Both units of a surrogate
 * pair have the range of the pair.
 */
interface Alignment {
  readonly starts: Int32Array
  readonly ends: Int32Array
}

export interface AlignedText {
  readonly text: string
  /**
   * Index of the text's first unit in the alignment, or in the original if the text is an unchanged
   * part of it.
   */
  readonly at: number
  /** Computed on first use: ids alone need no alignment. */
  readonly alignment: (() => Alignment) | undefined
}

/** Wraps a whole original text. It must have no lone surrogates. */
export const original = (text: string): AlignedText => ({ text, at: 0, alignment: undefined })

/** Returns a part, by its range of units. */
export const sliceAligned = ({ text, at, alignment }: AlignedText, start: number, end: number): AlignedText => ({
  text: text.slice(start, end),
  at: at + start,
  alignment,
})

const isLowSurrogate = (unit: number): boolean => unit >= 0xdc00 && unit < 0xe000
const isHighSurrogate = (unit: number): boolean => unit >= 0xd800 && unit < 0xdc00

/** Returns the start of the origin of the unit at an index. */
export const originStart = ({ text, at, alignment }: AlignedText, index: number): number =>
  alignment === undefined
    ? at + index - (isLowSurrogate(text.charCodeAt(index)) ? 1 : 0)
    : alignment().starts[at + index]!

/** Returns the end of the origin of the unit at an index. */
export const originEnd = ({ text, at, alignment }: AlignedText, index: number): number =>
  alignment === undefined
    ? at + index + (isHighSurrogate(text.charCodeAt(index)) ? 2 : 1)
    : alignment().ends[at + index]!

/**
 * Collects the origins of a new text, character by character. Each takes the origin of a unit of
 * the old text.
 */
interface Rewriting {
  readonly push: (characters: string, from: number) => void
  /** Copies a part of the old text unchanged. */
  readonly copy: (start: number, end: number) => void
}

/**
 * Computes the alignment that `write` produces over an old text. A `from` of -1 means before the
 * first character: an empty range at the beginning.
 */
const alignmentOf = (old: AlignedText, write: (result: Rewriting) => void): Alignment => {
  const starts: number[] = []
  const ends: number[] = []
  const before = old.text === '' ? old.at : originStart(old, 0)
  write({
    push: (characters, from) => {
      const start = from < 0 ? before : originStart(old, from)
      const end = from < 0 ? before : originEnd(old, from)
      for (let i = 0; i < characters.length; i++) {
        starts.push(start)
        ends.push(end)
      }
    },
    copy: (start, end) => {
      for (let i = start; i < end; i++) {
        starts.push(originStart(old, i))
        ends.push(originEnd(old, i))
      }
    },
  })
  return { starts: Int32Array.from(starts), ends: Int32Array.from(ends) }
}

/** Creates a new text over an old one. Its origins are computed on first use. */
const rewritten = (old: AlignedText, text: string, write: (result: Rewriting) => void): AlignedText => {
  let made: Alignment | undefined
  const alignment = (): Alignment => {
    made ??= alignmentOf(old, write)
    return made
  }
  return { text, at: 0, alignment }
}

/**
 * Replaces each character. The first new character takes its place, and the rest are inserted after
 * it.
 */
export const mapCharacters = (old: AlignedText, change: (character: string) => string): AlignedText => {
  const changed = Array.from(old.text, change)
  return rewritten(old, changed.join(''), (result) => {
    let [at, index] = [0, 0]
    for (const character of old.text) {
      result.push(changed[index++]!, at)
      at += character.length
    }
  })
}

/** Replaces each match by a content, which takes the origin of the match's last character. */
export const substitute = (old: AlignedText, find: FindMatches, content: string): AlignedText => {
  const replaced = replaceMatches(old.text, find, content)
  if (replaced === undefined) return old
  return rewritten(old, replaced, (result) => {
    let end = 0
    for (const match of find(old.text)) {
      result.copy(end, match.index)
      end = match.index + match[0].length
      result.push(content, end - 1)
    }
    result.copy(end, old.text.length)
  })
}

/** Prepends a text, which takes the origin of the first character. An empty text stays empty. */
export const prepend = (old: AlignedText, text: string): AlignedText => {
  if (old.text === '' || text === '') return old
  tokenizerWork.spendCharacters(text.length)
  return rewritten(old, text + old.text, (result) => {
    result.push(text, 0)
    result.copy(0, old.text.length)
  })
}

/**
 * One character of a rewriting by changes: 0 replaces, 1 inserts, -n replaces and removes the next
 * n.
 */
export interface TextChange {
  readonly character: string
  readonly change: number
}

/** Applies a list of changes from the left. */
export const applyChanges = (old: AlignedText, changes: readonly TextChange[]): AlignedText =>
  rewritten(old, changes.map(({ character }) => character).join(''), (result) => {
    const { text } = old
    let at = 0
    const widthAt = (index: number): number => (isHighSurrogate(text.charCodeAt(index)) ? 2 : 1)
    for (const { character, change } of changes) {
      if (change > 0) {
        result.push(character, at - 1)
        continue
      }
      result.push(character, at)
      for (let i = 0; i <= -change && at < text.length; i++) at += widthAt(at)
    }
  })
