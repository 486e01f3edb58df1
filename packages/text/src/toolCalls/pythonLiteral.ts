/**
 * Incremental conversion of Python literals to JSON: numbers, strings, True, False, None, lists,
 * tuples and dicts with string keys.
 */
import { inJson, isBlank, MAX_DEPTH } from './json.js'

type Mode =
  | 'value'
  | 'first'
  | 'firstKey'
  | 'colon'
  | 'next'
  | 'opened'
  | 'empty'
  | 'string'
  | 'escape'
  | 'scalar'
  | 'end'

/** The state of reading one literal. */
export interface PythonState {
  readonly mode: Mode
  /** Open brackets, outermost first: `[`, `{`, `(`, and `t` for a tuple that has a comma. */
  readonly stack: string
  /** The quote of a string, once or three times. */
  readonly quote: string
  readonly role: 'key' | 'value'
  /** The separator before the next item. */
  readonly separator: '' | ', '
  /** Characters so far of a number, a word, an escape, or of the quotes that may end a string. */
  readonly token: string
}

/** The state before the first character of a literal. */
export const PYTHON_START: PythonState = {
  mode: 'value',
  stack: '',
  quote: '',
  role: 'value',
  separator: '',
  token: '',
}

/**
 * The state after a character, and the JSON that became final. `again`: the literal ended before
 * the character.
 */
export interface PythonStep {
  readonly state: PythonState
  readonly json: string
  readonly again?: true
}

const at = (state: PythonState, mode: Mode, json = ''): PythonStep => ({ state: { ...state, mode, token: '' }, json })

/** Ends a value. */
const ended = (state: PythonState, json: string): PythonStep =>
  at({ ...state, role: 'value' }, state.stack === '' ? 'end' : 'next', json)

const SCALAR_CHARACTER = /[-+.0-9a-zA-Z_]/
const WORDS = new Map(['True', 'true', 'False', 'false'].map((word) => [word, word.toLowerCase()]))
const NUMBER = /^[-+]?(?:(0|[1-9]\d*)(\.\d*)?|(\.\d+))(?:[eE]([-+]?)(\d+))?$/

/**
 * Converts a number or a word to JSON. Returns undefined for other text. Digits may be grouped with
 * `_`.
 */
const scalarJson = (token: string): string | undefined => {
  const word = WORDS.get(token) ?? (['None', 'null'].includes(token) ? 'null' : undefined)
  if (word !== undefined) return word
  const digits = token.replace(/(?<=\d)_(?=\d)/g, '')
  const match = NUMBER.exec(digits)
  if (match === null) return undefined
  const [, whole = '0', dotted = '', bare = '', sign = '', exponent] = match
  const fraction = dotted === '.' ? '.0' : dotted + bare
  const power = exponent === undefined ? '' : `e${sign}${exponent}`
  return `${digits.startsWith('-') ? '-' : ''}${whole}${fraction}${power}`
}

const closeString = (state: PythonState, json = ''): PythonStep =>
  state.role === 'key' ? at(state, 'colon', `${json}"`) : ended(state, `${json}"`)

const inString = (state: PythonState, c: string): PythonStep => {
  const { quote, token } = state
  if (c === quote[0]) {
    return token.length + 1 === quote.length ? closeString(state) : { state: { ...state, token: token + c }, json: '' }
  }
  const held = inJson(token)
  return c === '\\' ? at(state, 'escape', held) : at(state, 'string', held + inJson(c))
}

const ESCAPES = new Map(Object.entries({ n: '\n', t: '\t', r: '\r', b: '\b', f: '\f', v: '\v', a: '\x07', '\n': '' }))
const HEX_DIGITS = new Map([...Object.entries({ x: 2, u: 4, U: 8 })])

const inHex = (state: PythonState, c: string, digits: number): PythonStep | undefined => {
  const token = state.token + c
  if (!/[0-9a-fA-F]/.test(c)) return undefined
  if (token.length <= digits) return { state: { ...state, token }, json: '' }
  const code = Number.parseInt(token.slice(1), 16)
  if (code > 0x10ffff) return undefined
  return at(state, 'string', inJson(String.fromCodePoint(code)))
}

