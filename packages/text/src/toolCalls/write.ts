/** Rendering of tool calls in the format of a model family. */
import {
  errorMessage,
  type FormatFailure,
  isJsonNumber,
  type JsonNumber,
  problemList,
  type StrictJson,
} from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { exactArguments } from '../history/argumentText.js'
import type { ToolCall } from '../history/history.js'
import { deepSeekTag, type ToolCallFormat } from './format.js'
import { isTagName } from './part.js'
import { isPythonName } from './pythonic.js'

/** The spelling of JSON constants: JSON's or Python's. */
interface Words {
  readonly true: string
  readonly false: string
  readonly null: string
}

const JSON_WORDS: Words = { true: 'true', false: 'false', null: 'null' }
const PYTHON_WORDS: Words = { true: 'True', false: 'False', null: 'None' }

/** The maximum nesting of lists and objects in arguments. The text around them adds some levels. */
const MAX_LEVELS = 120

const numberText = (value: number): string => {
  if (!Number.isFinite(value)) throw new RangeError(`${value} is not a JSON number`)
  return Object.is(value, -0) ? '-0.0' : String(value)
}

/**
 * Writes a value with the spacing of Python's json. Errors: throws RangeError for values that JSON
 * cannot express or that are nested too deeply.
 */
const valueText = (value: unknown, words: Words, level = 0): string => {
  if (level > MAX_LEVELS) throw new RangeError(`more than ${MAX_LEVELS} levels of lists and objects`)
  if (value === null) return words.null
  if (typeof value === 'boolean') return words[`${value}`]
  if (typeof value === 'number') return numberText(value)
  if (typeof value === 'string') return JSON.stringify(value)
  if (isJsonNumber(value as StrictJson)) return (value as JsonNumber).source // by the check
  if (Array.isArray(value)) return `[${value.map((each) => valueText(each, words, level + 1)).join(', ')}]`
  if (typeof value !== 'object') throw new RangeError(`a ${typeof value} is not a JSON value`)
  const fields = entriesOf(value as WritableCall['arguments']).map(
    ([key, each]) => `${JSON.stringify(key)}: ${valueText(each, words, level + 1)}`,
  )
  return `{${fields.join(', ')}}`
}

const json = (value: unknown): string => valueText(value, JSON_WORDS)

/** A call with its arguments as they were written. */
type WritableCall = Pick<ToolCall, 'id' | 'name'> & { readonly arguments: ReturnType<typeof exactArguments> }

const entriesOf = (args: WritableCall['arguments']): readonly (readonly [string, unknown])[] =>
  args instanceof Map ? [...args] : Object.entries(args as object) // arguments are an object in either form

/**
 * Writes an object with a name and arguments under these keys, and with the id if both the call and
 * the format have one.
 */
const objectText = (call: WritableCall, [name, args, id]: readonly [string, string, string?]): string => {
  const tail = id === undefined || call.id === undefined ? '' : `, "${id}": ${JSON.stringify(call.id)}`
  return `{"${name}": ${JSON.stringify(call.name)}, "${args}": ${json(call.arguments)}${tail}}`
}

const argumentsKey = ['name', 'arguments'] as const
const parametersKey = ['name', 'parameters'] as const

const pythonText = (calls: readonly WritableCall[]): string => {
  const texts = calls.map(({ name, arguments: args }) => {
    const given = entriesOf(args).map(([key, value]) => `${key}=${valueText(value, PYTHON_WORDS)}`)
    return `${name}(${given.join(', ')})`
  })
  return `[${texts.join(', ')}]`
}

const parameterText = ([key, value]: readonly [string, unknown]): string =>
  `<parameter=${key}>\n${typeof value === 'string' ? value : json(value)}\n</parameter>\n`

const functionText = ({ name, arguments: args }: WritableCall): string =>
  `<tool_call>\n<function=${name}>\n${entriesOf(args).map(parameterText).join('')}</function>\n</tool_call>`

const cohereText = ({ name, arguments: args }: WritableCall, i: number): string =>
  `    {"tool_call_id": "${i}", "tool_name": ${JSON.stringify(name)}, "parameters": ${json(args)}}`

const deepSeekText = (calls: readonly string[], between: string): string =>
  [
    deepSeekTag('tool calls begin'),
    calls.map((call) => deepSeekTag('tool call begin') + call + deepSeekTag('tool call end')).join(between),
    deepSeekTag('tool calls end'),
  ].join('')

/** Writes `</` in strings as `<\/`, for readers that search only for the end of the block. */
const xmlText = ({ id, name, arguments: args }: WritableCall): string =>
  `<tool name="${name}"${id === undefined ? '' : ` tag="${id}"`}>${json(args).replaceAll('</', '<\\/')}</tool>`

