/** `POST /v1/messages`, Anthropic's Messages API: the answer. */
import * as E from 'fp-ts/lib/Either.js'
import { chatOfCount, chatOfMessages } from '../requests/anthropic.js'
import { type ChatRequest, chatRequest, type ReadChat, readChat } from '../requests/chat.js'
import { type ApiFailure, anthropicBody } from '../requests/failure.js'
import { parseFields } from '../requests/fields.js'
import type { RunningJob } from '../requests/generation.js'
import { chatSchema, conversation } from '../requests/messages.js'
import type { ReadingEnv, Served } from '../requests/served.js'
import { namedFrame } from '../requests/streams.js'
import { type Endpoint, endpoint } from './answer.js'
import {
  callsTools,
  type ReplyBlock,
  type ReplyEvent,
  replyEvents,
  type WholeReply,
  wholeReply,
} from './replyEvents.js'

const PREFIX = 'toolu_'

const usageOf = ({ usage: { prompt, completion, cached } }: Pick<WholeReply, 'usage'>): object => ({
  input_tokens: prompt - cached,
  output_tokens: completion,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: cached,
})

const stopOf = (reply: WholeReply): object => {
  const { finishReason, stopReason } = reply
  if (finishReason === 'length') return { stop_reason: 'max_tokens', stop_sequence: null }
  if (callsTools(reply)) return { stop_reason: 'tool_use', stop_sequence: null }
  return typeof stopReason === 'string'
    ? { stop_reason: 'stop_sequence', stop_sequence: stopReason }
    : { stop_reason: 'end_turn', stop_sequence: null }
}

/** A block as it begins: without text, and with empty arguments. */
const begunBlock = (block: ReplyBlock): object => {
  switch (block.kind) {
    case 'text':
      return { type: 'text', text: '', citations: null }
    case 'thoughts':
      return { type: 'thinking', thinking: '', signature: '' }
    case 'call':
      return { type: 'tool_use', id: block.id, name: block.name, input: {} }
  }
}

/** The JSON text of a block. Arguments keep the numbers that the model wrote. */
const blockJson = (block: ReplyBlock): string => {
  const { kind, text } = block
  if (kind !== 'call') return JSON.stringify({ ...begunBlock(block), [kind === 'text' ? 'text' : 'thinking']: text })
  const { id, name } = block
  return `${JSON.stringify({ type: 'tool_use', id, name }).slice(0, -1)},"input":${text}}`
}

const deltaOf = (kind: ReplyBlock['kind'], text: string): object => {
  switch (kind) {
    case 'text':
      return { type: 'text_delta', text }
    case 'thoughts':
      return { type: 'thinking_delta', thinking: text }
    case 'call':
      return { type: 'input_json_delta', partial_json: text }
  }
}

const heading = ({ job, model }: ChatRequest): object => ({
  id: `msg_${job.name}`,
  type: 'message',
  role: 'assistant',
  model,
})

const UNSTOPPED = { stop_reason: null, stop_sequence: null }

const frame = (type: string, fields: object): string => namedFrame(type, { type, ...fields })

const frameOf = (request: ChatRequest, event: ReplyEvent): string => {
  switch (event._tag) {
    case 'Begin': {
      const usage = usageOf({ usage: { prompt: request.prompt.length, completion: 0, cached: event.cached } })
      return frame('message_start', { message: { ...heading(request), content: [], ...UNSTOPPED, usage } })
    }
    case 'Open':
      return frame('content_block_start', {
        index: event.index,
        content_block: begunBlock(event.block),
      })
    case 'More': {
      const { index, kind, text } = event
      return frame('content_block_delta', { index, delta: deltaOf(kind, text) })
    }
    case 'Close':
      return frame('content_block_stop', { index: event.index })
    case 'End':
      return frame('message_delta', { delta: stopOf(event.end), usage: usageOf(event.end) }) + frame('message_stop', {})
    case 'Failed':
      return namedFrame('error', anthropicBody(event.failure))
  }
}

async function* frames(served: Served, request: ChatRequest, running: RunningJob): AsyncGenerator<string> {
  for await (const event of replyEvents(served, request, { running, prefix: PREFIX })) yield frameOf(request, event)
}

/** Reads a request of the Messages API. Errors: those of a chat request. */
export const readMessages = ({ text }: ReadingEnv, body: unknown): E.Either<ApiFailure, ReadChat> =>
  E.chain((chat) => readChat(text, chat))(chatOfMessages(body))

/** Answers a request of the Messages API, whole or as a stream of named events. */
export const messages: Endpoint<ReadChat> = endpoint(chatRequest, (served, request) => ({
  whole: ([prompt]) => {
    const reply = wholeReply(served, request, { prompt: prompt!, prefix: PREFIX })
    const rest = JSON.stringify({ ...heading(request), ...stopOf(reply), usage: usageOf(reply) })
    return `${rest.slice(0, -1)},"content":[${reply.blocks.map(blockJson).join(',')}]}`
  },
  frames: (running) => frames(served, request, running),
}))

/**
 * Counts the tokens of a conversation: `POST /v1/messages/count_tokens`.
 *
 * Errors   `Left(ApiFailure)`, 400, as for `messages`.
 */
export const readMessageCount = ({ text }: ReadingEnv, body: unknown): E.Either<ApiFailure, number> => {
  const chat = E.chain((translated: object) => parseFields(chatSchema, translated))(chatOfCount(body))
  if (E.isLeft(chat)) return chat
  return E.map(({ ids }: { readonly ids: Int32Array }) => ids.length)(conversation(text, chat.right))
}
