/** Oniguruma expressions as JavaScript expressions, translated by `@huggingface/tokenizers`. */
import * as library from '@huggingface/tokenizers'
import { tokenizerWork } from './budget.js'
import type { PatternJson } from './files.js'
import { type Guard, guardOf, type Rescan } from './patternGuard.js'

/**
 * The part of the library that is used here; its own declarations are not resolved under Node's
 * module rules.
 */
interface Translator {
  readonly SplitPreTokenizer: new (json: object) => { readonly pattern: RegExp | null }
}

const { SplitPreTokenizer } = library as unknown as Translator // see `Translator`

/** A half-open range of a text, with a flag for the matches of a pattern. */
export interface Found {
  readonly start: number
  readonly end: number
  readonly isMatch: boolean
}

/** Finds all matches in a text, from the left. */
export type FindMatches = (text: string) => Iterable<RegExpMatchArray & { readonly index: number }>

/** Finds the matches of an expression that takes linear time. It has the flag `g`. */
export const matchesOf =
  (expression: RegExp): FindMatches =>
  (text) =>
    text.matchAll(expression)

/** Characters that an attempt may read for the cost of one step. */
const READ_PER_STEP = 2

/** Characters that may be read without charging the budget: a fraction of a second. */
const UNCOUNTED = 2 ** 26

/** Returns `true` if no run in the text can make matching read more than `UNCOUNTED` characters. */
const isShort = (text: string, { ways, rescans }: Guard): boolean => {
  const longest = Math.floor(UNCOUNTED / (ways * (text.length + 1)))
  if (longest >= text.length || rescans.length === 0) return true
  if (longest < 2) return false
  return rescans.every(
    ({ characters, offset }) =>
      Number.isFinite(offset) && !new RegExp(`(?:${characters.join('|')}){${longest - 1}}`, 'u').test(text),
  )
}

/** Returns, for each position of a text, the end of the run of a class that begins there. */
const runEnds = (text: string, characters: readonly string[]): Int32Array => {
  const expression = new RegExp(`^(?:${characters.join('|')})$`, 'u')
  const known = new Map<number, boolean>()
  const isIn = (code: number): boolean => {
    const before = known.get(code)
    if (before !== undefined) return before
    const result = expression.test(String.fromCodePoint(code))
    known.set(code, result)
    return result
  }
  const ends = new Int32Array(text.length + 1)
  ends[text.length] = text.length
  for (let at = text.length - 1; at >= 0; at--) {
    const code = text.codePointAt(at)!
    ends[at] = isIn(code) ? ends[Math.min(text.length, at + (code > 0xffff ? 2 : 1))]! : at
  }
  return ends
}

/**
 * Returns a bound on the characters that an attempt at a position reads, beyond a bounded match.
 */
const readAhead = (text: string, rescans: readonly Rescan[]): ((at: number) => number) => {
  const runs = rescans.map(({ characters, offset }) =>
    Number.isFinite(offset)
      ? { ends: runEnds(text, characters), offset }
      : { ends: new Int32Array(text.length + 1).fill(text.length), offset: 0 },
  )
  return (at) =>
    runs.reduce((most, { ends, offset }) => Math.max(most, ends[Math.min(text.length, at + offset)]! - at), 0)
}

/**
 * Attempts a match at each position, and charges the characters that each attempt may read to the
 * budget.
 */
const countedMatches = function* (text: string, expression: RegExp, { ways, rescans }: Guard): ReturnType<FindMatches> {
  const sticky = new RegExp(expression.source, `${expression.flags}y`)
  const ahead = readAhead(text, rescans)
  for (let at = 0; at <= text.length; ) {
    tokenizerWork.spend((ways * (1 + ahead(at))) / READ_PER_STEP)
    sticky.lastIndex = at
    const match = sticky.exec(text)
    if (match !== null) yield match
    const isEmpty = match === null || match[0] === ''
    at = isEmpty ? at + ((text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1) : at + match[0].length
  }
}

/** Finds the matches of an expression. Long runs are charged to the budget of the text. */
const guardedMatches = (expression: RegExp, guard: Guard): FindMatches => {
  const plain = matchesOf(expression)
  return (text) => (isShort(text, guard) ? plain(text) : countedMatches(text, expression, guard))
}

const shortened = (pattern: PatternJson): string => JSON.stringify(pattern).slice(0, 200)

/**
 * Compiles a pattern of `tokenizer.json` to a finder of its matches.
 *
 * Errors   throws SyntaxError for an expression that cannot be translated, or whose time may grow
 *          faster than quadratically. The finder throws FailureError for a text that would exceed
 *          its budget.
 */
export const compilePattern = (pattern: PatternJson): FindMatches => {
  const json = { type: 'Split', pattern, behavior: 'Isolated', invert: true }
  const { pattern: expression } = new SplitPreTokenizer(json)
  if (expression === null) throw new SyntaxError(`not a pattern: ${shortened(pattern)}`)
  try {
    expression.test('')
    expression.lastIndex = 0
    return 'String' in pattern ? matchesOf(expression) : guardedMatches(expression, guardOf(expression.source))
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw new SyntaxError(`the pattern ${shortened(pattern)} ${error.message.slice(-200)}`)
  }
}

/**
 * Splits a text into matches and the text between them, in order. An empty match is a range too.
 */
export const findAll = (text: string, matches: FindMatches): readonly Found[] => {
  const found: Found[] = []
  let end = 0
  for (const match of matches(text)) {
    if (match.index > end) found.push({ start: end, end: match.index, isMatch: false })
    end = match.index + match[0].length
    found.push({ start: match.index, end, isMatch: true })
  }
  if (end < text.length) found.push({ start: end, end: text.length, isMatch: false })
  return found
}

/**
 * Replaces each match by a content, whose length is charged to the budget of the text. Returns
 * undefined without a match.
 */
export const replaceMatches = (text: string, matches: FindMatches, content: string): string | undefined => {
  let result: string | undefined
  let end = 0
  for (const match of matches(text)) {
    tokenizerWork.spendCharacters(content.length)
    result = (result ?? '') + text.slice(end, match.index) + content
    end = match.index + match[0].length
  }
  return result === undefined ? undefined : result + text.slice(end)
}
