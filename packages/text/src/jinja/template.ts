/**
 * Jinja templates with Python's rules: the environment in which Transformers renders chat
 * templates.
 *
 * The syntax tree is that of `@huggingface/jinja`. Its evaluator is not used, because it prints
 * values as JSON, ignores the argument of `strip`, keeps the names that a loop sets from one
 * iteration to the next, and cannot locate a message or a `generation` block in the output.
 */
import type { TextRange } from '../textRange.js'
import { templateWork } from './budget.js'
import { given, ownText } from './origin.js'
import { str } from './print.js'
import { emptySink, type GenerationRange, type ItemRange, type Run } from './scope.js'
import { execute } from './statement.js'
import { strftime } from './strftime.js'
import { parseTemplate } from './syntax.js'
import { TemplateError } from './templateError.js'
import type { Statement } from './tree.js'
import { type Callable, callable, isDict, isList, itemsOf, type TemplateValue, type TracedValue } from './value.js'

/** The longest range, as in Jinja's sandbox. */
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
  templateWork.spend(size)
  return Array.from({ length: size }, (_, i) => start + i * step)
})

const entriesOf = (value: TemplateValue): readonly (readonly [TemplateValue, TemplateValue])[] =>
  isDict(value) ? [...value] : itemsOf(value).map((pair) => [itemsOf(pair)[0], itemsOf(pair)[1]])

const namespace = callable('namespace', ({ positional, named }) => ({
  _tag: 'Namespace',
  fields: new Map([...positional.flatMap(entriesOf).map(([key, item]) => [String(key), item] as const), ...named]),
  origins: new Map(),
}))

const dict = callable(
  'dict',
  ({ positional, named }) => new Map<TemplateValue, TemplateValue>([...positional.flatMap(entriesOf), ...named]),
)

const raise = callable('raise_exception', ({ positional: [message] }) => {
  throw new TemplateError(str(message))
})

const strftimeNow = (now: Date): Callable =>
  callable('strftime_now', ({ positional: [format] }) => strftime(now, str(format)))

/** The input of one run of a template. */
interface TemplateInput {
  readonly variables: ReadonlyMap<string, TemplateValue>
  /**
   * Names of the variables that belong to the template, such as its special tokens. All others are
   *          input.
   */
  readonly own?: ReadonlySet<string>
  /** The time that `strftime_now` returns. Without it the function does not exist. */
  readonly now?: Date
  /** The watched list: the output reports the text that loops write for each of its items. */
  readonly watched?: readonly TemplateValue[]
}

export interface TemplateOutput {
  readonly text: string
  /** The range that each watched item wrote, in the order of the text. */
  readonly items: readonly ItemRange[]
  readonly generations: readonly GenerationRange[]
  /** The ranges that the template took from its input. */
  readonly given: readonly TextRange[]
}

/** A compiled template. */
export type CompiledTemplate = (input: TemplateInput) => TemplateOutput

/** Counts the characters and values of JSON input, the measure of a run's budget. */
const sizeOf = (value: TemplateValue): number => {
  if (typeof value === 'string') return 1 + value.length
  if (isDict(value)) return [...value].reduce((sum, [key, item]) => sum + sizeOf(key) + sizeOf(item), 1)
  return isList(value) ? value.reduce<number>((sum, item) => sum + sizeOf(item), 1) : 1
}

const runProgram = (
  program: readonly Statement[],
  { variables, now, watched = [], own: names }: TemplateInput,
): TemplateOutput => {
  const main = emptySink()
  const run: Run = { main, watched: new Map(watched.map((item, i) => [item, i])), items: [], generations: [] }
  const functions = [range, namespace, dict, raise, ...(now === undefined ? [] : [strftimeNow(now)])]
  const globals = new Map<string, TracedValue>([
    ...functions.map((value) => [value.name, ownText(value)] as const),
    ...[...variables].map(([name, value]) => [name, names?.has(name) ? ownText(value) : given(value)] as const),
  ])
  const global = { run, variables: globals, parent: undefined }
  const size = [...variables.values()].reduce<number>((sum, value) => sum + sizeOf(value), 0)
  templateWork.withBudget(size, () => execute(program, { run, variables: new Map(), parent: global }, main))
  return { text: main.text(), items: run.items, generations: run.generations, given: main.given() }
}

/**
 * Compiles a template.
 *
 * Errors   throws if the source is not valid Jinja; running it throws TemplateError where Python
 *          raises.
 * Cost     bounded: a run does at most 2^20 steps, plus 256 for each character and value of its
 *          input (a step reads or writes eight characters). A run that exceeds them throws
 *          TemplateError. A source is at most 2^18 UTF-16 units long.
 */
export const compileTemplate = (source: string): CompiledTemplate => {
  const program = parseTemplate(source)
  return (input) => runProgram(program, input)
}
