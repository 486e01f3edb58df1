/**
 * Conversations as values.
 *
 * Each fact has one place: tool calls are in `toolCalls` and never in the content, thoughts are in
 * `reasoning`, and `isComplete` records whether a message is finished, whatever tokens its text
 * contains.
 */
import { hash, is, List } from 'immutable'

/** A piece of text. */
export interface TextPart {
  readonly type: 'text'
  readonly text: string
}

/** The bytes of an image, audio clip, video or file: a URL, or base64. */
export type MediaSource = { readonly url: string } | { readonly base64: string; readonly mediaType: string }

export interface ImagePart {
  readonly type: 'image'
  readonly source: MediaSource
}

export interface AudioPart {
  readonly type: 'audio'
  readonly source: MediaSource
}

export interface VideoPart {
  readonly type: 'video'
  readonly source: MediaSource
}

/** A document, such as a PDF. */
export interface FilePart {
  readonly type: 'file'
  readonly source: MediaSource
  readonly name?: string
}

/** A part of the content that is not text. */
export type MediaPart = ImagePart | AudioPart | VideoPart | FilePart

export type ContentPart = TextPart | MediaPart

/** A tool call in an assistant message. */
export interface ToolCall {
  readonly id?: string
  readonly name: string
  /** JSON values. Their order is kept and matters for equality, because templates print it. */
  readonly arguments: Readonly<Record<string, unknown>>
  /**
   * The arguments as JSON text, where it has more than the values: a float such as 1.0, the order
   * of keys such as "2", or an integer beyond 2^53, which is a text in `arguments`. Used to render
   * the call and to pass it on, unless `arguments` were changed.
   */
  readonly written?: string
}

/** The fields of a message besides its role and content. */
export interface MessageDetails {
  readonly toolCalls: readonly ToolCall[]
  /** False if the author has not finished, as when a completion ran into its token limit. */
  readonly isComplete: boolean
  /** The author's thoughts before the content. */
  readonly reasoning?: string
  /** The id of the tool call that this message answers. */
  readonly toolCallId?: string
  /** The name of the author: of the tool, for a tool's result. */
  readonly name?: string
}

/**
 * One turn of a conversation. The template defines the roles; usually system, user, assistant and
 * tool.
 */
export interface Message extends MessageDetails {
  readonly role: string
  readonly content: readonly ContentPart[]
}

/** An immutable list of messages. */
export interface History {
  readonly _tag: 'History'
  readonly messages: List<Message>
}

/**
 * Creates a message from text or from content parts.
 *
 * @example
 * textOf(message('user', 'What is 2 + 2?')) // 'What is 2 + 2?'
 */
export const message = (
  role: string,
  content: string | readonly ContentPart[],
  details: Partial<MessageDetails> = {},
): Message => ({
  role,
  content: typeof content === 'string' ? [{ type: 'text', text: content }] : content,
  toolCalls: [],
  isComplete: true,
  ...details,
})

/**
 * Creates the tool message that returns the result of a call. It carries the call's id and the
 * tool's name.
 *
 * @example
 * toolResult({ id: 'c1', name: 'add', arguments: {} }, '4').toolCallId // 'c1'
 */
export const toolResult = ({ id, name }: ToolCall, content: string | readonly ContentPart[]): Message =>
  message('tool', content, { name, ...(id !== undefined && { toolCallId: id }) })

/** Returns the text of all text parts of a message. */
export const textOf = ({ content }: Message): string =>
  content.map((part) => (part.type === 'text' ? part.text : '')).join('')

/**
 * Creates a conversation.
 *
 * @example
 * History([message('user', 'Hello')]).messages.size // 1
 */
export const History = (messages: Iterable<Message>): History => ({ _tag: 'History', messages: List(messages) })

/**
 * Appends a message to a conversation.
 *
 * @example
 * appendMessage(History([]), message('user', 'Hello')).messages.size // 1
 */
export const appendMessage = (history: History, next: Message): History => ({
  ...history,
  messages: history.messages.push(next),
})

/** Concatenates two conversations. */
export const extendHistory = (history: History, more: History): History => ({
  ...history,
  messages: history.messages.concat(more.messages),
})

/**
 * Returns the first `count` messages. Errors: throws RangeError unless `count` is between 0 and the
 * number of messages.
 */
