/**
 * Calls with a tag for each argument:
 * `<tool_call><function=name><parameter=key>value</parameter></function></tool_call>`.
 */
import { inJson, JSON_START, type JsonState, stepJson } from './json.js'
import { type CallMachine, markedCalls } from './machine.js'
import {
  argumentsEvent,
  blanks,
  type CallEvent,
  done,
  emitting,
  endsCall,
  literal,
  more,
  named,
  type Part,
  sequence,
  tagged,
} from './part.js'
import type { ArgumentTypes } from './schemas.js'

const FUNCTION = '<function='
const CLOSE = '</parameter>'
const ENDS = [CLOSE, `\n${CLOSE}`]

/**
 * Returns true if a text is a JSON object or list, nested at most as deeply as arguments may be.
 */
const isJson = (text: string): boolean => {
  let state: JsonState | undefined = JSON_START
  for (const c of text.split('')) state = state === undefined ? undefined : stepJson(state, c)
  return state?.mode === 'end'
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
      return text.startsWith('{') && isJson(text) ? text : undefined
    case 'array':
      return text.startsWith('[') && isJson(text) ? text : undefined
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
  readonly isFirst: boolean
  readonly held: string
  /** Text that is not emitted yet. */
  readonly text: string
}

const isText = ({ types }: Value): boolean => types.every((type) => type === 'string')

const closed = (value: Value, passed: string): readonly CallEvent[] =>
  isText(value) ? argumentsEvent(`${inJson(passed)}"`) : argumentsEvent(jsonOf(value.text + passed, value.types))

const valueFrom =
  (value: Value): Part =>
  (c) => {
    if (value.isFirst && c === '\n') return more(valueFrom({ ...value, isFirst: false }))
    let held = value.held + c
    let passed = ''
    while (!ENDS.some((end) => end.startsWith(held))) {
      passed += held[0]!
      held = held.slice(1)
    }
    if (ENDS.includes(held)) return done('', closed(value, passed))
    const next = { ...value, isFirst: false, held }
    return isText(value)
      ? more(valueFrom(next), argumentsEvent(inJson(passed)))
      : more(valueFrom({ ...next, text: value.text + passed }))
  }

/** Reads the arguments and the end of the function. */
const argumentsFrom = (types: (key: string) => readonly string[], separator: '{' | ', '): Part => {
  const end = argumentsEvent(separator === '{' ? '{}' : '}')
  const parameter = named('>', (key) => {
    const value: Value = { types: types(key), isFirst: true, held: '', text: '' }
    const opening = `${separator}${JSON.stringify(key)}: ${isText(value) ? '"' : ''}`
    return sequence(emitting(literal('>'), argumentsEvent(opening)), valueFrom(value), argumentsFrom(types, ', '))
  })
  return sequence(
    blanks,
    tagged([
      ['<parameter=', parameter],
      ['</function', emitting(literal('>'), end)],
    ]),
  )
}

/**
 * Creates the machine of the `qwen3_coder` format. A value without a type is a string; the outer
 * tag may be missing. Source: the chat templates of Qwen3-Coder, Qwen 3.5 and Nemotron 3, vLLM's
 * `Qwen3EngineToolParser`.
 */
export const qwen3Coder = (types: ArgumentTypes): CallMachine => {
  const body = named('>', (name) =>
    sequence(
      emitting(literal('>'), [{ _tag: 'Call', name, certainty: 'certain' }]),
      argumentsFrom((key) => types(name, key), '{'),
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
