/**
 * Jinja templates, run with Python's rules: the environment in which Transformers renders chat templates.
 *
 * The syntax tree is that of `@huggingface/jinja`; its evaluator is not used, because it prints values as JSON, ignores the argument of
 * `strip`, keeps the names that a loop sets from one turn to the next, and can tell neither where a message nor where a
 * `generation` block went.
 */

import type { TextRange } from '../textRange.js'
import { given, own } from './origin.js'
import { print } from './print.js'
import { emptySink, type GenerationRange, type ItemRange, type Run } from './scope.js'
import { execute } from './statement.js'
import { strftime } from './strftime.js'
import { parseTemplate } from './syntax.js'
import type { Statement } from './tree.js'
import { type Callable, callable, isDict, itemsOf, TemplateError, type Traced, type Value } from './value.js'

/** Ranges that are longer are refused, as in Jinja's sandbox. */
const MAX_RANGE = 100_000

const range = callable('range', ({ positional }) => {
  const numbers = positional.map((bound) => {
    if (typeof bound === 'number' && Number.isInteger(bound)) return bound
    throw new TemplateError('range() takes integers')
  })
  const [start, stop, step = 1] = numbers.length === 1 ? [0, numbers[0]!] : numbers
  if (start === undefined || stop === undefined) throw new TemplateError('range expected at least 1 argument, got 0')
  if (step === 0) throw new TemplateError('range() arg 3 must not be zero')
  const size = Math.max(0, Math.ceil((stop - start) / step))
  if (size > MAX_RANGE) throw new TemplateError(`Range too big. The sandbox blocks ranges larger than ${MAX_RANGE}`)
  return Array.from({ length: size }, (_, i) => start + i * step)
})

const entriesOf = (value: Value): readonly (readonly [Value, Value])[] =>
  isDict(value) ? [...value] : itemsOf(value).map((pair) => [itemsOf(pair)[0], itemsOf(pair)[1]])

const namespace = callable('namespace', ({ positional, named }) => ({
  _tag: 'Namespace',
  fields: new Map([...positional.flatMap(entriesOf).map(([key, item]) => [String(key), item] as const), ...named]),
  origins: new Map(),
}))

const dict = callable(
  'dict',
  ({ positional, named }) => new Map<Value, Value>([...positional.flatMap(entriesOf), ...named]),
)

const raise = callable('raise_exception', ({ positional: [message] }) => {
  throw new TemplateError(print(message))
})

const strftimeNow = (now: Date): Callable =>
  callable('strftime_now', ({ positional: [format] }) => strftime(now, print(format)))

/** What a template is run with. */
interface TemplateInput {
  readonly variables: ReadonlyMap<string, Value>
  /** Names of the variables that belong to the template, such as its special tokens. All others are given. */
  readonly own?: ReadonlySet<string>
  /** The moment that `strftime_now` tells; without it the function does not exist. */
  readonly now?: Date
  /** The items of this list are watched: what loops over them write is reported. */
  readonly watched?: readonly Value[]
}

export interface TemplateOutput {
  readonly text: string
  /** What each watched item wrote, in the order of the text. */
  readonly items: readonly ItemRange[]
  readonly generations: readonly GenerationRange[]
  /** What the template took from its variables, and did not write itself. */
  readonly given: readonly TextRange[]
}

/** A template that is ready to run. */
export type CompiledTemplate = (input: TemplateInput) => TemplateOutput

const runProgram = (
  program: readonly Statement[],
  { variables, now, watched = [], own: names }: TemplateInput,
): TemplateOutput => {
  const main = emptySink()
  const run: Run = { main, watched: new Map(watched.map((item, i) => [item, i])), items: [], generations: [] }
  const functions = [range, namespace, dict, raise, ...(now === undefined ? [] : [strftimeNow(now)])]
  const globals = new Map<string, Traced>([
    ...functions.map((value) => [value.name, own(value)] as const),
    ...[...variables].map(([name, value]) => [name, names?.has(name) ? own(value) : given(value)] as const),
  ])
  execute(program, { run, variables: new Map(), parent: { run, variables: globals, parent: undefined } }, main)
  return { text: main.text(), items: run.items, generations: run.generations, given: main.given() }
}

/**
 * Compiles a template.
 *
 * Errors   throws if the source is not valid Jinja; running it throws TemplateError where Python raises.
 * Cost     running is linear in what the template does. Recursion without end throws; ranges and repetitions are limited.
 */
export const compileTemplate = (source: string): CompiledTemplate => {
  const program = parseTemplate(source)
  return (input) => runProgram(program, input)
}
