/**
 * Splits text into sentences with Punkt (Kiss and Strunk 2006, Computational Linguistics 32(4)) and
 * its English parameters, as NLTK implements it. IFEval counts sentences this way.
 */
import { ABBREVIATIONS, COLLOCATIONS, LOWER_CASE_ROWS, LOWER_STARTERS, SENTENCE_STARTERS } from './punktEnglish.js'
import { isLower, isUpper, SPACE, stripEnd } from './pythonText.js'

/** The cases in which a word was seen: lower, and upper within a sentence. */
type Seen = 'lower' | 'lower and upper'

/**
 * Parses the rows of words. Each word starts with the length of its common prefix with the previous
 * word, as a capital letter.
 */
const readWords = (rows: readonly string[]): ReadonlyMap<string, Seen> => {
  const words = new Map<string, Seen>()
  for (const row of rows) {
    let before = ''
    for (const [, shared, rest, mark] of row.matchAll(/([A-Z])([^A-Z!]*)(!?)/g)) {
      before = before.slice(0, shared!.charCodeAt(0) - 65) + rest!
      words.set(before, mark === '' ? 'lower' : 'lower and upper')
    }
  }
  return words
}

const WORDS = readWords(LOWER_CASE_ROWS)

const NOT_IN_WORD = '[)";}\\]*:@\'({[?!]'
const SEVERAL = `(?:-{2,}|\\.{2,}|(?:\\.[${SPACE}]){2,}\\.)`

/** A token: punctuation of several characters, a word with the periods in it, or one character. */
const TOKEN = new RegExp(
  `${SEVERAL}|(?![("\`{[:;&#*@)}\\]\\-,])[^${SPACE}]+?(?=[${SPACE}]|$|${NOT_IN_WORD}|${SEVERAL}|,(?=$|[${SPACE}]|${NOT_IN_WORD}|${SEVERAL}))|[^${SPACE}]`,
  'gu',
)

/** A possible end of a sentence and what follows: punctuation, or white space and a token. */
const POSSIBLE_END = new RegExp(`[.?!](?=${NOT_IN_WORD}|([${SPACE}]+)([^${SPACE}]+))`, 'gu')

/** Closing quotes and brackets that belong to the sentence before them. */
const CLOSING = new RegExp(`^["')\\]}]+?(?:[${SPACE}]+|(?=--)|(?=\\n)|$)`, 'u')

interface Token {
  readonly text: string
  /** In lower case, all numbers being one. */
  readonly type: string
  readonly ends: boolean
  readonly abbreviates: boolean
}

const withoutPeriod = (type: string): string => (type.length > 1 && type.endsWith('.') ? type.slice(0, -1) : type)

/** Classifies a token on its own (the first pass). */
const tokenOf = (text: string): Token => {
  const lower = text.toLowerCase()
  const type = lower.replace(/^-?[.,]?\p{Nd}[\p{Nd},.-]*\.?$/u, '##number##')
  const ofPeriods = /^\.{2,}$/.test(text)
  const word = text.endsWith('.') && !text.endsWith('..') ? lower.slice(0, -1) : undefined
  const isEnd = /^[.?!]$/.test(text)
  const isKnown =
    word !== undefined && (ABBREVIATIONS.has(word) || ABBREVIATIONS.has(word.slice(word.lastIndexOf('-') + 1)))
  return {
    text,
    type,
    ends: isEnd || (!ofPeriods && word !== undefined && !isKnown),
    abbreviates: !isEnd && (ofPeriods || isKnown),
  }
}

/**
 * Returns whether a token begins a sentence, by the case of its first letter and of the same word
 * elsewhere.
 */
const begins = ({ text, ...token }: Token): 'yes' | 'no' | 'unknown' => {
  if (/^[;:,.!?]$/.test(text)) return 'no'
  const type = token.ends ? withoutPeriod(token.type) : token.type
  const [first] = text
  if (isUpper(first!) && WORDS.get(type) === 'lower') return 'yes'
  return isLower(first!) && !LOWER_STARTERS.has(type) ? 'no' : 'unknown'
}

