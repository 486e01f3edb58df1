/** Messages of what a model wrote: the calls of tools that can be called, and those that stay text because nobody could. */
import * as E from 'fp-ts/lib/Either.js'
import { parseJson } from '../../core/json.js'
import { jsonObject } from '../history/historyJson.js'
import { type Message, type MessageDetails, message, type ToolCall } from '../history.js'
import type { ToolCallFormat } from './format.js'
import { readToolCalls } from './reader.js'

/** Stands in a message's text before a call whose arguments are no JSON object, where an environment can find it. */
export const MALFORMED_CALL = '[malformed tool call]'

/** A call as a model wrote it. */
export interface WrittenCall {
  readonly id?: string
  readonly name: string
  /** JSON text, or what should have been. */
  readonly arguments: string
}

/** A message, and why calls in it are only text. */
export interface ReadCalls {
  readonly message: Message
  readonly malformedCalls: readonly string[]
}

const argumentsOf = (written: string): E.Either<string, ToolCall['arguments']> => {
  if (written.trim() === '') return E.right({})
  const json = parseJson(written)
  if (E.isLeft(json)) return json
  const parsed = jsonObject.safeParse(json.right)
  return parsed.success ? E.right(parsed.data) : E.left('not a JSON object')
}

/**
 * The assistant's message of a text and calls. A call without a name, or whose arguments are no JSON object, is not lost: it follows the text,
 * as it was written, after `MALFORMED_CALL`.
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
    const read = name === '' ? E.left('it names no tool') : argumentsOf(args)
    if (E.isRight(read)) {
      toolCalls.push({ ...(id !== undefined && { id }), name, arguments: read.right })
    } else {
      malformedCalls.push(`the call of '${name}': ${read.left}`)
      whole += `${whole === '' ? '' : '\n'}${MALFORMED_CALL} ${name}(${args})`
    }
  }
  return { message: message('assistant', whole === '' ? [] : whole, { toolCalls, ...details }), malformedCalls }
}

/**
 * Calls in a text, with ids that no other message of the conversation has, for they begin with the index of the message.
 *
 * @example
 * callsInText('<tool_call>{"name": "now"}</tool_call>', { format: 'hermes', index: 1 }).calls[0]?.id // 'call_1_0'
 */
export const callsInText = (
  text: string,
  { format, index }: { readonly format: ToolCallFormat; readonly index: number },
): { readonly text: string; readonly calls: readonly WrittenCall[] } => {
  const read = readToolCalls(text, format)
  return { text: read.text, calls: read.calls.map((each, i) => ({ ...each, id: `call_${index}_${i}` })) }
}
