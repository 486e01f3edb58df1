/** Requests of OpenAI's Responses API as chat requests. */
import { boundedList } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { ChatBody } from './anthropic.js'
import { type ApiFailure, apiFailure } from './failure.js'
import { parseFields } from './fields.js'
import { REQUEST_LIMITS } from './limits.js'
import type { OutputItem, ResponseMemory } from './responseMemory.js'

const part = z.looseObject({ type: z.string(), text: z.string().nullish(), refusal: z.string().nullish() })

const text = z.union([z.string(), boundedList(part, REQUEST_LIMITS.parts)])

const item = z.union([
  z.object({
    type: z.literal('message').nullish(),
    role: z.enum(['user', 'assistant', 'system', 'developer']),
    content: text,
  }),
  z.object({
    type: z.literal('function_call'),
    call_id: z.string(),
    name: z.string(),
    arguments: z.string(),
  }),
  z.object({ type: z.literal('function_call_output'), call_id: z.string(), output: text }),
  z.object({ type: z.literal('item_reference').nullish(), id: z.string() }),
  z.looseObject({ type: z.string() }),
])

type Item = z.infer<typeof item>

const tool = z.looseObject({
  type: z.string(),
  name: z.string().nullish(),
  description: z.string().nullish(),
  parameters: z.record(z.string(), z.unknown()).nullish(),
})

const schema = z.object({
  model: z.string().nullish(),
  input: z.union([z.string(), boundedList(item, REQUEST_LIMITS.messages)]),
  instructions: z.string().nullish(),
  tools: boundedList(tool, REQUEST_LIMITS.tools).nullish(),
  tool_choice: z.union([z.string(), z.looseObject({ type: z.string(), name: z.string().nullish() })]).nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  max_output_tokens: z.int().positive().nullish(),
  temperature: z.number().nullish(),
  top_p: z.number().nullish(),
  stream: z.boolean().nullish(),
  store: z.boolean().nullish(),
  previous_response_id: z.string().nullish(),
  text: z.looseObject({ format: z.looseObject({ type: z.string() }).nullish() }).nullish(),
})

type Fields = z.infer<typeof schema>

/** A request of the Responses API, and its conversation. */
export interface ResponsesBody {
  readonly chat: ChatBody
  /** The messages of the conversation, without instructions. */
  readonly messages: readonly object[]
  /** The fields that the answer repeats. */
  readonly echoed: Readonly<Record<string, unknown>>
  readonly isStored: boolean
}

const unread = (at: string, what: string): E.Either<ApiFailure, never> =>
  E.left(apiFailure(400, `${at}: ${what} is not supported by the served model.`, at))

const TEXTUAL = ['input_text', 'output_text', 'text', 'refusal']

/** A message's content: one text for one part. */
const contentOf = (content: z.infer<typeof text>, at: string): E.Either<ApiFailure, unknown> => {
  if (typeof content === 'string') return E.right(content)
  const other = content.findIndex(({ type }) => !TEXTUAL.includes(type))
  if (other !== -1) return unread(`${at}.${other}`, `content of type ${content[other]!.type}`)
  const texts = content.map((each) => each.text ?? each.refusal ?? '')
  return E.right(texts.length === 1 ? texts[0] : texts.map((each) => ({ type: 'text', text: each })))
}

/** An item as a message, as thoughts before one, or as a call of the message before it. */
type ReadItem =
  | { readonly _tag: 'Message'; readonly message: Readonly<Record<string, unknown>> }
  | { readonly _tag: 'Call'; readonly call: object }
  | { readonly _tag: 'Thoughts'; readonly text: string }

const messageItem = (message: Readonly<Record<string, unknown>>): ReadItem => ({ _tag: 'Message', message })

const readItem = (each: Item, at: string, memory: ResponseMemory): E.Either<ApiFailure, ReadItem> => {
  if ('role' in each && (each.type == null || each.type === 'message')) {
    const { role, content } = each as Extract<Item, { readonly role: string; readonly content: unknown }> // by its fields
    return E.map((reply) => messageItem({ role, content: reply }))(contentOf(content, `${at}.content`))
  }
  if ('arguments' in each && each.type === 'function_call') {
    const { call_id: id, name, arguments: args } = each as Extract<Item, { readonly arguments: string }> // by its fields
    return E.right({ _tag: 'Call', call: { id, type: 'function', function: { name, arguments: args } } })
  }
  if ('output' in each && each.type === 'function_call_output') {
    const { call_id: id, output } = each as Extract<Item, { readonly output: unknown }> // by its fields
    return E.map((content) => messageItem({ role: 'tool', tool_call_id: id, content }))(
      contentOf(output, `${at}.output`),
    )
  }
  if ((each.type == null || each.type === 'item_reference') && 'id' in each) {
    const known = memory.item(String(each.id))
    return known === undefined
      ? E.left(apiFailure(404, `Item with id '${String(each.id)}' not found.`, at))
      : readItem(known, at, memory)
  }
  if (each.type !== 'reasoning') return unread(at, `an item of type ${String(each.type)}`)
  const parts = z.array(part).safeParse('content' in each ? each.content : [])
  return E.right({ _tag: 'Thoughts', text: (parts.data ?? []).map(({ text: thought }) => thought ?? '').join('') })
}

