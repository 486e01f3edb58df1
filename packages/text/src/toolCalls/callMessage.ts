/**
 * Messages from model output. Calls without a name or with malformed arguments stay in the text.
 */
import * as E from 'fp-ts/lib/Either.js'
import { type History, type Message, type MessageDetails, message, type ToolCall } from '../history/history.js'
import { callArguments } from './callArguments.js'
import type { ToolCallFormat } from './format.js'
import { CUT_OFF, type WrittenCall } from './machine.js'
import { type ReadText, readToolCalls, type ToolCallReading } from './reader.js'

/**
 * The prefix in a message's text before a malformed call. Environments search for it.
 */
export const MALFORMED_CALL = '[malformed tool call]'

/** A message, with the reasons why some calls in it stay text. */
export interface ReadCalls {
  readonly message: Message
  readonly malformedCalls: readonly string[]
}

type Details = Pick<MessageDetails, 'isComplete' | 'reasoning'>

/** Appends malformed calls to a text as they were written, each after `MALFORMED_CALL`. */
export const withMalformedCalls = (text: string, calls: readonly WrittenCall[]): string =>
  [
    ...(text === '' ? [] : [text]),
    ...calls.map(({ name, arguments: args }) => `${MALFORMED_CALL} ${name}(${args})`),
  ].join('\n')

const problemOf = ({ name, problem }: WrittenCall): string | undefined =>
  problem ?? (name === '' ? 'it has no tool name' : undefined)

const messageOf = (text: string, written: readonly WrittenCall[], details: Details): ReadCalls => {
  const toolCalls: ToolCall[] = []
  const malformed: WrittenCall[] = []
  const malformedCalls: string[] = []
  for (const call of written) {
    const { id, name } = call
    const problem = problemOf(call)
    const read = problem === undefined ? callArguments(call.arguments) : E.left(problem)
    if (E.isRight(read)) {
      toolCalls.push({ ...(id !== undefined && { id }), name, ...read.right })
    } else {
      malformed.push(call)
      malformedCalls.push(`${name === '' ? 'a call' : `the call of '${name}'`}: ${read.left}`)
    }
  }
  const whole = withMalformedCalls(text, malformed)
  return { message: message('assistant', whole === '' ? [] : whole, { toolCalls, ...details }), malformedCalls }
}

/**
 * Creates the assistant's message from its text and the calls after it. Empty arguments are an
 * empty object. A malformed call is not lost: it is appended to the text as it was written, after
 * `MALFORMED_CALL`. Malformed is a call with a `problem`, without a name, with arguments that are
 * not a JSON object, and the last call of an incomplete message, which was cut off there.
 *
 * @example
 * messageOfCalls('', [{ name: 'add', arguments: '{"a": 1' }], { isComplete: true }).malformedCalls.length // 1
 */
export const messageOfCalls = (text: string, written: readonly WrittenCall[], details: Details): ReadCalls => {
  const calls = written.map((call, i): WrittenCall => {
    const isCut = !details.isComplete && i === written.length - 1
    const isEmpty = call.arguments.trim() === ''
    return {
      ...call,
      ...(isCut && { problem: call.problem ?? CUT_OFF }),
      ...(isEmpty && !isCut && { arguments: '{}' }),
    }
  })
  return messageOf(text, calls, details)
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
export const callsInText = (text: string, reading: AnswerReading): ReadText => {
  const read = readToolCalls(text, reading.format, reading)
  const ids = new Set(reading.taken)
  const calls = read.calls.map((each, i): WrittenCall => {
    const { id } = each
    const isOwn = id !== undefined && !ids.has(id) && (reading.format !== 'mistral' || /^[a-zA-Z0-9]{9}$/.test(id))
    if (isOwn) ids.add(id)
    return isOwn ? each : { ...each, id: freshId(reading, i) }
  })
  return { ...read, calls }
}

/** Options for reading a message from its text. Without `index`, calls get no ids of their own. */
export interface MessageReading extends Omit<AnswerReading, 'format' | 'index' | 'isComplete'> {
  readonly format: ToolCallFormat | 'none'
  readonly index?: number
}

/**
 * Creates the assistant's message from a text that may contain thoughts and calls, as
 * `messageOfCalls`. A call at the end of an incomplete text is malformed.
 *
 * @example
 * messageOfText('<tool_call>{"name": "now"}</tool_call>', { format: 'hermes' }, { isComplete: true }).message.toolCalls.length // 1
 */
export const messageOfText = (
  text: string,
  { index, format, ...rest }: MessageReading,
  details: Details,
): ReadCalls => {
  const reading = { ...rest, isComplete: details.isComplete }
  const { calls, reasoning, ...read } =
    index === undefined || format === 'none'
      ? readToolCalls(text, format, reading)
      : callsInText(text, { ...reading, format, index })
  return messageOf(read.text, calls, { ...(reasoning !== undefined && { reasoning }), ...details })
}
