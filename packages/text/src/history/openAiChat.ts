/** Conversations in the chat format of OpenAI's API, which most model servers accept. */
import type { FormatFailure } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { boundedList } from '../boundedSchema.js'
import { argumentsText, type ReadArguments, readArguments } from './argumentText.js'
import { type ContentPart, History, type MediaSource, type Message, message, type ToolCall } from './history.js'
import { jsonObject, problemsOf } from './historyJson.js'
import { thinkingPart, thoughtsOf } from './thinkingParts.js'

const FORMAT = 'OpenAI chat'

/** The length of a list is limited by those who read requests. */
const ANY_NUMBER = Number.POSITIVE_INFINITY

/** Invalid messages of a conversation that are reported. */
const REPORTED = 5

const DATA_URL = /^data:([^;,]+);base64,([A-Za-z0-9+/]*={0,2})$/

const sourceOfUrl = (url: string): MediaSource => {
  const [, mediaType, base64] = DATA_URL.exec(url) ?? []
  return mediaType === undefined || base64 === undefined ? { url } : { base64, mediaType }
}

const part = z.discriminatedUnion('type', [
  thinkingPart,
  z.object({ type: z.literal('text'), text: z.string() }),
  z
    .object({ type: z.literal('refusal'), refusal: z.string() })
    .transform(({ refusal }): ContentPart => ({ type: 'text', text: refusal })),
  z
    .object({ type: z.literal('image_url'), image_url: z.object({ url: z.string() }) })
    .transform(({ image_url }): ContentPart => ({ type: 'image', source: sourceOfUrl(image_url.url) })),
  z
    .object({
      type: z.literal('input_audio'),
      input_audio: z.object({ data: z.base64(), format: z.string() }),
    })
    .transform(
      ({ input_audio: { data, format } }): ContentPart => ({
        type: 'audio',
        source: { base64: data, mediaType: `audio/${format}` },
      }),
    ),
  z
    .object({ type: z.literal('video_url'), video_url: z.object({ url: z.string() }) })
    .transform(({ video_url }): ContentPart => ({ type: 'video', source: sourceOfUrl(video_url.url) })),
  z
    .object({
      type: z.literal('file'),
      file: z.object({ file_data: z.string().regex(DATA_URL), filename: z.string().nullish() }),
    })
    .transform(
      ({ file: { file_data: url, filename: name } }): ContentPart => ({
        type: 'file',
        source: sourceOfUrl(url),
        ...(name != null && { name }),
      }),
    ),
])

/** The arguments of a call: a JSON object as text, which may be empty, or the object itself. */
const callArguments = z
  .union([z.string(), jsonObject])
  .nullish()
  .transform((args, context): ReadArguments => {
    if (args == null || args === '') return { arguments: {} }
    if (typeof args !== 'string') return { arguments: args }
    const read = readArguments(args)
    if (E.isRight(read)) return read.right
    context.addIssue(read.left)
    return z.NEVER
  })

const calledFunction = z
  .object({ name: z.string(), arguments: callArguments })
  .transform(({ name, arguments: read }): ToolCall => ({ name, ...read }))

const call = z
  .object({ id: z.string().nullish(), type: z.literal('function').nullish(), function: calledFunction })
  .transform(({ id, function: called }): ToolCall => ({ ...(id != null && { id }), ...called }))

/** Fields with content that a `History` cannot have. */
const empty = z.union([z.null(), z.tuple([])], { error: 'is not supported and would be lost' }).optional()

const wireMessage = z.object({
  role: z.string(),
  content: z.union([z.string(), boundedList(part, ANY_NUMBER)]).nullish(),
  /** vLLM calls the reasoning `reasoning`, others `reasoning_content`. */
  reasoning_content: z.string().nullish(),
  reasoning: z.string().nullish(),
  refusal: z.string().nullish(),
  tool_calls: boundedList(call, ANY_NUMBER).nullish(),
  /** The only call, from before there were several. */
  function_call: calledFunction.nullish(),
  tool_call_id: z.string().nullish(),
  name: z.string().nullish(),
  audio: empty,
})

const contentOf = ({ content, refusal }: z.infer<typeof wireMessage>) => {
  const all = typeof content === 'string' ? [{ type: 'text' as const, text: content }] : (content ?? [])
  return all.length === 0 && refusal != null ? [{ type: 'text' as const, text: refusal }] : all
}

