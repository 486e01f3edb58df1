/** Requests of Anthropic's Messages API as chat requests of OpenAI's form. */
import { boundedList } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { type ApiFailure, apiFailure } from './failure.js'
import { parseFields } from './fields.js'
import { REQUEST_LIMITS } from './limits.js'

/** The body of a chat request, which `chatRequest` checks. */
export type ChatBody = Readonly<Record<string, unknown>>

const textBlock = z.object({ type: z.literal('text'), text: z.string() })

const result = z.object({
  type: z.literal('tool_result'),
  tool_use_id: z.string(),
  content: z.union([z.string(), boundedList(z.looseObject({ type: z.string() }), REQUEST_LIMITS.parts)]).nullish(),
})

const block = z.union([
  textBlock,
  result,
  z.object({
    type: z.literal('tool_use'),
    id: z.string(),
    name: z.string(),
    /** An object, or its text where it was read with the numbers as they are written. */
    input: z.union([z.record(z.string(), z.unknown()), z.string()]),
  }),
  z.object({ type: z.literal('thinking'), thinking: z.string() }),
  z.object({ type: z.literal('redacted_thinking') }),
  z.looseObject({ type: z.enum(['image', 'document', 'search_result']) }),
])

type Block = z.infer<typeof block>

const choice = z.object({
  type: z.enum(['auto', 'any', 'tool', 'none']),
  name: z.string().nullish(),
  disable_parallel_tool_use: z.boolean().nullish(),
})

const messages = boundedList(
  z.object({
    role: z.enum(['user', 'assistant', 'system']),
    content: z.union([z.string(), boundedList(block, REQUEST_LIMITS.parts)]),
  }),
  REQUEST_LIMITS.messages,
  { atLeast: 1 },
)

const conversationFields = {
  model: z.string().nullish(),
  messages,
  system: z.union([z.string(), boundedList(textBlock, REQUEST_LIMITS.parts)]).nullish(),
  tools: boundedList(
    z.object({
      type: z.literal('custom').nullish(),
      name: z.string().min(1),
      description: z.string().nullish(),
      input_schema: z.record(z.string(), z.unknown()),
    }),
    REQUEST_LIMITS.tools,
  ).nullish(),
  tool_choice: choice.nullish(),
} as const

const countSchema = z.object(conversationFields)

const schema = z.object({
  ...conversationFields,
  max_tokens: z.int().positive(),
  stop_sequences: boundedList(z.string().max(REQUEST_LIMITS.stopLength), REQUEST_LIMITS.stops).nullish(),
  stream: z.boolean().nullish(),
  temperature: z.number().nullish(),
  top_p: z.number().nullish(),
  top_k: z.int().nullish(),
})

type Fields = z.infer<typeof countSchema>

const isMedia = ({ type }: { readonly type: string }): boolean => type !== 'text'

/** Returns the path of the first content that a model of text cannot read. */
const mediaIn = ({ messages: all }: Fields): string | undefined => {
  for (const [i, { content }] of all.entries()) {
    for (const [j, each] of (typeof content === 'string' ? [] : content).entries()) {
      const inner = each.type === 'tool_result' && Array.isArray(each.content) ? each.content : []
      const isUnread = each.type === 'image' || each.type === 'document' || each.type === 'search_result'
      if (isUnread || inner.some(isMedia)) return `messages.${i}.content.${j}`
    }
  }
  return undefined
}

/** Text parts of a message: one text for one part. */
const contentOf = (texts: readonly string[]): unknown =>
  texts.length === 1 ? texts[0] : texts.map((text) => ({ type: 'text', text }))

const resultText = ({ content }: z.infer<typeof result>): string =>
  typeof content === 'string'
    ? content
    : (content ?? []).map((part) => (typeof part.text === 'string' ? part.text : '')).join('')

/** Results of tools are messages of their own, before the text of the same message. */
const userMessages = (blocks: readonly Block[]): readonly object[] => {
  const results = blocks.flatMap((each) =>
    each.type === 'tool_result' ? [{ role: 'tool', tool_call_id: each.tool_use_id, content: resultText(each) }] : [],
  )
  const texts = blocks.flatMap((each) => (each.type === 'text' ? [each.text] : []))
  return texts.length === 0 && results.length > 0 ? results : [...results, { role: 'user', content: contentOf(texts) }]
}

