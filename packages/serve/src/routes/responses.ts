/** `POST /v1/responses`, OpenAI's Responses API: the answer. */
import * as E from 'fp-ts/lib/Either.js'
import { type ChatRequest, chatRequest, type ReadChat, readChat } from '../requests/chat.js'
import type { ApiFailure } from '../requests/failure.js'
import type { RunningJob } from '../requests/generation.js'
import type { OutputItem } from '../requests/responseMemory.js'
import { chatOfResponses, messagesOfOutput, type ResponsesBody } from '../requests/responses.js'
import { type ReadingEnv, type Served, unixSeconds } from '../requests/served.js'
import { namedFrame } from '../requests/streams.js'
import { type Endpoint, endpoint } from './answer.js'
import { type ReplyBlock, type ReplyEvent, replyEvents, type WholeReply, wholeReply } from './replyEvents.js'

const PREFIX = 'call_'

/** A request with its conversation. */
interface Wanted extends ChatRequest {
  readonly body: Omit<ResponsesBody, 'chat'>
}

const idOf = ({ job }: Wanted): string => `resp_${job.name}`

const textPart = (text: string): object => ({ type: 'output_text', text, annotations: [], logprobs: [] })

const EMPTY: ReplyBlock = { kind: 'text', text: '' }

/** The part of a block of text or thoughts. */
const partOf = ({ kind, text }: ReplyBlock): object =>
  kind === 'text' ? textPart(text) : { type: 'reasoning_text', text }

const itemOf = ({ job: { name: job } }: Wanted, block: ReplyBlock, index: number): OutputItem => {
  const status = 'completed'
  switch (block.kind) {
    case 'text':
      return { type: 'message', id: `msg_${job}_${index}`, role: 'assistant', status, content: [partOf(block)] }
    case 'thoughts':
      return { type: 'reasoning', id: `rs_${job}_${index}`, summary: [], status, content: [partOf(block)] }
    case 'call': {
      const { id, name, text } = block
      return { type: 'function_call', id: `fc_${job}_${index}`, call_id: id, name, arguments: text, status }
    }
  }
}

/** An item that has just begun. */
const begunItem = (wanted: Wanted, block: ReplyBlock, index: number): object => ({
  ...itemOf(wanted, block, index),
  status: 'in_progress',
  ...(block.kind === 'call' ? { arguments: '' } : { content: [] }),
})

const responseJson = (served: Served, wanted: Wanted, fields: object): object => ({
  id: idOf(wanted),
  object: 'response',
  created_at: unixSeconds(served.world),
  model: wanted.model,
  status: 'in_progress',
  error: null,
  incomplete_details: null,
  output: [],
  usage: null,
  ...wanted.body.echoed,
  metadata: {},
  reasoning: { effort: null, summary: null },
  service_tier: 'default',
  user: null,
  text: { format: { type: 'text' } },
  top_logprobs: 0,
  truncation: 'disabled',
  background: false,
  ...fields,
})

/** A reply without blocks is an empty message: clients expect an item. */
const itemsOf = (wanted: Wanted, { blocks }: WholeReply): readonly OutputItem[] =>
  (blocks.length === 0 ? [EMPTY] : blocks).map((block, index) => itemOf(wanted, block, index))

/** The ended response. Effects: remembers it, unless the client wants it forgotten. */
const endedJson = (served: Served, wanted: Wanted, reply: WholeReply): object => {
  const output = itemsOf(wanted, reply)
  const { prompt, completion, cached } = reply.usage
  const { messages, isStored } = wanted.body
  if (isStored)
    served.responses.store(idOf(wanted), {
      messages: messagesOfOutput(messages, output),
      items: output,
      tokens: prompt + completion,
    })
  const isCut = reply.finishReason === 'length'
  return responseJson(served, wanted, {
    output,
    status: isCut ? 'incomplete' : 'completed',
    incomplete_details: isCut ? { reason: 'max_output_tokens' } : null,
    usage: {
      input_tokens: prompt,
      input_tokens_details: { cached_tokens: cached },
      output_tokens: completion,
      output_tokens_details: { reasoning_tokens: 0 },
      total_tokens: prompt + completion,
    },
  })
}

type Frame = readonly [type: string, fields: object]

