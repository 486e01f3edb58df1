/** Requests of `POST /v1/chat/completions`. */
import { type FormatFailure, type Key, uniformInteger } from '@tandem-rl/base'
import { type History, historyToOpenAi, lastMessage, type OpenAiMessage } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import type { ServingWeights } from '../../../data/engineClient.js'
import type { ChatSettings, ToolChoice } from './clientConfig.js'

/**
 * Returns a seed that fits 32-bit servers. Seeds of neighboring keys are far apart, so that `seed +
 * 1` belongs to no other key.
 */
export const seedOf = (key: Key): number => uniformInteger(key, 2 ** 31)

/**
 * The messages of a conversation that a policy is to answer. What an earlier author left unfinished
 * is sent as far as it goes: the conversation went on after it.
 *
 * Errors   `Left(FormatFailure)` for what the format cannot say: no message, an unfinished last
 *          one, addresses of sounds.
 */
export const promptMessages = (history: History): E.Either<FormatFailure, readonly OpenAiMessage[]> => {
  const refuse = (reason: string): E.Either<FormatFailure, never> =>
    E.left({ _tag: 'FormatFailure', format: 'OpenAI chat', reason })
  const last = lastMessage(history)
  if (last === undefined) return refuse('the conversation has no message to answer')
  if (!last.isComplete) return refuse('the last message is unfinished, and the chat format cannot continue a message')
  return historyToOpenAi({ ...history, messages: history.messages.map((each) => ({ ...each, isComplete: true })) })
}

const choiceOf = (choice: ToolChoice): unknown =>
  typeof choice === 'object' ? { type: 'function', function: { name: choice.name } } : choice

const toolFields = ({ tools, toolChoice, dialect }: ChatSettings): object => {
  if (tools.length === 0) return {} // an empty list is refused by servers
  if (dialect.toolCalls !== 'native') return { tools, tool_choice: 'none' }
  return { tools, ...(toolChoice !== undefined && { tool_choice: choiceOf(toolChoice) }) }
}

/**
 * Fields with which tokens come back. Cuts and penalties are said to be off: a server would else
 * take those of the model's `generation_config.json`.
 */
const CAPTURE_FIELDS = {
  logprobs: true,
  return_token_ids: true,
  top_k: 0,
  min_p: 0,
  repetition_penalty: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
} as const

/** Returns the fields that make a captured sample independent of the server's own settings. */
export const captureFields = ({ cacheSalt }: Pick<ServingWeights, 'cacheSalt'>): Readonly<Record<string, unknown>> => ({
  ...CAPTURE_FIELDS,
  ...(cacheSalt !== '' && { cache_salt: cacheSalt }),
})

/** The parameters in which the requests of a policy differ. */
export interface ChatAsk {
  readonly messages: readonly OpenAiMessage[]
  readonly count: number
  readonly key: Key
  readonly weights: ServingWeights
}

/** The body of a request. */
export const chatBody = (settings: ChatSettings, ask: ChatAsk): Readonly<Record<string, unknown>> => {
  const { capture, sampling, stop, dialect, extraBody, model } = settings
  const { weights, messages, count, key } = ask
  return {
    model: weights.adapter ?? model,
    messages,
    temperature: sampling.temperature,
    ...(sampling.topP !== 1 || capture === 'tokens' ? { top_p: sampling.topP } : {}),
    [dialect.limitField]: sampling.maxNewTokens,
    ...(count > 1 && { n: count }),
    ...(stop.length > 0 && { stop }),
    ...(dialect.seeds === 'from-key' && { seed: seedOf(key) }),
    ...toolFields(settings),
    ...(capture === 'tokens' ? captureFields(weights) : weights.cacheSalt !== '' && { cache_salt: weights.cacheSalt }),
    ...extraBody,
  }
}
