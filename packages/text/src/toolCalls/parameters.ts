/**
 * Calls with a tag for each argument:
 * `<tool_call><function=name><parameter=key>value</parameter></function></tool_call>`.
 */
import { inJson, JSON_START, type JsonState, stepJson } from './json.js'
import { type CallMachine, markedCalls } from './machine.js'
import {
  argumentsEvent,
  BROKEN,
  blanks,
  type CallEvent,
  done,
  emitting,
  endsCall,
  isTagName,
  literal,
  more,
  named,
  type Part,
  type PartStep,
  sequence,
  tagged,
} from './part.js'
import { PYTHON_START, type PythonState, stepPython } from './pythonLiteral.js'
import type { ArgumentSchemas } from './schemas.js'

const FUNCTION = '<function='
const PARAMETER = '<parameter='
const CLOSES = ['</parameter>', '\n</parameter>']
const ON_LINES = [PARAMETER, '</function>']
/** Tags in a value: its end, and on a line of their own those that come after it. */
const INSIDE = [...CLOSES, ...ON_LINES.map((tag) => `\n${tag}`)]
const AT_START = [...INSIDE, ...ON_LINES]

/**
 * Returns true if a text is a JSON object or list, nested at most as deeply as arguments may be.
 */
const isJson = (text: string): boolean => {
  let state: JsonState | undefined = JSON_START
  for (const c of text.split('')) state = state === undefined ? undefined : stepJson(state, c)
  return state?.mode === 'end'
}

/** Converts a Python literal to JSON. Returns undefined for other text. */
const pythonJson = (text: string): string | undefined => {
  let state: PythonState = PYTHON_START
  let json = ''
  for (const c of text.split('')) {
    const step = stepPython(state, c)
    if (step === undefined || step.again === true) return undefined
    state = step.state
    json += step.json
  }
  return state.mode === 'end' ? json : undefined
}

const bracketed = (text: string, opening: RegExp): string | undefined => {
  if (!opening.test(text)) return undefined
  return isJson(text) ? text : pythonJson(text)
}

const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?$/

