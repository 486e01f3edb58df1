/** Answers of `POST /v1/chat/completions`, as OpenAI, vLLM, SGLang and others write them. */
import { ownValue, problemList } from '@tandem-rl/base'
import {
  messageOfCalls,
  messageOfText,
  type ToolCallFormat,
  thinkingPart,
  thoughtsOf,
  type WrittenCall,
} from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { serverError } from '../failures.js'
import type { CapturedTokens, ChatFinish, ChatTurn, ChatUsage } from './chatAction.js'

const textPart = z.looseObject({ type: z.literal('text'), text: z.string() })

/** A called function, or a piece of it. */
export const calledFunction = z.looseObject({
  name: z.string().nullish(),
  arguments: z.union([z.string(), z.record(z.string(), z.unknown())]).nullish(),
})

const call = z.looseObject({ id: z.string().nullish(), function: calledFunction })

/** A message, or a piece of one in a stream, as the wire has it. */
export const wireMessage = z.looseObject({
  content: z.union([z.string(), z.array(z.union([textPart, thinkingPart]))]).nullish(),
  reasoning: z.string().nullish(),
  reasoning_content: z.string().nullish(),
  refusal: z.string().nullish(),
  tool_calls: z.array(call).nullish(),
  /** The only call, from before there were several. */
  function_call: calledFunction.nullish(),
})

type WireMessage = z.infer<typeof wireMessage>

const choiceSchema = z.looseObject({
  message: wireMessage,
  finish_reason: z.string().nullish(),
  token_ids: z.array(z.int()).nullish(),
  logprobs: z.looseObject({ content: z.array(z.looseObject({ logprob: z.number() })).nullish() }).nullish(),
})

const replySchema = z.looseObject({
  model: z.string().nullish(),
  choices: z.array(choiceSchema).min(1),
  prompt_token_ids: z.array(z.int()).nullish(),
  usage: z.looseObject({ prompt_tokens: z.int().nullish(), completion_tokens: z.int().nullish() }).nullish(),
})

type Choice = z.infer<typeof choiceSchema>

/** An answer as the wire has it. */
export type ChatReply = z.infer<typeof replySchema>

/** Why an answer is of no use. `tokens-missing`: the server gives no ids, now or later. */
export interface ReplyProblem {
  readonly kind: 'protocol' | 'ended' | 'tokens-missing'
  readonly reason: string
  /** The status that the server's own error has, if any. */
  readonly status?: number
}

const problem = (kind: ReplyProblem['kind'], reason: string): E.Either<ReplyProblem, never> => E.left({ kind, reason })

/** Returns the error that a server sent in place of an answer or of a piece of one, if any. */
export const sentError = (json: unknown): ReplyProblem | null => {
  const error = serverError(json)
  if (error === null) return null
  const { message, type, status } = error
  const named = [...(status === undefined ? [] : [`${status}`]), ...(type === '' ? [] : [type])].join(' ')
  const reason = `the server answered with an error: ${message}${named === '' ? '' : ` (${named})`}`
  return { kind: 'ended', reason, ...(status !== undefined && { status }) }
}

/**
 * An answer, checked.
 *
 * Errors   `Left(ReplyProblem)` with everything that is not as the protocol has it, or with the
 *          server's error.
 */
export const chatReply = (json: unknown): E.Either<ReplyProblem, ChatReply> => {
  const parsed = replySchema.safeParse(json)
  if (parsed.success) return E.right(parsed.data)
  const error = sentError(json)
  if (error !== null) return E.left(error)
  const found = parsed.error.issues.map(({ path, message }) => `${path.join('.') || 'the answer'}: ${message}`)
  return problem('protocol', `the answer is no chat completion: ${problemList(found)}`)
}

const FINISHES: Readonly<Record<string, ChatFinish>> = {
  stop: 'stop',
  end_turn: 'stop',
  stop_sequence: 'stop',
  eos: 'stop',
  eos_token: 'stop',
  complete: 'stop',
  length: 'length',
  max_tokens: 'length',
  model_length: 'length', // of Mistral, where the context is full
  tool_calls: 'tool-calls',
  tool_use: 'tool-calls',
  function_call: 'tool-calls',
  content_filter: 'content-filter',
}

/** Returns true for an answer that is known to be complete. Unknown reasons may have cut it off. */
export const isWhole = (finish: ChatFinish): boolean => finish === 'stop' || finish === 'tool-calls'

/** Finish reasons of completions that must not be used for training. */
const BROKEN: readonly string[] = ['abort', 'error', 'insufficient_system_resource']

const usageOf = ({ usage }: ChatReply): ChatUsage | null =>
  usage?.prompt_tokens == null || usage.completion_tokens == null
    ? null
    : { promptTokens: usage.prompt_tokens, completionTokens: usage.completion_tokens }

const callsOf = ({ tool_calls: calls, function_call: only }: WireMessage): readonly z.infer<typeof call>[] =>
  calls == null || calls.length === 0 ? (only == null ? [] : [{ function: only }]) : calls