/** Returns true if a token ends a sentence before the next one (the second pass). */
const endsBefore = (token: Token, next: Token): boolean => {
  if (!token.text.endsWith('.')) return token.ends
  const type = withoutPeriod(token.type)
  const nextType = next.ends ? withoutPeriod(next.type) : next.type
  if (COLLOCATIONS.has(`${type}~${nextType}`)) return false
  const isInitial = /^[\p{L}\p{Nl}\p{No}_]\.$/u.test(token.text)
  const isNextUpper = isUpper([...next.text.slice(0, 2)][0]!)
  const start = begins(next)
  if (token.abbreviates && !isInitial && (start === 'yes' || (isNextUpper && SENTENCE_STARTERS.has(nextType)))) {
    return true
  }
  if (isInitial || type === '##number##') {
    if (start === 'no') return false
    if (start === 'unknown' && isInitial && isNextUpper && !WORDS.has(nextType)) return false
  }
  return token.ends
}

/** Returns true if a piece of text has the end of a sentence before its last token. */
const hasEnd = (text: string): boolean => {
  const tokens = text.split('\n').flatMap((line) => (line.match(TOKEN) ?? []).map(tokenOf))
  return tokens.some((token, i) => i + 1 < tokens.length && endsBefore(token, tokens[i + 1]!))
}

/** A possible end of a sentence, the start of the next token, and the text that decides. */
interface Candidate {
  readonly end: number
  readonly next: number
  readonly context: readonly [start: number, end: number]
}

const candidateOf = (match: RegExpExecArray, start: number): Candidate => {
  const end = match.index + 1
  const [, spaces, token] = match
  return spaces === undefined || token === undefined
    ? { end, next: end, context: [start, end + 1] }
    : { end, next: end + spaces.length, context: [start, end + spaces.length + token.length] }
}

/** Returns the candidates with the word before each; of several within one word, the last. */
const candidates = (text: string): readonly Candidate[] => {
  const found: Candidate[] = []
  let last: Candidate | undefined
  let wordStart = 0
  let wordEnd = 0
  for (const match of text.matchAll(POSSIBLE_END)) {
    let at = match.index - 1
    while (at > wordEnd && !/[\t-\r ]/.test(text[at]!)) at--
    const start = at > wordEnd ? at + 1 : wordStart
    if (last !== undefined && wordEnd <= start) found.push(last)
    last = candidateOf(match, start)
    wordStart = start
    wordEnd = match.index
  }
  return last === undefined ? found : [...found, last]
}

/**
 * Returns the sentences of an English text, in order, without the white space between them.
 *
 * Cost     linear in the text.
 * Source   NLTK 3.9.1 `PunktTokenizer('english')`: versions up to 3.9.1 produced the published
 *          figures. Later ones also handle curly quotes.
 *
 * @example
 * sentences('Dr. Smith left at 5 p.m. He was tired.') // ['Dr. Smith left at 5 p.m.', 'He was tired.']
 */
export const sentences = (text: string): readonly string[] => {
  const slices: (readonly [start: number, end: number])[] = []
  let start = 0
  for (const { end, next, context } of candidates(text)) {
    if (!hasEnd(text.slice(...context))) continue
    slices.push([start, end])
    start = next
  }
  slices.push([start, stripEnd(text).length])
  const found: string[] = []
  let moved = 0
  for (const [i, [from, to]] of slices.entries()) {
    const next = slices[i + 1]
    const closing = next === undefined ? undefined : CLOSING.exec(text.slice(...next))?.[0]
    const end = next === undefined || closing === undefined ? to : next[0] + stripEnd(closing).length
    if (from + moved < end) found.push(text.slice(from + moved, end))
    moved = closing?.length ?? 0
  }
  return found
}