/** Converts a text to JSON of one type. Returns undefined if it does not fit. */
const jsonAs = (text: string, type: string): string | undefined => {
  switch (type) {
    case 'null':
      return /^(?:null|None)$/.test(text) ? 'null' : undefined
    case 'boolean':
      return /^(?:true|false)$/i.test(text) ? text.toLowerCase() : undefined
    case 'integer':
      return NUMBER.test(text) && Number.isInteger(Number(text)) ? text : undefined
    case 'number':
      return NUMBER.test(text) ? text : undefined
    case 'object':
      return bracketed(text, /^\{/)
    case 'array':
      return bracketed(text, /^[[(]/)
    default:
      return undefined
  }
}

const ORDER = ['null', 'integer', 'number', 'boolean', 'object', 'array']

/** Converts a text to JSON of the first of its types that it fits, or else to a string. */
const jsonOf = (text: string, types: readonly string[]): string => {
  const trimmed = text.trim()
  const found = ORDER.flatMap((type) => (types.includes(type) ? [jsonAs(trimmed, type)] : []))
  return found.find((json) => json !== undefined) ?? `"${inJson(text)}"`
}

/** A value being read. A string is emitted as it arrives, any other value at its end. */
interface Value {
  readonly types: readonly string[]
  /** Before the line end after the tag, before other text, or in it. */
  readonly place: 'first' | 'start' | 'inside'
  readonly held: string
  /** Text that is not emitted yet. */
  readonly text: string
  /** The name so far of a parameter that may begin in the value, after the tag in `held`. */
  readonly key: string | null
}

const isText = ({ types }: Value): boolean => types.every((type) => type === 'string')

const closed = (value: Value, passed: string): readonly CallEvent[] =>
  isText(value) ? argumentsEvent(`${inJson(passed)}"`) : argumentsEvent(jsonOf(value.text + passed, value.types))

/** Adds text to an unfinished value. */
const grown = (value: Value, passed: string): readonly [Value, readonly CallEvent[]] =>
  isText(value) ? [value, argumentsEvent(inJson(passed))] : [{ ...value, text: value.text + passed }, []]

/**
 * Reads a value up to its closing tag. Without one, it ends before the next parameter of the tool;
 * another parameter, or the end of the function, breaks it.
 */
const valueFrom =
  (value: Value, has: (key: string) => boolean): Part =>
  (c) => {
    const { place, key } = value
    if (key !== null) return inKey(value, key, c, has)
    if (place === 'first' && c === '\n') return more(valueFrom({ ...value, place: 'start' }, has))
    const tags = place === 'inside' ? INSIDE : AT_START
    let held = value.held + c
    let passed = ''
    while (!(passed === '' ? tags : INSIDE).some((tag) => tag.startsWith(held))) {
      passed += held[0]!
      held = held.slice(1)
    }
    if (CLOSES.includes(held)) return done('', closed(value, passed))
    const isTag = tags.includes(held)
    if (isTag && !held.endsWith(PARAMETER)) return BROKEN
    const next: Value = {
      ...value,
      held,
      key: isTag ? '' : null,
      place: passed === '' && place !== 'inside' ? 'start' : 'inside',
    }
    const [after, events] = grown(next, passed)
    return more(valueFrom(after, has), events)
  }

/** Reads the name of a parameter that may begin in a value. Any other text is part of the value. */
const inKey = (value: Value, key: string, c: string, has: (key: string) => boolean): PartStep => {
  if (c === '>' && isTagName(key)) return has(key) ? done(`${PARAMETER}${key}>`, closed(value, '')) : BROKEN
  if (isTagName(key + c)) return more(valueFrom({ ...value, key: key + c }, has))
  const [next, events] = grown({ ...value, held: '', key: null, place: 'inside' }, value.held + key)
  const step = valueFrom(next, has)(c)
  return { ...step, events: [...events, ...step.events] }
}

/** Reads the arguments and the end of the function. */
const argumentsFrom = (schemas: ArgumentSchemas, separator: '{' | ', '): Part => {
  const end = argumentsEvent(separator === '{' ? '{}' : '}')
  const parameter = named('>', (name) => {
    const value: Value = { types: schemas.typesOf(name), place: 'first', held: '', text: '', key: null }
    const opening = `${separator}${JSON.stringify(name)}: ${isText(value) ? '"' : ''}`
    return sequence(
      emitting(literal('>'), argumentsEvent(opening)),
      valueFrom(value, schemas.has),
      argumentsFrom(schemas, ', '),
    )
  })
  return sequence(
    blanks,
    tagged([
      [PARAMETER, parameter],
      ['</function', emitting(literal('>'), end)],
    ]),
  )
}

/**
 * Creates the machine of the `qwen3_coder` format. A value without a type is a string; the outer
 * tag may be missing. Source: the chat templates of Qwen3-Coder, Qwen 3.5 and Nemotron 3, vLLM's
 * `Qwen3EngineToolParser`.
 */
export const qwen3Coder = (schemasOf: (tool: string) => ArgumentSchemas): CallMachine => {
  const body = named('>', (name) =>
    sequence(
      emitting(literal('>'), [{ _tag: 'Call', name, certainty: 'certain' }]),
      argumentsFrom(schemasOf(name), '{'),
    ),
  )
  return markedCalls([
    {
      tag: '<tool_call>',
      close: '</tool_call>',
      holds: 'calls',
      block: sequence(
        blanks,
        emitting(literal(FUNCTION), [{ _tag: 'Begin' }]),
        body,
        blanks,
        endsCall(literal('</tool_call>')),
      ),
    },
    { tag: FUNCTION, block: endsCall(body), close: '</function>', holds: 'calls' },
  ])
}