/**
 * Messages that grow. A call belongs to the message before it, and thoughts to what follows them,
 * if that is the assistant's.
 */
const growingMessages = (before: readonly object[]) => {
  const messages = [...before]
  let assistant: Readonly<Record<string, unknown>> | undefined // the last message, if it accepts calls
  let calls: object[] | undefined // of the last message
  let thoughts = ''
  const withThoughts = (message: Readonly<Record<string, unknown>>) => {
    const reasoning = thoughts
    thoughts = ''
    return message.role !== 'assistant' || reasoning === '' ? message : { ...message, reasoning_content: reasoning }
  }
  return {
    messages,
    add: (read: ReadItem): void => {
      if (read._tag === 'Thoughts') thoughts += read.text
      else if (read._tag === 'Message') {
        const message = withThoughts(read.message)
        messages.push(message)
        assistant = message.role === 'assistant' ? message : undefined
        calls = undefined
      } else if (calls !== undefined) calls.push(read.call)
      else {
        calls = [read.call]
        const caller = { ...(assistant ?? withThoughts({ role: 'assistant', content: '' })), tool_calls: calls }
        if (assistant === undefined) messages.push(caller)
        else messages[messages.length - 1] = caller
      }
    },
  }
}

const readItems = (
  items: readonly Item[],
  before: readonly object[],
  memory: ResponseMemory,
): E.Either<ApiFailure, readonly object[]> => {
  const { messages, add } = growingMessages(before)
  for (const [i, each] of items.entries()) {
    const read = readItem(each, `input.${i}`, memory)
    if (E.isLeft(read)) return read
    add(read.right)
  }
  return E.right(messages)
}

/** The messages that a stored answer adds to a conversation. */
export const messagesOfOutput = (before: readonly object[], output: readonly OutputItem[]): readonly object[] => {
  const read = readItems(output, before, { item: () => undefined, response: () => undefined, store: () => {} })
  return E.isRight(read) ? read.right : before // items that this server wrote can be read
}

const toolsOf = ({
  tools,
  tool_choice: choice,
  parallel_tool_calls: parallel,
}: Fields): E.Either<ApiFailure, object> => {
  if (tools == null || tools.length === 0) return E.right({})
  const other = tools.findIndex(({ type, name }) => type !== 'function' || name == null)
  if (other !== -1) return unread(`tools.${other}`, `a tool of type ${tools[other]!.type}`)
  return E.right({
    tools: tools.map(({ name, description, parameters }) => ({
      type: 'function',
      function: { name, ...(description != null && { description }), parameters: parameters ?? {} },
    })),
    ...(choice != null && {
      tool_choice: typeof choice === 'string' ? choice : { type: 'function', function: { name: choice.name ?? '' } },
    }),
    ...(parallel != null && { parallel_tool_calls: parallel }),
  })
}

const echoedOf = (fields: Fields): ResponsesBody['echoed'] => ({
  instructions: fields.instructions ?? null,
  max_output_tokens: fields.max_output_tokens ?? null,
  parallel_tool_calls: fields.parallel_tool_calls ?? true,
  previous_response_id: fields.previous_response_id ?? null,
  store: fields.store ?? true,
  temperature: fields.temperature ?? 1,
  tool_choice: fields.tool_choice ?? 'auto',
  tools: fields.tools ?? [],
  top_p: fields.top_p ?? 1,
})

/**
 * Translates the body of `POST /v1/responses` to a chat request. Earlier responses and items are
 * looked up in `memory`.
 *
 * Errors   `Left(ApiFailure)`, 400: fields of a wrong type, and items, tools and formats that the
 *          server does not have; 404 for an unknown response or item.
 */
export const chatOfResponses = (body: unknown, memory: ResponseMemory): E.Either<ApiFailure, ResponsesBody> => {
  const parsed = parseFields(schema, body)
  if (E.isLeft(parsed)) return parsed
  const fields = parsed.right
  const { model, instructions, previous_response_id: previous, text: written } = fields
  const before = previous == null ? [] : memory.response(previous)
  if (before === undefined)
    return E.left(apiFailure(404, `Previous response with id '${previous}' not found.`, 'previous_response_id'))
  const format = written?.format?.type ?? 'text'
  if (format !== 'text') return unread('text.format', `the format ${format}, which needs constrained decoding,`)
  const input: readonly Item[] =
    typeof fields.input === 'string' ? [{ role: 'user', content: fields.input }] : fields.input
  const messages = readItems(input, before, memory)
  if (E.isLeft(messages)) return messages
  const system = instructions == null || instructions === '' ? [] : [{ role: 'system', content: instructions }]
  return E.map((tools: object) => ({
    chat: {
      ...(model != null && { model }),
      messages: [...system, ...messages.right],
      ...tools,
      ...(fields.max_output_tokens != null && { max_tokens: fields.max_output_tokens }),
      ...(fields.temperature != null && { temperature: fields.temperature }),
      ...(fields.top_p != null && { top_p: fields.top_p }),
      ...(fields.stream != null && { stream: fields.stream }),
    },
    messages: messages.right,
    echoed: echoedOf(fields),
    isStored: fields.store !== false,
  }))(toolsOf(fields))
}
