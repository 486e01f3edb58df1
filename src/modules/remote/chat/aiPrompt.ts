/** Conversations as prompts of the AI SDK's language models. */
import { type FormatFailure, problemList } from '@tandem-rl/base'
import {
  type ContentPart,
  type History,
  lastMessage,
  type MediaPart,
  type Message,
  textOf,
  toolCallProblems,
} from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'

/** A message as language models of the AI SDK take it. */
export type AIMessage =
  | { readonly role: 'system'; readonly content: string }
  | { readonly role: 'user' | 'assistant' | 'tool'; readonly content: readonly AIPart[] }

/** A part of one. */
type AIPart = Readonly<Record<string, unknown>> & { readonly type: string }

const fileOf = (part: MediaPart): AIPart => ({
  type: 'file',
  ...('url' in part.source
    ? { mediaType: `${part.type}/*`, data: new URL(part.source.url) }
    : { mediaType: part.source.mediaType, data: part.source.base64 }),
  ...(part.type === 'file' && part.name !== undefined && { filename: part.name }),
})

const partOf = (part: ContentPart): AIPart => (part.type === 'text' ? { type: 'text', text: part.text } : fileOf(part))

const assistantParts = ({ content, reasoning, toolCalls }: Message): readonly AIPart[] => [
  ...(reasoning === undefined ? [] : [{ type: 'reasoning', text: reasoning }]),
  ...content.map(partOf),
  ...toolCalls.map(({ id, name, arguments: input }) => ({ type: 'tool-call', toolCallId: id, toolName: name, input })),
]

const messageOf = (message: Message): AIMessage => {
  switch (message.role) {
    case 'system':
      return { role: 'system', content: textOf(message) }
    case 'assistant':
      return { role: 'assistant', content: assistantParts(message) }
    case 'tool': {
      const output = { type: 'text', value: textOf(message) }
      return {
        role: 'tool',
        content: [{ type: 'tool-result', toolCallId: message.toolCallId, toolName: message.name, output }],
      }
    }
    default:
      return { role: 'user', content: message.content.map(partOf) }
  }
}

const ROLES: readonly string[] = ['system', 'user', 'assistant', 'tool']

/** Returns the parts of a message that the prompt format cannot express. */
const problemsOf = ({ role, content, toolCalls, toolCallId, name }: Message, i: number): readonly string[] => {
  const isText = content.every(({ type }) => type === 'text')
  return [
    ...(ROLES.includes(role) ? [] : [`${i}: unknown role '${role}': expected one of ${ROLES.join(', ')}`]),
    ...((role === 'system' || role === 'tool') && !isText
      ? [`${i}: a message of the role '${role}' is text alone`]
      : []),
    ...(role === 'tool' && (toolCallId === undefined || name === undefined)
      ? [`${i}: a tool's result names the call and the tool`]
      : []),
    ...(role !== 'assistant' && toolCalls.length > 0 ? [`${i}: only the assistant calls tools`] : []),
    ...toolCalls.filter(({ id }) => id === undefined).map(({ name: tool }) => `${i}: the call of '${tool}' has no id`),
    ...content.flatMap((part) =>
      part.type !== 'text' && 'url' in part.source && !URL.canParse(part.source.url)
        ? [`${i}: an invalid address`]
        : [],
    ),
    ...(content.some((part) => part.type === 'file' && 'url' in part.source)
      ? [`${i}: a file at a URL has no media type, so its bytes must be in the message`]
      : []),
  ]
}

/**
 * A conversation as a prompt. What an earlier author left unfinished goes as far as it goes.
 *
 * Errors   `Left(FormatFailure)` with everything that the form cannot say.
 */
export const aiPrompt = (history: History): E.Either<FormatFailure, readonly AIMessage[]> => {
  const messages = history.messages.toArray()
  const last = lastMessage(history)
  const problems = [
    ...(last === undefined ? ['the conversation has no message to answer'] : []),
    ...(last?.isComplete === false ? ['the last message is unfinished, and a prompt cannot continue a message'] : []),
    ...messages.flatMap(problemsOf),
    ...toolCallProblems(history),
  ]
  return problems.length > 0
    ? E.left({ _tag: 'FormatFailure', format: 'AI SDK prompt', reason: problemList(problems) })
    : E.right(messages.map(messageOf))
}
