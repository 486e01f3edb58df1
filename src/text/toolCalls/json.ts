/** JSON that arrives in pieces: a pushdown automaton over its characters. */

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

/** Where the reading of one JSON value is. */
export interface JsonState {
  readonly mode: Mode
  /** Open brackets, outermost first. */
  readonly stack: string
  /** Characters so far of a number, a word or an escape. */
  readonly token: string
}

/** Before the first character of a value. */
export const JSON_START: JsonState = { mode: 'value', stack: '', token: '' }

/** What may stand between the parts of a JSON text. */
export const isBlank = (c: string): boolean => c === ' ' || c === '\n' || c === '\r' || c === '\t'

/** Brackets in brackets that are still read: nobody writes more, and whatever walks through the value later may do so level by level. */
export const MAX_DEPTH = 128

/** A piece of a string, in JSON, without the quotes around it. Halves of characters stay what they are, for their other half may come. */
export const inJson = (text: string): string =>
  text
    .split('')
    .map((c) => (c === '"' || c === '\\' || c < ' ' ? JSON.stringify(c).slice(1, -1) : c))
    .join('')

const SCALAR = /^(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)$/
const SCALAR_CHARACTER = /[-+.0-9a-zA-Z]/

const at = (mode: Mode, stack: string, token = ''): JsonState => ({ mode, stack, token })

/** A value has ended. */
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
 * The state after one more character; undefined if no JSON text goes on so, or none that is nested as JSON of calls is: 128 levels at most.
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