/** Instructions between messages, as the Claude Agent SDK sends them. */
const systemMessage = (blocks: readonly Block[]): object => ({
  role: 'system',
  content: contentOf(blocks.flatMap((each) => (each.type === 'text' ? [each.text] : []))),
})

const assistantMessage = (blocks: readonly Block[]): object => {
  const calls = blocks.flatMap((each) => {
    if (each.type !== 'tool_use') return []
    const { id, name, input } = each
    const args = typeof input === 'string' ? input : JSON.stringify(input)
    return [{ id, type: 'function', function: { name, arguments: args } }]
  })
  const thoughts = blocks.flatMap((each) => (each.type === 'thinking' ? [each.thinking] : []))
  return {
    role: 'assistant',
    content: blocks.map((each) => (each.type === 'text' ? each.text : '')).join(''),
    ...(thoughts.length > 0 && { reasoning_content: thoughts.join('') }),
    ...(calls.length > 0 && { tool_calls: calls }),
  }
}

const chatMessages = ({ messages: all, system }: Fields): readonly object[] => [
  ...(system == null || system.length === 0
    ? []
    : [
        {
          role: 'system',
          content: typeof system === 'string' ? system : contentOf(system.map(({ text }) => text)),
        },
      ]),
  ...all.flatMap(({ role, content }) => {
    if (typeof content === 'string') return [{ role, content }]
    if (role === 'assistant') return [assistantMessage(content)]
    return role === 'user' ? userMessages(content) : [systemMessage(content)]
  }),
]

const choiceOf = ({ tool_choice: chosen }: Fields): object => {
  if (chosen == null) return {}
  const { type, name } = chosen
  const reply = {
    auto: 'auto',
    none: 'none',
    any: 'required',
    tool: { type: 'function', function: { name: name ?? '' } },
  }
  return {
    tool_choice: reply[type],
    ...(chosen.disable_parallel_tool_use === true && { parallel_tool_calls: false }),
  }
}

/** The conversation of a request. A last message of the assistant is continued. */
const conversationBody = (fields: Fields): E.Either<ApiFailure, ChatBody> => {
  const media = mediaIn(fields)
  if (media !== undefined)
    return E.left(apiFailure(400, `${media}: the served model reads text only; other content is not supported.`, media))
  const { model, tools } = fields
  const isPrefilled = fields.messages.at(-1)?.role === 'assistant'
  return E.right({
    ...(model != null && { model }),
    messages: chatMessages(fields),
    ...(tools != null &&
      tools.length > 0 && {
        tools: tools.map(({ name, description, input_schema: parameters }) => ({
          type: 'function',
          function: { name, ...(description != null && { description }), parameters },
        })),
        ...choiceOf(fields),
      }),
    ...(isPrefilled && { continue_final_message: true, add_generation_prompt: false }),
  })
}

/**
 * Translates the body of `POST /v1/messages` to a chat request.
 *
 * Errors   `Left(ApiFailure)`, 400: fields of a wrong type, and content that is not text.
 */
export const chatOfMessages = (body: unknown): E.Either<ApiFailure, ChatBody> => {
  const parsed = parseFields(schema, body)
  if (E.isLeft(parsed)) return parsed
  const { max_tokens, stop_sequences: stop, stream, temperature, top_p, top_k } = parsed.right
  return E.map((conversation: ChatBody) => ({
    ...conversation,
    max_tokens,
    ...(stop != null && stop.length > 0 && { stop }),
    ...(stream != null && { stream }),
    ...(temperature != null && { temperature }),
    ...(top_p != null && { top_p }),
    ...(top_k != null && { top_k }),
  }))(conversationBody(parsed.right))
}

/**
 * Translates the body of `POST /v1/messages/count_tokens` to a conversation.
 *
 * Errors   as `chatOfMessages`.
 */
export const chatOfCount = (body: unknown): E.Either<ApiFailure, ChatBody> =>
  E.chain(conversationBody)(parseFields(countSchema, body))