export const truncateHistory = (history: History, count: number): History => {
  if (!Number.isInteger(count) || count < 0 || count > history.messages.size) {
    throw new RangeError(`truncate: ${count} is not between 0 and the ${history.messages.size} messages there are`)
  }
  return { ...history, messages: history.messages.take(count) }
}

/**
 * Puts a system message in front of a conversation, or replaces the one that is there.
 *
 * @example
 * withSystem(History([message('user', 'Hello')]), message('system', 'Be brief.')).messages.size // 2
 */
export const withSystem = (history: History, system: Message): History => {
  const rest = history.messages.first()?.role === system.role ? history.messages.rest() : history.messages
  return { ...history, messages: rest.unshift(system) }
}

/** Returns the last message, or undefined if the conversation is empty. */
export const lastMessage = (history: History): Message | undefined => history.messages.last()

/** Replaces the last message. Errors: throws RangeError if the conversation is empty. */
export const replaceLast = (history: History, last: Message): History => {
  if (history.messages.isEmpty()) throw new RangeError('replaceLast: the conversation has no message')
  return { ...history, messages: history.messages.set(-1, last) }
}

/**
 * Appends `text` to the last message, which must be incomplete.
 *
 * Errors   throws RangeError if the conversation is empty or its last message is complete.
 *
 * @example
 * textOf(lastMessage(continueLast(History([message('assistant', '2 + ', { isComplete: false })]), '2'))) // '2 + 2'
 */
export const continueLast = (
  history: History,
  text: string,
  { isComplete = true }: { readonly isComplete?: boolean } = {},
): History => {
  const last = lastMessage(history)
  if (last === undefined || last.isComplete) {
    throw new RangeError(
      last === undefined
        ? 'continueLast: the conversation has no message'
        : 'continueLast: the last message is complete',
    )
  }
  const tail = last.content.at(-1)
  const content: readonly ContentPart[] =
    tail?.type === 'text'
      ? [...last.content.slice(0, -1), { type: 'text', text: tail.text + text }]
      : [...last.content, { type: 'text', text }]
  return replaceLast(history, { ...last, content, isComplete })
}

/**
 * Lists the problems with the tool calls of a conversation: an id that two calls share, a result
 * that names no earlier call, two results of one call. Returns an empty list if a model server
 * would accept them.
 */
export const toolCallProblems = (history: History): readonly string[] => {
  const called = new Set<string>()
  const answered = new Set<string>()
  const problems: string[] = []
  for (const [i, { toolCalls, toolCallId }] of history.messages.entries()) {
    for (const { id, name } of toolCalls) {
      if (id !== undefined && called.has(id))
        problems.push(`message ${i}: the call of '${name}' has the id '${id}' again`)
      if (id !== undefined) called.add(id)
    }
    if (toolCallId === undefined) continue
    if (!called.has(toolCallId)) problems.push(`message ${i} answers '${toolCallId}', which no message before it calls`)
    else if (answered.has(toolCallId)) problems.push(`message ${i} answers '${toolCallId}' again`)
    answered.add(toolCallId)
  }
  return problems
}

/** Serializes a message. Two messages are equal exactly if their texts are equal. */
const canonical = (item: Message): string =>
  JSON.stringify([
    item.role,
    item.isComplete,
    item.reasoning ?? null,
    item.toolCallId ?? null,
    item.name ?? null,
    item.toolCalls.map((call) => [call.id ?? null, call.name, call.arguments, call.written ?? null]),
    item.content.map((part) =>
      part.type === 'text'
        ? part.text
        : [
            part.type,
            'url' in part.source ? part.source.url : [part.source.mediaType, part.source.base64],
            ...(part.type === 'file' && part.name !== undefined ? [part.name] : []),
          ],
    ),
  ])

/** Compares roles, parts, tool calls and details. The order of a call's arguments counts. */
export const sameMessage = (a: Message, b: Message): boolean => a === b || canonical(a) === canonical(b)

/** Compares two conversations message by message. */
export const sameHistory = (a: History, b: History): boolean =>
  is(a.messages, b.messages) ||
  (a.messages.size === b.messages.size && a.messages.every((item, i) => sameMessage(item, b.messages.get(i)!)))

/** Returns an integer that is the same for equal conversations. Cost: linear in their text. */
export const hashHistory = (history: History): number => hash(history.messages.map(canonical).join('\n'))
