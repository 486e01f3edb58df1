/**
 * Conversations as values.
 *
 * This folder holds conversations as values, and their JSON. It does not hold their text for a
 * model (`../template`).
 *
 * A thing is said in one place: tool calls are in `toolCalls` and nowhere in the content, thoughts are in `reasoning`, and whether a
 * message is finished is `isComplete`, never the presence of a token in its text.
 */
import { hash, is, List } from 'immutable'

/** A piece of text. */
export interface TextPart {
  readonly type: 'text'
  readonly text: string
}

/** The bytes of an image, a sound, a video or a file: a URL, or base64. */
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

/** A call of a tool that an assistant's message asks for. */
export interface ToolCall {
  readonly id?: string
  readonly name: string
  /** JSON values. Their order is kept, and counts for equality: templates print it. */
  readonly arguments: Readonly<Record<string, unknown>>
}

/** What a message has besides its role and its content. */
export interface MessageDetails {
  readonly toolCalls: readonly ToolCall[]
  /** False while the author has not finished: a completion that ran into its token limit. */
  readonly isComplete: boolean
  /** What the author thought before the content. */
  readonly reasoning?: string
  /** The id of the tool call that this message answers. */
  readonly toolCallId?: string
  /** The name of the author: of the tool, for a tool's result. */
  readonly name?: string
}

/** One turn of a conversation. Roles are the template's own: system, user, assistant, tool in practice. */
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
 * A message of text, or of parts.
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
 * The result of a tool call, as a message that names the call and the tool.
 *
 * @example
 * toolResult({ id: 'c1', name: 'add', arguments: {} }, '4').toolCallId // 'c1'
 */
export const toolResult = ({ id, name }: ToolCall, content: string | readonly ContentPart[]): Message =>
  message('tool', content, { name, ...(id !== undefined && { toolCallId: id }) })

/** The text of all text parts of a message. */
export const textOf = ({ content }: Message): string =>
  content.map((part) => (part.type === 'text' ? part.text : '')).join('')

/**
 * A conversation.
 *
 * @example
 * History([message('user', 'Hello')]).messages.size // 1
 */
export const History = (messages: Iterable<Message>): History => ({ _tag: 'History', messages: List(messages) })

/**
 * The conversation with one more message.
 *
 * @example
 * appendMessage(History([]), message('user', 'Hello')).messages.size // 1
 */
export const appendMessage = (history: History, next: Message): History => ({
  ...history,
  messages: history.messages.push(next),
})

/** The messages of both, in order. */
export const extendHistory = (history: History, more: History): History => ({
  ...history,
  messages: history.messages.concat(more.messages),
})

/** The first `count` messages. Errors: throws RangeError unless `count` is between 0 and the number of messages. */
export const truncateHistory = (history: History, count: number): History => {
  if (!Number.isInteger(count) || count < 0 || count > history.messages.size) {
    throw new RangeError(`truncate: ${count} is not between 0 and the ${history.messages.size} messages there are`)
  }
  return { ...history, messages: history.messages.take(count) }
}

/**
 * The conversation with this message in front. A system message that is there already is replaced.
 *
 * @example
 * withSystem(History([message('user', 'Hello')]), message('system', 'Be brief.')).messages.size // 2
 */
export const withSystem = (history: History, system: Message): History => {
  const rest = history.messages.first()?.role === system.role ? history.messages.rest() : history.messages
  return { ...history, messages: rest.unshift(system) }
}

/** The last message; undefined if there is none. */
export const lastMessage = (history: History): Message | undefined => history.messages.last()

/** The conversation with another last message. Errors: throws RangeError if there is none to replace. */
export const replaceLast = (history: History, last: Message): History => {
  if (history.messages.isEmpty()) throw new RangeError('replaceLast: the conversation has no message')
  return { ...history, messages: history.messages.set(-1, last) }
}

/**
 * The conversation in which the last message, which is incomplete, goes on with `text`.
 *
 * Errors   throws RangeError if there is no message, or if the last one is complete.
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
 * What is wrong with the tool calls of a conversation: an id that two calls have, a result that names no earlier call, two results of one
 * call. None if a model's server would accept them.
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

/** A message as text in which equal messages, and only those, are equal. */
const canonical = (item: Message): string =>
  JSON.stringify([
    item.role,
    item.isComplete,
    item.reasoning ?? null,
    item.toolCallId ?? null,
    item.name ?? null,
    item.toolCalls.map((call) => [call.id ?? null, call.name, call.arguments]),
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

/** Equal roles, parts, tool calls and details. The order of the arguments of a call counts. */
export const sameMessage = (a: Message, b: Message): boolean => a === b || canonical(a) === canonical(b)

/** Equal messages in the same order. */
export const sameHistory = (a: History, b: History): boolean =>
  is(a.messages, b.messages) ||
  (a.messages.size === b.messages.size && a.messages.every((item, i) => sameMessage(item, b.messages.get(i)!)))

/** An integer that is the same for equal conversations. Cost: linear in their text. */
export const hashHistory = (history: History): number => hash(history.messages.map(canonical).join('\n'))
