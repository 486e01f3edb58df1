/** Calls as a Python list: `[get_weather(city="Paris"), now()]`, with literals as arguments. */
import { type CallMachine, wholeAnswer } from './machine.js'
import {
  argumentsEvent,
  BROKEN,
  blanks,
  type CallEvent,
  done,
  either,
  emitting,
  endsCall,
  item,
  listEnd,
  literal,
  more,
  optional,
  type Part,
  sequence,
} from './part.js'
import { PYTHON_START, type PythonState, stepPython } from './pythonLiteral.js'

const NAME_LENGTH = 256
const FIRST_CHARACTER = /^[A-Za-z_\u0080-\uffff]$/

/**
 * Returns true if a name may continue with this character: letters, digits, `_`, and `.` in
 * function names.
 */
const goesOn = (before: string, c: string, dots: '.' | ''): boolean =>
  before === '' || before.endsWith('.')
    ? FIRST_CHARACTER.test(c)
    : FIRST_CHARACTER.test(c) || /\d/.test(c) || c === dots

/** Returns true for a valid Python name. `dots` allows the name of a function in a module. */
export const isPythonName = (name: string, dots: '.' | ''): boolean =>
  name !== '' &&
  name.length <= NAME_LENGTH &&
  !name.endsWith('.') &&
  name.split('').every((c, i) => goesOn(name.slice(0, i), c, dots))

/** Reads a name, and then the part that begins with the character after it. */
const identifier =
  (dots: '.' | '', next: (name: string) => Part, before = ''): Part =>
  (c) => {
    if (before.length < NAME_LENGTH && goesOn(before, c, dots)) return more(identifier(dots, next, before + c))
    return isPythonName(before, dots) ? next(before)(c) : BROKEN
  }

const literalFrom =
  (before: PythonState): Part =>
  (c) => {
    const step = stepPython(before, c)
    if (step === undefined) return BROKEN
    const events = argumentsEvent(step.json)
    if (step.state.mode !== 'end') return more(literalFrom(step.state), events)
    return done(step.again === true ? c : '', events)
  }

const CLOSED = argumentsEvent('}')
const CERTAIN: CallEvent = { _tag: 'Certain' }

/** Reads `key=value` and the rest, after emitting `before`. */
const keyword = (before: readonly CallEvent[], separator: '{' | ', '): Part =>
  identifier('', (key) =>
    sequence(
      blanks,
      emitting(literal('='), [...before, { _tag: 'Arguments', text: `${separator}${JSON.stringify(key)}: ` }]),
      blanks,
      literalFrom(PYTHON_START),
      blanks,
      afterValue,
    ),
  )

const afterValue: Part = either((c) => {
  if (c === ')') return emitting(literal(')'), CLOSED)
  const next = either((then) => (then === ')' ? emitting(literal(')'), CLOSED) : keyword([], ', ')))
  return sequence(literal(','), blanks, next)
})

/**
 * Reads a call. It is certain when its first argument has a name, or when it has no arguments,
 * because a link in brackets is not a call.
 */
const call: Part = item(
  identifier('.', (name) => {
    const empty = [CERTAIN, ...argumentsEvent('{}')]
    const inside = either((c) => (c === ')' ? emitting(literal(')'), empty) : keyword([CERTAIN], '{')))
    return sequence(emitting(literal('('), [{ _tag: 'Call', name, certainty: 'possible' }]), blanks, inside)
  }),
)

/** Reads the rest after a call, which ends it: `]`, or a comma, which may be trailing. */
const afterCall: Part = sequence(
  blanks,
  either((c) => {
    if (c !== ',') return listEnd
    const next = either((then) => (then === ']' ? listEnd : sequence(call, afterCall)))
    return sequence(endsCall(literal(',')), blanks, next)
  }),
)

const calls: Part = sequence(blanks, literal('['), blanks, call, afterCall)

/**
 * The whole answer is a list of calls. Source: Meta's prompt format of Llama 3.2, vLLM's
 * `PythonicToolParser`.
 */
export const pythonic: CallMachine = wholeAnswer(calls)

const START = '<|python_start|>'

/**
 * The same, between tags that may be missing. Source: vLLM's template of Llama 4 for lists, and its
 * `Llama4PythonicToolParser`.
 */
export const llama4Pythonic: CallMachine = wholeAnswer(
  sequence(blanks, optional('<', literal(START)), calls, blanks, literal('<|python_end|>')),
)