const inEscape = (state: PythonState, c: string): PythonStep | undefined => {
  const { token } = state
  const digits = HEX_DIGITS.get(token[0] ?? '')
  if (digits !== undefined) return inHex(state, c, digits)
  if (/[0-7]/.test(c) && token.length < 3) return { state: { ...state, token: token + c }, json: '' }
  if (token !== '') {
    const read = at(state, 'string', inJson(String.fromCharCode(Number.parseInt(token, 8))))
    return then(read, c)
  }
  if (HEX_DIGITS.has(c)) return { state: { ...state, token: c }, json: '' }
  if (c === 'N') return undefined // the names of characters
  return at(state, 'string', inJson(ESCAPES.get(c) ?? ('\'"\\'.includes(c) ? c : `\\${c}`)))
}

/** Applies one more character after a step. */
const then = (before: PythonStep, c: string): PythonStep | undefined => {
  if (before.state.mode === 'end') return { ...before, again: true }
  const step = stepPython(before.state, c)
  return step === undefined ? undefined : { ...step, json: before.json + step.json }
}

const openString = (state: PythonState, c: string): PythonStep => ({
  state: { ...state, mode: 'opened', quote: c, separator: '', token: '' },
  json: `${state.separator}"`,
})

const beginValue = (state: PythonState, c: string): PythonStep | undefined => {
  const { stack, separator } = state
  if (c === '"' || c === "'") return openString(state, c)
  if (SCALAR_CHARACTER.test(c)) return { state: { ...state, mode: 'scalar', separator: '', token: c }, json: separator }
  if (!'[{('.includes(c) || stack.length >= MAX_DEPTH) return undefined
  const isDict = c === '{'
  const inside: PythonState = { ...state, stack: stack + c, separator: '', role: isDict ? 'key' : 'value' }
  return at(inside, isDict ? 'firstKey' : 'first', `${separator}${isDict ? '{' : '['}`)
}

const CLOSING: Readonly<Record<string, string>> = { '[': ']', '{': '}', '(': ')', t: ')' }

/** Closes a bracket. Parentheses around one value are not a tuple. */
const close = (state: PythonState, c: string): PythonStep | undefined => {
  const { stack, mode } = state
  const top = stack.at(-1) ?? ''
  if (CLOSING[top] !== c || (top === '(' && mode === 'next')) return undefined
  return ended({ ...state, stack: stack.slice(0, -1), separator: '' }, c === '}' ? '}' : ']')
}

const betweenParts = (state: PythonState, c: string): PythonStep | undefined => {
  const { mode, stack } = state
  const isDict = stack.endsWith('{')
  if (mode === 'colon') return c === ':' ? at({ ...state, role: 'value' }, 'value', ': ') : undefined
  if (mode === 'next' && c === ',') {
    const inside = stack.endsWith('(') ? `${stack.slice(0, -1)}t` : stack
    return at(
      { ...state, stack: inside, separator: ', ', role: isDict ? 'key' : 'value' },
      isDict ? 'firstKey' : 'first',
    )
  }
  if (c === ']' || c === '}' || c === ')') return mode === 'value' ? undefined : close(state, c)
  if (mode === 'firstKey') return c === '"' || c === "'" ? openString(state, c) : undefined
  return mode === 'value' || mode === 'first' ? beginValue(state, c) : undefined
}

/**
 * Handles the character after the quotes of a string: a second quote makes it empty, and a third
 * opens a long string.
 */
const afterQuotes = (state: PythonState, c: string): PythonStep | undefined => {
  const { mode, quote } = state
  if (mode === 'opened') return c === quote ? at(state, 'empty') : inString({ ...state, mode: 'string' }, c)
  return c === quote ? at({ ...state, quote: quote.repeat(3) }, 'string') : then(closeString(state), c)
}

/**
 * Returns the step of one more character, or undefined if no literal continues this way or JSON
 * cannot express it.
 *
 * @example
 * stepPython(PYTHON_START, '[')?.json // '['
 * stepPython(PYTHON_START, '*') // undefined
 */
export const stepPython = (state: PythonState, c: string): PythonStep | undefined => {
  switch (state.mode) {
    case 'string':
      return inString(state, c)
    case 'escape':
      return inEscape(state, c)
    case 'opened':
    case 'empty':
      return afterQuotes(state, c)
    case 'scalar': {
      if (SCALAR_CHARACTER.test(c)) return { state: { ...state, token: state.token + c }, json: '' }
      const json = scalarJson(state.token)
      return json === undefined ? undefined : then(ended(state, json), c)
    }
    default:
      return isBlank(c) ? { state, json: '' } : betweenParts(state, c)
  }
}
