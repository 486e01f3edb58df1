/** Splits LaTeX, and mathematics in plain text, into tokens. */
import { plainSpelling } from '../plainSpelling.js'
import { FUNCTIONS, GREEK, IGNORED, SIGNS, STYLES, TEXT_COMMANDS, WORD_SIGNS } from './latexNames.js'

/**
 * A token. `number`: digits, with repeating ones in parentheses, as in `(3)`; `letter`: a variable
 * or constant; `call`: a function; `text`: words; `sign`: anything else.
 */
export interface Token {
  readonly kind: 'number' | 'letter' | 'call' | 'text' | 'sign'
  readonly text: string
}

const token = (kind: Token['kind'], text: string): Token => ({ kind, text })

/** Maximum length of an answer that is parsed as mathematics, in UTF-16 units. */
export const LONGEST = 1000

/** Replaces typographic variants. */
const cleaned = (text: string): string =>
  plainSpelling(text)
    .replace(/(\d)\{\.\}(?=\d)/g, '$1.')
    .replace(/²/g, '^2')
    .replace(/³/g, '^3')

/** Strips spaces, emphasis, quotes and the end of a sentence from an answer. */
export const bareAnswer = (text: string): string =>
  text
    .trim()
    .replace(/[\s.,;\u3002]{0,20}$/, '')
    .replace(/^[*_`"]{1,3}|[*_`"]{1,3}$/g, '')

/** Returns the index after the brace that closes the one at `open`, or the end of the text. */
const groupEnd = (text: string, open: number): number => {
  let depth = 0
  for (let i = open; i < text.length; i++) {
    if (text[i] === '\\') i += 1
    else if (text[i] === '{') depth += 1
    else if (text[i] === '}' && --depth === 0) return i + 1
  }
  return text.length
}

/**
 * Converts words to tokens: `and` and `or` separate items of a list; digits, and single letters
 * that are not units, are mathematics.
 */
const wordTokens = (text: string): readonly Token[] => {
  const words = text.replace(/\s+/g, ' ').trim()
  if (words === '') return []
  if (/^,? ?(?:and|or),?$/i.test(words)) return [token('sign', /or,?$/i.test(words) ? 'or' : ',')]
  if (words.includes(',') && !/\d,\d/.test(words)) {
    return words.split(',').flatMap((part, i) => [...(i > 0 ? [token('sign', ',')] : []), ...wordTokens(part)])
  }
  if (/^[-+\d.,/ ]+$/.test(words) || (/^\(?[A-Za-z]\)?$/.test(words) && !/^[mgshL]$/.test(words)))
    return mathTokensOf(words)
  return [token('text', words)]
}

/** Converts a run of letters: to a function, a constant, words, or adjacent variables. */
const letterTokens = (run: string): readonly Token[] => {
  const sign = WORD_SIGNS.get(run.toLowerCase())
  if (sign !== undefined) return [token('sign', sign)]
  if (FUNCTIONS.has(run)) return [token('call', run)]
  if (run === 'pi' || run === 'sqrt') return [run === 'pi' ? token('letter', 'pi') : token('call', '√')]
  if (/^(?:infinity|infty|inf|oo)$/i.test(run)) return [token('letter', 'infinity')]
  const [, called, rest] = /^(arcsin|arccos|arctan|sin|cos|tan|log|ln|pi)([A-Za-z])$/.exec(run) ?? []
  if (called !== undefined && rest !== undefined) {
    return [called === 'pi' ? token('letter', 'pi') : token('call', called), token('letter', rest)]
  }
  if (run.length > 3 || isWord(run)) return [token('text', run)]
  return [...run].map((letter) => token('letter', letter))
}

/** Short runs that are words or units, not products of variables. */
const WORDS: ReadonlySet<string> = new Set(
  'all any cm day dm fri ft hr hrs in is km kg lb lbs mi min ml mL mm mon mph mg no not odd one oz red sat sec six sq sun ten the thu tue two wed yd yes'.split(
    ' ',
  ),
)

const isWord = (run: string): boolean => WORDS.has(run) || WORDS.has(run.toLowerCase())

const NUMBER = /\d+(?:,\d{3})+(?!\d|,\d)(?:\.\d+)?|(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,4}(?![\dA-Za-z]))?/y
const REPEATING = /\d*\.(\d*)\\overline\{?(\d+)\}?/y
const LETTERS = /[A-Za-z]+/y
const COMMAND = /\\(?:[A-Za-z]+|[\s\S])/y

interface Read {
  readonly tokens: readonly Token[]
  readonly next: number
}

const matchAt = (pattern: RegExp, text: string, at: number): string | undefined => {
  const sticky = new RegExp(pattern)
  sticky.lastIndex = at
  return sticky.exec(text)?.[0]
}

/**
 * Reads a number. Commas separate thousands only outside brackets; inside, they separate values.
 */
const readNumber = (text: string, at: number, depth: number): Read | undefined => {
  const repeating = matchAt(REPEATING, text, at)
  if (repeating !== undefined) {
    const digits = repeating.replace(/\\overline\{?(\d+)\}?/, '($1)')
    return { tokens: [token('number', digits)], next: at + repeating.length }
  }
  const found = matchAt(NUMBER, text, at)
  if (found === undefined) return undefined
  const digits = depth > 0 && found.includes(',') ? found.slice(0, found.indexOf(',')) : found
  return { tokens: [token('number', digits.replaceAll(',', ''))], next: at + digits.length }
}

/** Returns true for digits and signs, with commands but without words or variables. */
const hasNumber = (content: string): boolean => {
  const rest = content.replace(/\\[A-Za-z]+/g, '')
  return /\d/.test(rest) && !/\p{L}/u.test(rest)
}

/** Reads a command: `\frac`, `\text{...}`, `\{`. */
const readCommand = (text: string, at: number): Read => {
  const command = matchAt(COMMAND, text, at) ?? '\\'
  const name = command.slice(1)
  const next = at + command.length
  const group = (): readonly [content: string, end: number] => {
    const open = /^\s*\{/.exec(text.slice(next, next + 20))?.[0].length
    const end = open === undefined ? next : groupEnd(text, next + open - 1)
    return [open === undefined ? '' : text.slice(next + open, text[end - 1] === '}' ? end - 1 : end), end]
  }
  if (TEXT_COMMANDS.has(name) || STYLES.has(name)) {
    const [content, end] = group()
    if (hasNumber(content) || content === '') return { tokens: mathTokensOf(content), next: end }
    if (STYLES.has(name)) return { tokens: [token('letter', `${name}(${content.replace(/\s+/g, '')})`)], next: end }
    return { tokens: wordTokens(content.replace(/\\[a-zA-Z]+|[\\{}$]/g, ' ')), next: end }
  }
  if (name === 'begin' || name === 'end') {
    const [content, end] = group()
    return { tokens: [token('sign', `${name} ${content.trim()}`)], next: end }
  }
  if (/^(?:overline|overrightarrow|vec|hat|bar|widehat|tilde)$/.test(name)) {
    const [content, end] = group()
    return { tokens: [token('letter', `${name}(${content.replace(/\s+/g, '')})`)], next: end }
  }
  if (IGNORED.has(name))
    return { tokens: [], next: text[next] === '.' && /^(?:left|right)$/.test(name) ? next + 1 : next }
  const sign = SIGNS.get(`\\${name}`)
  if (sign !== undefined) return { tokens: [token('sign', sign)], next }
  if (FUNCTIONS.has(name) || name === 'sqrt') return { tokens: [token('call', name)], next }
  return { tokens: [token('letter', GREEK.get(name) ?? name)], next }
}

/**
 * The relation that `<=`, `>=` or `!=` spells. `5!=120` is a factorial: the sign is right behind a
 * number or a bracket.
 */
const asciiRelation = (text: string, at: number): string | undefined => {
  if (text[at] === '!') return /[\d)}\]!]/.test(text[at - 1] ?? '') ? undefined : '≠'
  return text[at] === '<' ? '≤' : '≥'
}

