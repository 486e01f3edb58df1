/** Tokens outside the model. They are searched in a text before it is split. */
import { type AlignedText, originEnd, originStart, sliceAligned } from './alignedText.js'
import { tokenizerWork } from './budget.js'
import type { AddedTokenJson } from './files.js'
import { WORD_CHARACTERS } from './oldUnicode.js'

/** A part of a text: an added token, or text between two of them. */
export interface Section {
  readonly text: AlignedText
  /** The id of the added token; undefined for text. */
  readonly id: number | undefined
}

/** A search entry: the token and the text that is searched for it. */
export interface Sought {
  readonly text: string
  readonly token: AddedTokenJson
}

interface Node {
  readonly children: Map<number, Node>
  sought: Sought | undefined
}

const trieOf = (all: readonly Sought[]): Node => {
  const root: Node = { children: new Map(), sought: undefined }
  for (const sought of all) {
    let node = root
    for (let i = 0; i < sought.text.length; i++) {
      const unit = sought.text.charCodeAt(i)
      const child: Node = node.children.get(unit) ?? { children: new Map(), sought: undefined }
      node.children.set(unit, child)
      node = child
    }
    node.sought ??= sought
  }
  return root
}

/** Returns the longest match that begins at a position. */
const longestAt = (root: Node, text: string, start: number): Sought | undefined => {
  let longest: Sought | undefined
  let node = root.children.get(text.charCodeAt(start))
  let at = start + 1
  for (; node !== undefined; at++) {
    longest = node.sought ?? longest
    node = at < text.length ? node.children.get(text.charCodeAt(at)) : undefined
  }
  tokenizerWork.spend(at - start)
  return longest
}

const STARTS_WITH_WORD = new RegExp(`^[${WORD_CHARACTERS}]`, 'u')
const ENDS_WITH_WORD = new RegExp(`[${WORD_CHARACTERS}]$`, 'u')

/** Returns true if a token may match at this position: some match only whole words. */
const isAllowed = ({ single_word }: AddedTokenJson, text: string, [start, end]: readonly [number, number]): boolean =>
  !single_word ||
  !(ENDS_WITH_WORD.test(text.slice(Math.max(0, start - 2), start)) || STARTS_WITH_WORD.test(text.slice(end)))

const spaceBefore = (text: string, start: number, least: number): number => {
  let at = start
  while (at > least && /\p{White_Space}/u.test(text[at - 1]!)) at--
  tokenizerWork.spend(start - at)
  return at
}

const spaceAfter = (text: string, end: number): number => {
  let at = end
  while (at < text.length && /\p{White_Space}/u.test(text[at]!)) at++
  tokenizerWork.spend(at - end)
  return at
}

/** Returns true if special tokens in a range of the original are plain text. */
export type IsPlain = (start: number, end: number) => boolean

/** Splits a text at the tokens in it: the longest at each position, from the left. */
export type FindTokens = (text: AlignedText, isPlain: IsPlain) => readonly Section[]

const escaped = (character: string): string => `\\u{${character.codePointAt(0)!.toString(16)}}`

/**
 * Creates a finder of added tokens.
 *
 * Source   `AddedVocabulary::find_matches` of Hugging Face tokenizers: a token that is not allowed
 *          at a position hides no token inside it.
 */
export const tokenFinder = (all: readonly Sought[]): FindTokens => {
  const sought = all.filter(({ text }) => text !== '')
  if (sought.length === 0) return (text) => (text.text === '' ? [] : [{ text, id: undefined }])
  const root = trieOf(sought)
  const first = new RegExp(`[${[...new Set(sought.map(({ text }) => escaped(text)))].join('')}]`, 'gu')
  return (whole, isPlain) => {
    const { text } = whole
    const sections: Section[] = []
    let done = 0
    const add = (start: number, end: number, id: number | undefined): void => {
      if (end > start) sections.push({ text: sliceAligned(whole, start, end), id })
    }
    first.lastIndex = 0
    for (let place = first.exec(text); place !== null; place = first.exec(text)) {
      const found = longestAt(root, text, place.index)
      if (found === undefined) continue
      const { token } = found
      const foundEnd = place.index + found.text.length
      first.lastIndex = foundEnd
      if (!isAllowed(token, text, [place.index, foundEnd])) continue
      if (token.special && isPlain(originStart(whole, place.index), originEnd(whole, foundEnd - 1))) continue
      const start = token.lstrip ? Math.max(spaceBefore(text, place.index, 0), done) : place.index
      const end = token.rstrip ? spaceAfter(text, foundEnd) : foundEnd
      add(done, start, undefined)
      add(start, end, token.id)
      done = end
    }
    add(done, text.length, undefined)
    return sections
  }
}