const writtenCalls = ({ message }: Choice): readonly WrittenCall[] =>
  callsOf(message).map(({ id, function: { name, arguments: args } }) => ({
    ...(id != null && id !== '' && { id }),
    name: name ?? '',
    arguments: typeof args === 'string' ? args : JSON.stringify(args ?? {}),
  }))

/** The text of a message or of a piece of one. */
export const wireText = ({ content }: Pick<WireMessage, 'content'>): string =>
  typeof content === 'string'
    ? content
    : (content ?? []).map((part) => (part.type === 'text' ? part.text : '')).join('')

/** The thoughts of a message or of a piece of one: a field of their own, or parts of content. */
export const wireReasoning = (message: Pick<WireMessage, 'content' | 'reasoning' | 'reasoning_content'>): string => {
  const { content, reasoning, reasoning_content: other } = message
  const own = reasoning ?? other ?? ''
  if (own !== '' || typeof content === 'string') return own
  return thoughtsOf((content ?? []).filter((part) => part.type === 'thinking'))
}

/**
 * The source of tool calls: the server returns them, or they are parsed from the text, in the
 * format that the model was trained on.
 */
export type CallReading = 'native' | ToolCallFormat

/** Options to parse a response. */
export interface ReplyReading {
  readonly calls: CallReading
  /** The index of the message among those of its conversation. */
  readonly index: number
  /** Ids that calls of the conversation have already. */
  readonly taken?: ReadonlySet<string>
  readonly tools?: readonly object[]
}

/** A choice as a turn. Usage goes to the first one. */
const turnOf = (reply: ChatReply, index: number, reading: ReplyReading): E.Either<ReplyProblem, ChatTurn> => {
  const choice = reply.choices[index]!
  const given = choice.finish_reason ?? ''
  if (BROKEN.includes(given))
    return E.left(sentError(choice) ?? { kind: 'ended', reason: `the server ended an answer with '${given}'` })
  const finish = ownValue(FINISHES, given) ?? 'other'
  const content = wireText(choice.message) || (choice.message.refusal ?? '')
  const reasoning = wireReasoning(choice.message)
  const details = {
    isComplete: isWhole(finish),
    ...(reasoning !== '' && { reasoning }),
  }
  const written = writtenCalls(choice)
  const { message, malformedCalls } =
    reading.calls === 'native' || written.length > 0
      ? messageOfCalls(content, written, details)
      : messageOfText(content, { ...reading, format: reading.calls }, details)
  return E.right({
    message,
    stopReason: finish === 'length' ? 'length' : 'stop',
    answer: {
      finish: finish === 'stop' && message.toolCalls.length > 0 ? 'tool-calls' : finish,
      model: reply.model ?? null,
      refusal: choice.message.refusal ?? null,
      usage: index === 0 ? usageOf(reply) : null,
      malformedCalls,
    },
  })
}

/**
 * The turns of an answer, one for each choice.
 *
 * Errors   `Left(ReplyProblem)` if the server ended one of them with `abort` or `error`.
 */
export const turnsOf = (reply: ChatReply, reading: ReplyReading): E.Either<ReplyProblem, readonly ChatTurn[]> =>
  E.traverseArray((index: number) => turnOf(reply, index, reading))(reply.choices.map((_, index) => index))

/** Servers write this, or less, for a log-probability of minus infinity. */
const NO_LOG_PROB = -9998

/** Rounding may bring the logarithm of a probability of 1 above 0. */
const ROUNDING = 1e-3

/**
 * The ids and log-probabilities of one choice.
 *
 * Errors   `Left(ReplyProblem)`: `tokens-missing` if the server returns none; `protocol` for other
 *          counts of ids than of log-probabilities, and for numbers that are no log-probabilities
 *          (NaN, -9999, above 0).
 */
export const tokensOf = (reply: ChatReply, index: number): E.Either<ReplyProblem, CapturedTokens> => {
  const { token_ids: ids, logprobs } = reply.choices[index]!
  const { prompt_token_ids: prompt } = reply
  const missing = [
    ...(prompt == null ? ['prompt_token_ids'] : []),
    ...(ids == null ? ['token_ids'] : []),
    ...(logprobs?.content == null && ids?.length !== 0 ? ['logprobs'] : []),
  ]
  if (prompt == null || ids == null || missing.length > 0) {
    return problem('tokens-missing', `the server gives no ${missing.join(', ')}`)
  }
  const logProbs = (logprobs?.content ?? []).map(({ logprob }) => logprob)
  if (logProbs.length !== ids.length) {
    return problem('protocol', `the answer has ${ids.length} token ids and ${logProbs.length} log-probabilities`)
  }
  const wrong = logProbs.findIndex((value) => !(value > NO_LOG_PROB && value <= ROUNDING))
  return wrong === -1
    ? E.right({ prompt, ids, logProbs })
    : problem(
        'protocol',
        `token ${wrong} of the answer has the log-probability ${logProbs[wrong]}, which no sample has`,
      )
}
