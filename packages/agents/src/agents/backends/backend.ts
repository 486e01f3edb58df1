/** Backends that run an agent's policy, behind one interface with AgentFly's names. */

import { condition, type Failure, type Key, keyFromSeed } from '@tandem-rl/base'
import {
  type History,
  type Message,
  type ToolCall,
  type ToolCallFormat,
  textOf,
  toolCallFormatOf,
} from '@tandem-rl/text'
import { own } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import {
  type HistoryAction,
  type HistoryPrompt,
  historyPolicy,
  type ModelText,
  type Policy,
  type PolicyFailure,
  type StopReason,
  type TokenAction,
  type TokenPrompt,
} from 'tandem-rl'
import { type Data, data, find, get, type Ragged, raggedRow, TensorDict } from 'tandem-rl/tensordict'

/** The names of backends. */
export type LLMBackendName = 'async_vllm' | 'client' | 'async_verl'

/** Sampling settings of replies. Defaults come from the backend's configuration. */
export interface GenerationConfig {
  readonly temperature?: number
  readonly maxNewTokens?: number
  readonly topP?: number
  /** Texts that end a reply. Policies in this process ignore them. */
  readonly stop?: readonly string[]
}

/** The tools of a request, and how the model writes calls. */
export interface BackendTools {
  /** Tools in OpenAI's format. */
  readonly tools?: readonly object[]
  /** Default: the format that the model's template teaches, or the server's own. */
  readonly toolCalls?: ToolCallFormat
}

/** The input of a backend's policy: token ids or messages. */
export type BackendSeat =
  | { readonly reads: 'tokens'; readonly policy: Policy<TokenPrompt, TokenAction>; readonly text: ModelText }
  | { readonly reads: 'messages'; readonly policy: Policy<HistoryPrompt, HistoryAction> }

/** The options of a request. */
export interface GenerateRequest extends GenerationConfig, BackendTools {
  /** The random key. Default: that of seed 0. */
  readonly key?: Key
  readonly signal?: AbortSignal
}

/** The reply to a conversation. */
export interface BackendReply {
  readonly message: Message
  /** The text of the message. */
  readonly text: string
  readonly toolCalls: readonly ToolCall[]
  readonly stopReason: StopReason
  /**
   * The ids of prompt and reply with the reply's log-probabilities in nats; `null` if the backend
   * has none.
   */
  readonly tokens: {
    readonly prompt: readonly number[]
    readonly response: readonly number[]
    readonly logProbs: readonly number[]
  } | null
}

/** A piece of a reply, and at the end the whole reply or the failure. */
export type BackendEvent =
  | { readonly type: 'chunk'; readonly text: string }
  | { readonly type: 'end'; readonly reply: BackendReply }
  | { readonly type: 'failed'; readonly failure: Failure }

/** A model that answers conversations, wherever it runs. */
export interface LLMBackend {
  readonly name: LLMBackendName
  /** Connects, or starts and loads what is needed. Later calls return the first result. */
  readonly prepare: TE.TaskEither<Failure, void>
  /** Replies to several conversations. */
  readonly generate: (
    conversations: readonly History[],
    request?: GenerateRequest,
  ) => TE.TaskEither<Failure, readonly BackendReply[]>
  /** Replies to one conversation. */
  readonly generateAsync: (conversation: History, request?: GenerateRequest) => TE.TaskEither<Failure, BackendReply>
  /** Replies to one conversation piece by piece. Leaving the loop cancels the request. */
  readonly generateStreaming: (conversation: History, request?: GenerateRequest) => AsyncIterable<BackendEvent>
  /** The policy with these settings, as agents play it. */
  readonly seat: (settings?: GenerationConfig & BackendTools) => TE.TaskEither<Failure, BackendSeat>
  /** Ends requests and frees what the backend has started. */
  readonly close: () => Promise<void>
}

/** The parts of a backend. */
export interface BackendParts<R> {
  readonly name: LLMBackendName
  /** Connects or starts. Called once. */
  readonly open: TE.TaskEither<Failure, R>
  readonly seat: (opened: R, settings: GenerationConfig & BackendTools) => BackendSeat
  readonly close: (opened: R | undefined) => Promise<void>
}

/** The policy of a seat as one of conversations. */
const chatPolicyOf = (seat: BackendSeat, { tools, toolCalls }: BackendTools): Policy<HistoryPrompt, HistoryAction> => {
  if (seat.reads === 'messages') return seat.policy
  const { policy, text } = seat
  return historyPolicy({
    policy,
    tokenizer: text.tokenizer,
    template: text.template,
    ...(tools !== undefined && { tools, toolCalls: toolCalls ?? toolCallFormatOf(text.template) }),
  })
}