const textOf = (calls: readonly WritableCall[], format: ToolCallFormat): string => {
  const objects = (keys: readonly [string, string, string?]): readonly string[] =>
    calls.map((call) => objectText(call, keys))
  switch (format) {
    case 'hermes':
      return objects(argumentsKey)
        .map((text) => `<tool_call>\n${text}\n</tool_call>`)
        .join('\n')
    case 'llama3_json':
      return objects(parametersKey).join('; ')
    case 'pythonic':
    case 'llama4_pythonic':
      return pythonText(calls)
    case 'mistral':
      return `[TOOL_CALLS][${objects([...argumentsKey, 'id']).join(', ')}]`
    case 'deepseek_v3': {
      const sep = deepSeekTag('tool sep')
      return deepSeekText(
        calls.map((call) => `function${sep}${call.name}\n\`\`\`json\n${json(call.arguments)}\n\`\`\``),
        '\n',
      )
    }
    case 'deepseek_v31':
      return deepSeekText(
        calls.map((call) => call.name + deepSeekTag('tool sep') + json(call.arguments)),
        '',
      )
    case 'qwen3_coder':
      return calls.map(functionText).join('\n')
    case 'granite':
      return `<|tool_call|>[${objects(argumentsKey).join(', ')}]`
    case 'phi4_mini_json':
      return `functools[${objects(argumentsKey).join(', ')}]`
    case 'internlm':
      return objects(parametersKey)
        .map((text) => `<|action_start|><|plugin|>\n${text}<|action_end|>`)
        .join('\n')
    case 'cohere_command3':
      return `<|START_ACTION|>[\n${calls.map(cohereText).join(',\n')}\n]<|END_ACTION|>`
    case 'xml_block':
      return calls.map(xmlText).join('\n')
    case 'json_block':
      return objects(argumentsKey)
        .map((text) => `\`\`\`json\n${text}\n\`\`\``)
        .join('\n')
    case 'json_call':
      return `{"message": "", "tools": [${objects(['tool', 'args', 'tag']).join(', ')}]}`
  }
}

/** Text that ends the value of a parameter of `qwen3_coder`. */
const ENDS_VALUE = /<\/parameter>|(?:^|\n)(?:<parameter=[^>\n]*>|<\/function>)/

/** Lists the parts of a call that a format cannot express. */
const problemsOf = ({ id, name, arguments: args }: WritableCall, format: ToolCallFormat): readonly string[] => {
  if (name === '') return ['a call has no name']
  const keys = entriesOf(args).map(([key]) => key)
  const among = (names: readonly string[], isGood: (name: string) => boolean): readonly string[] =>
    names.filter((each) => !isGood(each)).map((each) => `${JSON.stringify(each)} cannot be written as a name`)
  switch (format) {
    case 'pythonic':
    case 'llama4_pythonic':
      return [...among([name], (each) => isPythonName(each, '.')), ...among(keys, (each) => isPythonName(each, ''))]
    case 'deepseek_v3':
    case 'deepseek_v31':
      return among([name], isTagName)
    case 'xml_block':
      return among([name, ...(id === undefined ? [] : [id])], isTagName)
    case 'qwen3_coder':
      return [
        ...among([name, ...keys], isTagName),
        ...entriesOf(args).flatMap(([key, value]) =>
          typeof value === 'string' && ENDS_VALUE.test(value) ? [`the text of '${key}' would end its own tag`] : [],
        ),
      ]
    default:
      return []
  }
}

/**
 * Writes calls in the text format of a model family. No calls give an empty text.
 *
 * Laws     `readToolCalls(written, format)` gives the calls back, and no text; for `qwen3_coder`,
 *          whose text has no types, with the schemas of the tools.
 * Errors   `Left(FormatFailure)` with every problem: names that do not fit the tags of the format,
 *          a string that would end its own tag, arguments that are not JSON or are nested more than
 *          120 levels.
 *
 * @example
 * writeToolCalls([{ name: 'add', arguments: { a: 1, exact: true } }], 'pythonic') // right('[add(a=1, exact=True)]')
 */
export const writeToolCalls = (given: readonly ToolCall[], format: ToolCallFormat): E.Either<FormatFailure, string> => {
  const calls = given.map((call): WritableCall => ({ ...call, arguments: exactArguments(call) }))
  const refuse = (reason: string): E.Either<FormatFailure, never> => E.left({ _tag: 'FormatFailure', format, reason })
  const problems = calls.flatMap((call) => problemsOf(call, format))
  if (problems.length > 0) return refuse(problemList(problems))
  if (calls.length === 0) return E.right('')
  try {
    return E.right(textOf(calls, format))
  } catch (error) {
    return refuse(errorMessage(error))
  }
}
