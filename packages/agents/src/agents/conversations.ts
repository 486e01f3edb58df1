/** The forms in which callers pass conversations to an agent. */

import { type Failure, rowFailure } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { type AgentRowTask, agentTask } from 'tandem-rl/datasets'

/** A message as callers write it: in OpenAI's format, with text or with parts. */
export interface PlainMessage {
  readonly role: string
  readonly content: string | readonly object[]
}

/** A conversation, or a question, with further fields. */
export interface MessagesRow {
  readonly messages?: readonly PlainMessage[]
  readonly question?: string
  readonly [field: string]: unknown
}

/**
 * Conversations in one of four shapes: one list of messages, several lists, one row with `messages`
 * (or `question`) and other fields, or several rows.
 */
export type InputMessages =
  | readonly PlainMessage[]
  | readonly (readonly PlainMessage[])[]
  | MessagesRow
  | readonly MessagesRow[]

const isMessage = (value: unknown): boolean => typeof value === 'object' && value !== null && 'role' in value

/** The rows of an input, whatever its shape. */
const rowsOf = (input: InputMessages): readonly unknown[] => {
  if (!Array.isArray(input)) return [input]
  const items: readonly unknown[] = input
  return isMessage(items[0])
    ? [{ messages: items }]
    : items.map((row) => (Array.isArray(row) ? { messages: row } : row))
}

/**
 * Reads the conversations of an input.
 *
 * Errors   `Left` with the first row that is not a conversation, and the others, counted from 1.
 *
 * @example
 * orThrow(inputTasks([{ role: 'user', content: 'Hello' }]))[0]?.query // 'Hello'
 */
export const inputTasks = (input: InputMessages): E.Either<Failure, readonly AgentRowTask[]> => {
  const read = rowsOf(input).map((row, i) => agentTask(row, `messages-${i}`))
  const problems = read.flatMap((each, i) => (E.isLeft(each) ? [{ row: i + 1, reason: each.left }] : []))
  const [first, ...others] = problems
  if (first !== undefined) return E.left(rowFailure('messages', { first, others, unit: 'row' }))
  if (read.length === 0) return E.left(rowFailure('messages', { first: { row: 1, reason: 'there are no messages' } }))
  return E.right(read.flatMap((each) => (E.isRight(each) ? [each.right] : [])))
}