const chatMessage = wireMessage.transform((wire, context): Message => {
  const { role, tool_calls: calls, function_call: only, tool_call_id: id, name } = wire
  if (wire.content === undefined && role !== 'assistant')
    context.addIssue({ code: 'custom', path: ['content'], message: 'is missing' })
  const parts = contentOf(wire)
  const thoughts = parts.filter((item) => item.type === 'thinking')
  const reasoning = wire.reasoning_content ?? wire.reasoning ?? (thoughts.length > 0 ? thoughtsOf(thoughts) : null)
  return message(
    role,
    parts.filter((item) => item.type !== 'thinking'),
    {
      toolCalls: calls == null || calls.length === 0 ? (only == null ? [] : [only]) : calls,
      ...(reasoning !== null && { reasoning }),
      ...(id != null && { toolCallId: id }),
      ...(name != null && { name }),
    },
  )
})

/**
 * Reads a conversation from messages in OpenAI's chat format. All messages are complete, because
 * the format has no field for it. Fields that a `History` does not have, such as `cache_control`,
 * `detail`, `index` and `weight`, are ignored, as servers ignore them.
 *
 * Errors   `Left(FormatFailure)` with the problems of the first five invalid messages and their
 *          paths: arguments that are not a JSON object, content that would be lost.
 *
 * @example
 * historyFromOpenAi([{ role: 'user', content: 'Hello' }]) // right(History([message('user', 'Hello')]))
 */
export const historyFromOpenAi = (messages: unknown): E.Either<FormatFailure, History> => {
  const parsed = boundedList(chatMessage, ANY_NUMBER, { reported: REPORTED }).safeParse(messages)
  return parsed.success ? E.right(History(parsed.data)) : E.left(problemsOf(FORMAT, parsed.error))
}

/** A message in OpenAI's chat format. */
export type OpenAiMessage = Readonly<Record<string, unknown>> & { readonly role: string }

const urlOf = (source: MediaSource): string =>
  'url' in source ? source.url : `data:${source.mediaType};base64,${source.base64}`

const partToOpenAi = (item: ContentPart): object => {
  switch (item.type) {
    case 'text':
      return item
    case 'image':
      return { type: 'image_url', image_url: { url: urlOf(item.source) } }
    case 'audio': {
      const { base64: data, mediaType } = item.source as Exclude<MediaSource, { readonly url: string }> // `problems` refused addresses
      return { type: 'input_audio', input_audio: { data, format: mediaType.replace(/^audio\//, '') } }
    }
    case 'video':
      return { type: 'video_url', video_url: { url: urlOf(item.source) } }
    case 'file': {
      const { name } = item
      return { type: 'file', file: { file_data: urlOf(item.source), ...(name !== undefined && { filename: name }) } }
    }
  }
}

/** Lists the parts of a message that the format cannot express. */
const problems = ({ content, isComplete }: Message, i: number): readonly string[] => [
  ...(isComplete ? [] : [`${i}: the message is incomplete, which the format cannot express`]),
  ...content.flatMap((item, j) => {
    if (item.type === 'file' && 'url' in item.source) return [`${i}.content.${j}: the format does not allow file URLs`]
    if (item.type !== 'audio') return []
    if ('url' in item.source) return [`${i}.content.${j}: the format does not allow audio URLs`]
    return item.source.mediaType.startsWith('audio/')
      ? []
      : [`${i}.content.${j}: '${item.source.mediaType}' is not an audio type`]
  }),
]

const toOpenAi = ({ role, content, toolCalls, reasoning, toolCallId, name }: Message): OpenAiMessage => {
  const [first] = content
  const parts = content.length === 0 ? null : content.map(partToOpenAi)
  return {
    role,
    ...(name !== undefined && { name }),
    content: content.length === 1 && first?.type === 'text' ? first.text : parts,
    ...(reasoning !== undefined && { reasoning_content: reasoning }),
    ...(toolCallId !== undefined && { tool_call_id: toolCallId }),
    ...(toolCalls.length > 0 && {
      tool_calls: toolCalls.map((each) => ({
        ...(each.id !== undefined && { id: each.id }),
        type: 'function',
        function: { name: each.name, arguments: argumentsText(each) },
      })),
    }),
  }
}

/**
 * Converts a conversation to OpenAI's chat format. `historyFromOpenAi` reads the messages back
 * equal.
 *
 * Errors   `Left(FormatFailure)` with everything that the format cannot express: incomplete
 *          messages, and URLs of audio and files.
 */
export const historyToOpenAi = (history: History): E.Either<FormatFailure, readonly OpenAiMessage[]> => {
  const all = history.messages.toArray()
  const found = all.flatMap(problems)
  return found.length > 0
    ? E.left({ _tag: 'FormatFailure', format: FORMAT, reason: found.join('; ') })
    : E.right(all.map(toOpenAi))
}