const openFrames = (wanted: Wanted, block: ReplyBlock, index: number): readonly Frame[] => {
  const at = { item_id: itemOf(wanted, block, index).id, output_index: index }
  const added: Frame = ['response.output_item.added', { output_index: index, item: begunItem(wanted, block, index) }]
  return block.kind === 'call'
    ? [added]
    : [added, ['response.content_part.added', { ...at, content_index: 0, part: partOf({ ...block, text: '' }) }]]
}

const closeFrames = (wanted: Wanted, block: ReplyBlock, index: number): readonly Frame[] => {
  const item = itemOf(wanted, block, index)
  const at = { item_id: item.id, output_index: index }
  const done: Frame = ['response.output_item.done', { output_index: index, item }]
  if (block.kind === 'call') {
    return [['response.function_call_arguments.done', { ...at, name: block.name, arguments: block.text }], done]
  }
  const [type, rest] = block.kind === 'text' ? ['output_text', { logprobs: [] }] : ['reasoning_text', {}]
  return [
    [`response.${type}.done`, { ...at, content_index: 0, text: block.text, ...rest }],
    ['response.content_part.done', { ...at, content_index: 0, part: partOf(block) }],
    done,
  ]
}

/** The frame for more text of a block. */
const moreFrame = (wanted: Wanted, { index, kind, text: delta }: ReplyEvent & { readonly _tag: 'More' }): Frame => {
  const block = kind === 'call' ? CALL : { kind, text: '' }
  const at = { item_id: itemOf(wanted, block, index).id, output_index: index }
  switch (kind) {
    case 'text':
      return ['response.output_text.delta', { ...at, content_index: 0, delta, logprobs: [] }]
    case 'thoughts':
      return ['response.reasoning_text.delta', { ...at, content_index: 0, delta }]
    case 'call':
      return ['response.function_call_arguments.delta', { ...at, delta }]
  }
}

const framesOf = (served: Served, wanted: Wanted, event: ReplyEvent): readonly Frame[] => {
  switch (event._tag) {
    case 'Begin': {
      const response = responseJson(served, wanted, {})
      return [
        ['response.created', { response }],
        ['response.in_progress', { response }],
      ]
    }
    case 'Open':
      return openFrames(wanted, event.block, event.index)
    case 'More':
      return [moreFrame(wanted, event)]
    case 'Close':
      return closeFrames(wanted, event.block, event.index)
    case 'End': {
      const type = event.end.finishReason === 'length' ? 'response.incomplete' : 'response.completed'
      const empty =
        event.end.blocks.length === 0 ? [...openFrames(wanted, EMPTY, 0), ...closeFrames(wanted, EMPTY, 0)] : []
      return [...empty, [type, { response: endedJson(served, wanted, event.end) }]]
    }
    case 'Failed': {
      const error = { code: 'server_error', message: event.failure.reason }
      return [['response.failed', { response: responseJson(served, wanted, { status: 'failed', error }) }]]
    }
  }
}

/** A call whose name does not matter. */
const CALL: ReplyBlock = { kind: 'call', id: '', name: '', text: '' }

async function* frames(served: Served, wanted: Wanted, running: RunningJob): AsyncGenerator<string> {
  let sequence_number = 0
  for await (const event of replyEvents(served, wanted, { running, prefix: PREFIX }))
    for (const [type, fields] of framesOf(served, wanted, event))
      yield namedFrame(type, { type, sequence_number: sequence_number++, ...fields })
}

/** A request of the Responses API as its body, the tokenizer and the template determine it. */
interface ReadResponses {
  readonly chat: ReadChat
  readonly body: Omit<ResponsesBody, 'chat'>
}

/** Reads a request of the Responses API. Errors: those of a chat request. */
export const readResponses = (
  { text, responses: memory }: ReadingEnv,
  body: unknown,
): E.Either<ApiFailure, ReadResponses> =>
  E.chain(({ chat, ...rest }: ResponsesBody) =>
    E.map((read: ReadChat): ReadResponses => ({ chat: read, body: rest }))(readChat(text, chat)),
  )(chatOfResponses(body, memory))

/** Answers a request of the Responses API, whole or as a stream of named events. */
export const responses: Endpoint<ReadResponses> = endpoint(
  (served, { chat, body }, request) =>
    E.map((made: ChatRequest): Wanted => ({ ...made, body }))(chatRequest(served, chat, request)),
  (served, wanted) => ({
    whole: ([prompt]) => endedJson(served, wanted, wholeReply(served, wanted, { prompt: prompt!, prefix: PREFIX })),
    frames: (running) => frames(served, wanted, running),
  }),
)