/** Brackets in which a comma separates values. */
const OPENING: ReadonlySet<string> = new Set(['(', '[', 'set{', '⟨'])
const CLOSING: ReadonlySet<string> = new Set([')', ']', '}set', '⟩'])

const readAt = (text: string, at: number, depth: number): Read => {
  const character = text[at]!
  if (character === '\\') return readCommand(text, at)
  const number = /[\d.]/.test(character) ? readNumber(text, at, depth) : undefined
  if (number !== undefined) return number
  const letters = matchAt(LETTERS, text, at)
  if (letters !== undefined) return { tokens: letterTokens(letters), next: at + letters.length }
  const symbol = String.fromCodePoint(text.codePointAt(at)!)
  const next = at + symbol.length
  if (/[\s$~€£¥₹]/.test(symbol)) return { tokens: [], next }
  const relation = /[<>!]/.test(symbol) && text[next] === '=' ? asciiRelation(text, at) : undefined
  if (relation !== undefined) return { tokens: [token('sign', relation)], next: next + 1 }
  const letter = GREEK.get(symbol)
  if (letter !== undefined) return { tokens: [token('letter', letter)], next }
  const sign = SIGNS.get(symbol) ?? symbol
  return { tokens: [symbol === '√' ? token('call', symbol) : token('sign', sign)], next }
}

/**
 * Returns the tokens of an answer. Spaces, size commands, currency signs and math delimiters are
 * left out.
 *
 * Errors   none: an unknown character becomes a letter or sign.
 * Cost     O(length), bounded by `LONGEST`.
 */
export const mathTokensOf = (text: string): readonly Token[] => {
  const source = cleaned(text)
  const tokens: Token[] = []
  let depth = 0
  for (let at = 0; at < source.length; ) {
    const { tokens: found, next } = readAt(source, at, depth)
    for (const each of found) {
      if (each.kind === 'sign' && OPENING.has(each.text)) depth += 1
      if (each.kind === 'sign' && CLOSING.has(each.text)) depth -= 1
      const last = tokens.at(-1)
      if (each.kind === 'text' && last?.kind === 'text')
        tokens[tokens.length - 1] = token('text', `${last.text} ${each.text}`)
      else tokens.push(each)
    }
    at = next
  }
  return tokens
}
