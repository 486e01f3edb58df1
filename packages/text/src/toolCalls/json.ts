/** Incremental JSON: a pushdown automaton over its characters. */

type Mode =
  | 'value'
  | 'firstItem'
  | 'firstKey'
  | 'key'
  | 'colon'
  | 'next'
  | 'string'
  | 'keyString'
  | 'stringEscape'
  | 'keyEscape'
  | 'scalar'
  | 'end'

/** The state of reading one JSON value. */
export interface JsonState {
  readonly mode: Mode
  /** Open brackets, outermost first. */
  readonly stack: string
  /** Characters so far of a number, a word or an escape. */
  readonly token: string
}

/** The state before the first character of a value. */
export const JSON_START: JsonState = { mode: 'value', stack: '', token: '' }

/** Returns true for the white space of JSON. */
export const isBlank = (c: string): boolean => c === ' ' || c === '\n' || c === '\r' || c === '\t'

/**
 * The maximum nesting of brackets. No real call needs more, and later code may walk through the
 * value recursively.
 */
export const MAX_DEPTH = 128

/**
 * Escapes a piece of a string for JSON, without quotes. Lone surrogates are kept, because their
 * other half may follow.
 */
export const inJson = (text: string): string =>
  text
    .split('')
    .map((c) => (c === '"' || c === '\\' || c < ' ' ? JSON.stringify(c).slice(1, -1) : c))
    .join('')

const SCALAR = /^(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)$/
const SCALAR_CHARACTER = /[-+.0-9a-zA-Z]/

const at = (mode: Mode, stack: string, token = ''): JsonState => ({ mode, stack, token })

/** Returns the state after a value. */
const after = (stack: string): JsonState => at(stack === '' ? 'end' : 'next', stack)

const closed = (stack: string): JsonState => after(stack.slice(0, -1))

const beginValue = (stack: string, c: string): JsonState | undefined => {
  if ((c === '{' || c === '[') && stack.length >= MAX_DEPTH) return undefined
  if (c === '{') return at('firstKey', `${stack}{`)
  if (c === '[') return at('firstItem', `${stack}[`)
  if (c === '"') return at('string', stack)
  return SCALAR_CHARACTER.test(c) ? at('scalar', stack, c) : undefined
}

const inText = ({ mode, stack }: JsonState, c: string): JsonState | undefined => {
  const isKey = mode === 'keyString'
  if (c === '"') return isKey ? at('colon', stack) : after(stack)
  if (c === '\\') return at(isKey ? 'keyEscape' : 'stringEscape', stack)
  return c < ' ' ? undefined : at(mode, stack)
}

const inEscape = ({ mode, stack, token }: JsonState, c: string): JsonState | undefined => {
  const back = at(mode === 'keyEscape' ? 'keyString' : 'string', stack)
  if (token === '') return c === 'u' ? at(mode, stack, c) : '"\\/bfnrt'.includes(c) ? back : undefined
  if (!/[0-9a-fA-F]/.test(c)) return undefined
  return token.length === 4 ? back : at(mode, stack, token + c)
}

const inScalar = ({ stack, token }: JsonState, c: string): JsonState | undefined => {
  if (SCALAR_CHARACTER.test(c)) return at('scalar', stack, token + c)
  return SCALAR.test(token) ? stepJson(after(stack), c) : undefined
}

const betweenParts = ({ mode, stack }: JsonState, c: string): JsonState | undefined => {
  const isObject = stack.endsWith('{')
  if (mode === 'next' && c === ',') return at(isObject ? 'key' : 'value', stack)
  if (c === '}') return isObject && (mode === 'next' || mode === 'firstKey') ? closed(stack) : undefined
  if (c === ']') return !isObject && (mode === 'next' || mode === 'firstItem') ? closed(stack) : undefined
  if (mode === 'colon') return c === ':' ? at('value', stack) : undefined
  if (mode === 'key' || mode === 'firstKey') return c === '"' ? at('keyString', stack) : undefined
  return mode === 'value' || mode === 'firstItem' ? beginValue(stack, c) : undefined
}

/**
 * Returns the state after one more character, or undefined if no JSON text continues this way or
 * the nesting exceeds 128 levels.
 *
 * @example
 * stepJson(JSON_START, '{')?.mode // 'firstKey'
 * stepJson(JSON_START, '}') // undefined
 */
export const stepJson = (state: JsonState, c: string): JsonState | undefined => {
  switch (state.mode) {
    case 'string':
    case 'keyString':
      return inText(state, c)
    case 'stringEscape':
    case 'keyEscape':
      return inEscape(state, c)
    case 'scalar':
      return inScalar(state, c)
    default:
      return isBlank(c) ? state : betweenParts(state, c)
  }
}
