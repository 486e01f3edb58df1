/**
 * Actions of policies over a chat protocol: a message for each conversation, with the metadata of
 * the server.
 */
import type { Message } from '@tandem-rl/text'
import type { HistoryAction, SamplingRecord, StopReason } from '../../../data/policy.js'
import { type Data, data, type Ragged, ragged } from '../../../data/tensorDict/leaf.js'
import { TensorDict } from '../../../data/tensorDict/tensorDict.js'

/**
 * The captured data of a response. `text`: the message, which every provider returns, without ids
 * and log-probabilities. `tokens`: also the ids of prompt and completion and the log-probabilities
 * of sampled tokens, as training needs them.
 */
export type Capture = 'text' | 'tokens'

/** Why the server ended an answer. `other` is whatever it has no common word for. */
export type ChatFinish = 'stop' | 'length' | 'tool-calls' | 'content-filter' | 'other'

/** Tokens of a whole request, as the server counts them. */
export interface ChatUsage {
  readonly promptTokens: number
  readonly completionTokens: number
}

/** The metadata of a response. */
export interface ChatAnswer {
  readonly finish: ChatFinish
  /** The model, as the server names it. */
  readonly model: string | null
  /** Why the model will not answer; it is the text of the message too. */
  readonly refusal: string | null
  /**
   * Token usage. If one request returned several completions, only the first has it, so that sums
   * are right.
   */
  readonly usage: ChatUsage | null
  /** Malformed tool calls: each is part of the text, after `MALFORMED_CALL`. */
  readonly malformedCalls: readonly string[]
}

/** A message for each conversation. */
export type ChatAction = HistoryAction & {
  readonly stopReason: Data<StopReason>
  readonly answer: Data<ChatAnswer>
}

/**
 * The ids behind the messages: a `TokenAction`, and the prompts that the server made of the
 * conversations.
 */
export type CapturedAction = ChatAction & {
  readonly tokens: TensorDict<{ readonly prompt: Ragged<'int32'>; readonly response: Ragged<'int32'> }>
  readonly logProbs: TensorDict<{ readonly response: Ragged<'float32'> }>
  readonly policyVersion: Data<number>
  readonly sampling: Data<SamplingRecord>
}

/** The action type for a capture mode. */
export type ChatOutput<C extends Capture> = C extends 'tokens' ? CapturedAction : ChatAction

/** Ids of one answer. */
export interface CapturedTokens {
  readonly prompt: readonly number[]
  readonly ids: readonly number[]
  /** One for each id, in nats. */
  readonly logProbs: readonly number[]
}

/** One answer. */
export interface ChatTurn {
  readonly message: Message
  readonly stopReason: StopReason
  readonly answer: ChatAnswer
}

/** One answer with its ids, and what they were sampled with. */
export interface CapturedTurn extends ChatTurn {
  readonly tokens: CapturedTokens
  readonly version: number
  readonly sampling: SamplingRecord
}

const entriesOf = (turns: readonly ChatTurn[]) => ({
  history: { response: data(turns.map(({ message }) => message)) },
  stopReason: data(turns.map(({ stopReason }) => stopReason)),
  answer: data(turns.map(({ answer }) => answer)),
})

/** The action of these answers. Shapes `[B]`. */
const chatAction = (turns: readonly ChatTurn[]): TensorDict<ChatAction> => TensorDict(entriesOf(turns), [turns.length])

/**
 * The action of these answers, with their ids. Shapes `[B]`, rows of ids and log-probabilities of
 * any length.
 */
const capturedAction = (turns: readonly CapturedTurn[]): TensorDict<CapturedAction> => {
  const rows = (field: keyof CapturedTokens): readonly (readonly number[])[] => turns.map(({ tokens }) => tokens[field])
  return TensorDict(
    {
      ...entriesOf(turns),
      tokens: { prompt: ragged('int32', rows('prompt')), response: ragged('int32', rows('ids')) },
      logProbs: { response: ragged('float32', rows('logProbs')) },
      policyVersion: data(turns.map(({ version }) => version)),
      sampling: data(turns.map(({ sampling }) => sampling)),
    },
    [turns.length],
  )
}

/**
 * The action of these answers in the form that is captured. The turns of `tokens` are
 * `CapturedTurn`s, as the reader of the answers made them.
 */
export const outputOf = <C extends Capture>(capture: C, turns: readonly ChatTurn[]): TensorDict<ChatOutput<C>> =>
  (capture === 'tokens'
    ? capturedAction(turns as readonly CapturedTurn[]) // as said above
    : chatAction(turns)) as TensorDict<ChatOutput<C>> // `C` is the type of `capture`
