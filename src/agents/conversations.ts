/** The conversations that agents start from: rows of a data set, and the forms in which callers pass messages. */
import * as E from 'fp-ts/lib/Either.js'
import type { Failure } from '../core/failure.js'
import type { Task } from '../data/task.js'
import { rowFailure } from '../data/task.js'
import { type Message, textOf } from '../text/history/history.js'
import { historyFromOpenAi } from '../text/history/openAiChat.js'

/**
 * A task with a whole conversation instead of only a question. Further fields of its row are kept for
 * rewards and tools.
 */
export interface AgentTask extends Task {
  /** The conversation up to the agent's first reply. Default: `query` as a user's message. */
  readonly messages?: readonly Message[]
}

/** A message as callers write it: in OpenAI's format, with text or with parts. */
export interface PlainMessage {
  readonly role: string
  readonly content: string | readonly object[]
}

/** A conversation with further fields of its row. */
export interface MessagesRow {
  readonly messages: readonly PlainMessage[]
  readonly [field: string]: unknown
}

/**
 * Conversations in one of four shapes: one list of messages, several lists, one row with `messages`
 * and other fields, or several rows.
 */
export type InputMessages =
  | readonly PlainMessage[]
  | readonly (readonly PlainMessage[])[]
  | MessagesRow
  | readonly MessagesRow[]

const isList = (value: unknown): value is readonly unknown[] => Array.isArray(value)

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The rows of an input, whatever its shape. */
const rowsOf = (input: InputMessages): readonly unknown[] => {
  if (!isList(input)) return [input]
  return isRecord(input[0]) && !('messages' in input[0]) ? [{ messages: input }] : input
}

/** The text of the last user's message, which is what rewards and reports show as the question. */
const queryOf = (messages: readonly Message[]): string => {
  const last = messages.findLast(({ role }) => role === 'user')
  return last === undefined ? '' : textOf(last)
}

const text = (value: unknown): string => (typeof value === 'string' ? value : value === undefined ? '' : String(value))

/** An image part of AgentFly, `{ type: 'image', image }` with an address or base64, in OpenAI's format. */
const partOf = (part: unknown): unknown => {
  if (!isRecord(part) || part.type !== 'image' || typeof part.image !== 'string') return part
  const url = /^(?:https?|data|file):/.test(part.image) ? part.image : `data:image/png;base64,${part.image}`
  return { type: 'image_url', image_url: { url } }
}

const plainMessage = (each: unknown): unknown =>
  isRecord(each) && isList(each.content) ? { ...each, content: each.content.map(partOf) } : each

/** A task of messages and other fields, or the problem with them. */
const taskOf = (row: unknown, index: number): E.Either<string, AgentTask> => {
  const fields = isList(row) ? { messages: row } : row
  if (!isRecord(fields)) return E.left('expected a list of messages, or a record with messages')
  if (!isList(fields.messages) || fields.messages.length === 0) return E.left('messages must be a list of messages')
  const history = historyFromOpenAi(fields.messages.map(plainMessage))
  if (E.isLeft(history)) return E.left(history.left.reason)
  const messages = history.right.messages.toArray()
  return E.right({
    ...fields,
    ...{ id: text(fields.id ?? `messages-${index}`), query: queryOf(messages), answer: text(fields.answer), messages },
  })
}

/**
 * Reads the conversations of an input.
 *
 * Errors   `Left` with the first row that is not a conversation, and the others, counted from 1.
 *
 * @example
 * orThrow(inputTasks([{ role: 'user', content: 'Hello' }]))[0]?.query // 'Hello'
 */
export const inputTasks = (input: InputMessages): E.Either<Failure, readonly AgentTask[]> => {
  const read = rowsOf(input).map((row, i) => taskOf(row, i))
  const problems = read.flatMap((each, i) => (E.isLeft(each) ? [{ row: i + 1, reason: each.left }] : []))
  const [first, ...others] = problems
  if (first !== undefined) return E.left(rowFailure('messages', { first, others, unit: 'row' }))
  if (read.length === 0) return E.left(rowFailure('messages', { first: { row: 1, reason: 'there are no messages' } }))
  return E.right(read.flatMap((each) => (E.isRight(each) ? [each.right] : [])))
}