const tokensOf = (action: TensorDict, row: number): BackendReply['tokens'] => {
  if (find(action, ['tokens', 'prompt']) === undefined) return null
  const known = action as TensorDict<{
    readonly tokens: TensorDict<{ readonly prompt: Ragged<'int32'>; readonly response: Ragged<'int32'> }>
    readonly logProbs: TensorDict<{ readonly response: Ragged<'float32'> }>
  }> // policies with prompts of ids give all of these
  return {
    prompt: Array.from(raggedRow(get(known, 'tokens', 'prompt'), row)),
    response: Array.from(raggedRow(get(known, 'tokens', 'response'), row)),
    logProbs: Array.from(raggedRow(get(known, 'logProbs', 'response'), row)),
  }
}

const repliesOf = (action: TensorDict<HistoryAction>): readonly BackendReply[] => {
  using held = own(action)
  const known = held.value as TensorDict as TensorDict<HistoryAction & { readonly stopReason: Data<StopReason> }>
  const stops = find(known as TensorDict, ['stopReason']) === undefined ? undefined : get(known, 'stopReason').items
  return get(known, 'history', 'response')
    .items.toArray()
    .map((message, i) => ({
      message,
      text: textOf(message),
      toolCalls: message.toolCalls,
      stopReason: stops?.get(i) ?? 'stop',
      tokens: tokensOf(known as TensorDict, i),
    }))
}

const DEFAULT_KEY = keyFromSeed(0)

/** Makes the three ways to generate of one seat. */
export const backendOf = <R>({ name, open, seat, close }: BackendParts<R>): LLMBackend => {
  let opening: Promise<E.Either<Failure, R>> | undefined
  const opened: TE.TaskEither<Failure, R> = () => {
    opening ??= open()
    return opening
  }
  const replies = (
    conversations: readonly History[],
    request: GenerateRequest,
    onText?: (text: string) => void,
  ): TE.TaskEither<Failure, readonly BackendReply[]> =>
    pipe(
      opened,
      TE.chain((ready) => {
        const { key = DEFAULT_KEY, signal, tools, toolCalls, ...settings } = request
        const chosen = { ...(tools && { tools }), ...(toolCalls && { toolCalls }) }
        const policy = chatPolicyOf(seat(ready, { ...settings, ...chosen }), chosen)
        const td: TensorDict<HistoryPrompt> = TensorDict({ history: { prompt: data(conversations) } }, [
          conversations.length,
        ])
        const hooks = {
          ...(signal && { signal }),
          ...(onText && { onText: (_: number, text: string) => onText(text) }),
        }
        return policy.act(td, key, hooks) as TE.TaskEither<Failure, TensorDict<HistoryAction>> // PolicyFailure is a Failure
      }),
      TE.map(repliesOf),
    )
  const one = (conversation: History, request: GenerateRequest, onText?: (text: string) => void) =>
    pipe(
      replies([conversation], request, onText),
      TE.map(([reply]) => reply!), // one for each conversation
    )
  return {
    name,
    prepare: pipe(
      opened,
      TE.map(() => undefined),
    ),
    generate: (conversations, request = {}) => replies(conversations, request),
    generateAsync: (conversation, request = {}) => one(conversation, request),
    async *generateStreaming(conversation, request = {}) {
      const controller = new AbortController()
      const signal =
        request.signal === undefined ? controller.signal : AbortSignal.any([controller.signal, request.signal])
      const chunks: string[] = []
      const more = condition()
      const running = one(conversation, { ...request, signal }, (text) => {
        if (text !== '') chunks.push(text)
        more.notify()
      })()
      try {
        let ended: E.Either<Failure, BackendReply> | undefined
        let hasStreamed = false
        while (ended === undefined || chunks.length > 0) {
          const text = chunks.shift()
          hasStreamed ||= text !== undefined
          if (text !== undefined) yield { type: 'chunk', text }
          else ended = await Promise.race([running, more.wait().then(() => undefined)])
        }
        if (E.isLeft(ended)) {
          yield { type: 'failed', failure: ended.left }
          return
        }
        const { text } = ended.right
        if (!hasStreamed && text !== '') yield { type: 'chunk', text }
        yield { type: 'end', reply: ended.right }
      } finally {
        controller.abort()
      }
    },
    seat: (settings = {}) =>
      pipe(
        opened,
        TE.map((ready) => seat(ready, settings)),
      ),
    close: async () => {
      const ready = opening === undefined ? undefined : await opening
      await close(ready !== undefined && E.isRight(ready) ? ready.right : undefined)
    },
  }
}

/** The failure of a backend that has no engine. */
export const backendFailure = (backend: LLMBackendName, reason: string): PolicyFailure => ({
  _tag: 'PolicyFailure',
  policy: backend,
  kind: 'asked',
  reason,
})
