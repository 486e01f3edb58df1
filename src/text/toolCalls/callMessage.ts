/**
 * Messages from model output. Calls without a name or with malformed arguments stay in the text.
 */
import * as E from 'fp-ts/lib/Either.js'
import { parseJson } from '../../core/json.js'
import { type History, type Message, type MessageDetails, message, type ToolCall } from '../history/history.js'
import { jsonObject } from '../history/historyJson.js'
import type { ToolCallFormat } from './format.js'
import { MAX_DEPTH } from './json.js'
import { readToolCalls, type ToolCallReading } from './reader.js'

/**
 * The prefix in a message's text before a call whose arguments are not a JSON object. Environments
 * search for it.
 */
export const MALFORMED_CALL = '[malformed tool call]'

/** A call as a model wrote it. */
export interface WrittenCall {
  readonly id?: string
  readonly name: string
  /** JSON text, possibly malformed. */
  readonly arguments: string
}

/** A message, with the reasons why some calls in it stay text. */
export interface ReadCalls {
  readonly message: Message
  readonly malformedCalls: readonly string[]
}

/** Returns true if brackets outside of strings are nested more deeply than `levels`. */
const isDeeperThan = (json: string, levels: number): boolean => {
  let [depth, place]: [number, 'text' | 'string' | 'escape'] = [0, 'text']
  for (let i = 0; i < json.length && depth <= levels; i++) {
    const c = json[i]!
    if (place === 'escape') place = 'string'
    else if (place === 'string') place = c === '"' ? 'text' : c === '\\' ? 'escape' : 'string'
    else if (c === '"') place = 'string'
    else if (c === '{' || c === '[') depth += 1
    else if (c === '}' || c === ']') depth -= 1
  }
  return depth > levels
}

const argumentsOf = (written: string): E.Either<string, ToolCall['arguments']> => {
  if (written.trim() === '') return E.right({})
  if (isDeeperThan(written, MAX_DEPTH)) return E.left(`nested more than ${MAX_DEPTH} levels`)
  const json = parseJson(written)
  if (E.isLeft(json)) return json
  const parsed = jsonObject.safeParse(json.right)
  return parsed.success ? E.right(parsed.data) : E.left('not a JSON object')
}

/**
 * Creates the assistant's message from a text and calls. A call without a name, or whose arguments
 * are not a JSON object, is not lost: it is appended to the text as it was written, after
 * `MALFORMED_CALL`.
 *
 * @example
 * messageOfCalls('', [{ name: 'add', arguments: '{"a": 1' }], { isComplete: true }).malformedCalls.length // 1
 */
export const messageOfCalls = (
  text: string,
  written: readonly WrittenCall[],
  details: Pick<MessageDetails, 'isComplete' | 'reasoning'>,
): ReadCalls => {
  const toolCalls: ToolCall[] = []
  const malformedCalls: string[] = []
  let whole = text
  for (const { id, name, arguments: args } of written) {
    const read = name === '' ? E.left('it has no tool name') : argumentsOf(args)
    if (E.isRight(read)) {
      toolCalls.push({ ...(id !== undefined && { id }), name, arguments: read.right })
    } else {
      malformedCalls.push(`the call of '${name}': ${read.left}`)
      whole += `${whole === '' ? '' : '\n'}${MALFORMED_CALL} ${name}(${args})`
    }
  }
  return { message: message('assistant', whole === '' ? [] : whole, { toolCalls, ...details }), malformedCalls }
}

/** Options for reading the calls of an answer and for their ids. */
export interface AnswerReading extends ToolCallReading {
  readonly format: ToolCallFormat
  /** The index of the answer in its conversation. */
  readonly index: number
  /** Ids that other calls of the conversation use. */
  readonly taken?: ReadonlySet<string>
}

/** Returns the ids of all calls in a conversation. */
export const callIds = ({ messages }: History): ReadonlySet<string> =>
  new Set(messages.flatMap(({ toolCalls }) => toolCalls.flatMap(({ id }) => (id === undefined ? [] : [id]))))

/** Creates an id. Mistral's templates accept only ids of nine letters and digits. */
const freshId = ({ format, index }: AnswerReading, i: number): string =>
  format === 'mistral' ? index.toString(36).padStart(5, '0') + i.toString(36).padStart(4, '0') : `call_${index}_${i}`

/**
 * Reads the calls in a text. A call keeps the id that the text gives it, because tool results refer
 * to it, unless another call uses that id. Otherwise it gets an id that begins with the index of
 * the message and is unique in the conversation.
 *
 * @example
 * callsInText('<tool_call>{"name": "now"}</tool_call>', { format: 'hermes', index: 1 }).calls[0]?.id // 'call_1_0'
 */
export const callsInText = (
  text: string,
  reading: AnswerReading,
): { readonly text: string; readonly calls: readonly WrittenCall[] } => {
  const read = readToolCalls(text, reading.format, reading)
  const ids = new Set(reading.taken)
  const calls = read.calls.map((each, i): WrittenCall => {
    const { id } = each
    const isOwn = id !== undefined && !ids.has(id) && (reading.format !== 'mistral' || /^[a-zA-Z0-9]{9}$/.test(id))
    if (isOwn) ids.add(id)
    return isOwn ? each : { ...each, id: freshId(reading, i) }
  })
  return { text: read.text, calls }
}
