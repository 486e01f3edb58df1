/** Conversations as values. */
import { is, List } from 'immutable'

/** A piece of a message. */
export interface TextPart {
  readonly type: 'text'
  readonly text: string
}

export type ContentPart = TextPart

/** A call of a tool that an assistant's message asks for. */
export interface ToolCall {
  readonly id?: string
  readonly name: string
  readonly arguments: Readonly<Record<string, unknown>>
}

/** One turn of a conversation. Roles are the template's own: system, user, assistant, tool in practice. */
export interface Message {
  readonly role: string
  readonly content: readonly ContentPart[]
  readonly toolCalls: readonly ToolCall[]
  /** False while the author has not finished: a completion that ran into its token limit. */
  readonly isComplete: boolean
}

/** An immutable list of messages. */
export interface History {
  readonly _tag: 'History'
  readonly messages: List<Message>
}

/**
 * A message of text.
 *
 * @example
 * textOf(message('user', 'What is 2 + 2?')) // 'What is 2 + 2?'
 */
export const message = (
  role: string,
  text: string,
  options: { readonly toolCalls?: readonly ToolCall[]; readonly isComplete?: boolean } = {},
): Message => ({
  role,
  content: [{ type: 'text', text }],
  toolCalls: options.toolCalls ?? [],
  isComplete: options.isComplete ?? true,
})

/** The text of all text parts of a message. */
export const textOf = ({ content }: Message): string => content.map((part) => part.text).join('')

/**
 * A conversation.
 *
 * @example
 * History([message('user', 'Hello')]).messages.size // 1
 */
export const History = (messages: Iterable<Message>): History => ({ _tag: 'History', messages: List(messages) })

/** The conversation with one more message. */
export const append = (history: History, next: Message): History => ({
  ...history,
  messages: history.messages.push(next),
})

/** The messages of both, in order. */
export const extend = (history: History, more: History): History => ({
  ...history,
  messages: history.messages.concat(more.messages),
})

/** The first `count` messages. Errors: throws RangeError unless `count` is between 0 and the number of messages. */
export const truncate = (history: History, count: number): History => {
  if (!Number.isInteger(count) || count < 0 || count > history.messages.size) {
    throw new RangeError(`truncate: ${count} is not between 0 and the ${history.messages.size} messages there are`)
  }
  return { ...history, messages: history.messages.take(count) }
}

/** The last message; undefined if there is none. */
export const lastMessage = (history: History): Message | undefined => history.messages.last()

const sameMessage = (a: Message, b: Message): boolean =>
  a === b ||
  (a.role === b.role &&
    a.isComplete === b.isComplete &&
    JSON.stringify([a.content, a.toolCalls]) === JSON.stringify([b.content, b.toolCalls]))

/** Equal messages in the same order. */
export const sameHistory = (a: History, b: History): boolean =>
  is(a.messages, b.messages) ||
  (a.messages.size === b.messages.size && a.messages.every((item, i) => sameMessage(item, b.messages.get(i)!)))
