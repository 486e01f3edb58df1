/** Environments of conversations. */
import { checkOptions } from '@tandem-rl/base'
import {
  appendMessage,
  extendHistory,
  History,
  historyFromOpenAi,
  type Message,
  message,
  type OpenAiMessage,
  textOf,
} from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { HistoryAction } from '../data/policy.js'
import { dataSpec } from '../data/spec.js'
import { type Data, data } from '../data/tensorDict/leaf.js'
import { find, get, TensorDict } from '../data/tensorDict/tensorDict.js'
import { type Env, envFailure } from './base/env.js'
import { makeEnv } from './base/makeEnv.js'
import { CHAT_ENV_OPTIONS } from './optionKinds.js'

/** The states of a `ChatEnv`. */
export type ChatState = {
  /** The text of the first user message; '' without one. */
  readonly query: Data<string>
  /** The conversation so far: what the policy is to answer. */
  readonly history: TensorDict<{ readonly prompt: Data<History> }>
}

export interface ChatEnvOptions {
  readonly batchSize: number
  /** Put in front of every conversation. */
  readonly systemPrompt?: string
  readonly systemRole?: string
  readonly userRole?: string
}

/**
 * The opening of a conversation: the text of its first user message, or messages with their own
 * roles, as values or in OpenAI's chat format.
 */
export type ChatQuery = string | History | readonly Message[] | readonly OpenAiMessage[]

const isTagged = <T extends string>(value: unknown, tag: T): value is { readonly _tag: T } =>
  typeof value === 'object' && value !== null && '_tag' in value && value._tag === tag

const isMessage = (value: unknown): value is Message =>
  typeof value === 'object' && value !== null && 'toolCalls' in value && 'isComplete' in value

/** Returns the conversation that a query opens, or the reason why it opens none. */
const openingOf = (query: unknown, userRole: string): E.Either<string, History> => {
  if (typeof query === 'string') return E.right(History([message(userRole, query)]))
  if (isTagged(query, 'History')) return E.right(query as History) // by its tag
  if (!Array.isArray(query) || query.length === 0)
    return E.left("a 'query' must be a string, a History or a list of messages")
  return query.every(isMessage)
    ? E.right(History(query))
    : E.mapLeft(({ reason }: { readonly reason: string }) => `a 'query' is not a list of messages: ${reason}`)(
        historyFromOpenAi(query),
      )
}

/**
 * A conversation: the base of all language environments.
 *
 * `reset` needs `query` in its request (`ChatQuery`), by the caller or by a transform such as
 * `DataLoadingPrimer`, and builds `history.prompt`: the system message, if there is one, and the
 * messages of the query. `step` appends the policy's message, `history.response`, which makes the
 * next prompt. It gives no reward and never ends an episode: transforms do; an episode that they
 * have ended stays ended.
 *
 * Errors   `Left(EnvFailure)` from `reset` if the request has no `query`, or one that is not a
 *          `ChatQuery`; throws RangeError for a batch size below 1.
 * Source   TorchRL 0.14.1 `ChatEnv`.
 */
export const ChatEnv = (options: ChatEnvOptions): Env<ChatState, HistoryAction> => {
  checkOptions('ChatEnv', options, CHAT_ENV_OPTIONS)
  const { batchSize, systemPrompt, systemRole = 'system', userRole = 'user' } = options
  const system = systemPrompt === undefined ? [] : [message(systemRole, systemPrompt)]
  const textIn = ({ messages }: History): string => {
    const firstMessage = messages.find(({ role }) => role === userRole)
    return firstMessage === undefined ? '' : textOf(firstMessage)
  }
  return makeEnv<ChatState, HistoryAction>({
    name: 'ChatEnv',
    batchSize,
    specs: {
      observation: { query: dataSpec<string>('string'), history: { prompt: dataSpec<History>('History') } },
      action: { history: { response: dataSpec<Message>('Message') } },
    },
    reset: (request) => {
      const queries = find(request, ['query'])
      const items: readonly unknown[] = isTagged(queries, 'Data') ? (queries as Data).items.toArray() : [] // by its tag
      if (items.length !== batchSize) {
        return TE.left(envFailure('ChatEnv', `reset needs 'query' in its request, for ${batchSize} conversations`))
      }
      const opened = E.traverseArray((query: unknown) => openingOf(query, userRole))(items)
      if (E.isLeft(opened)) return TE.left(envFailure('ChatEnv', opened.left))
      const prompts = opened.right.map((history) => extendHistory(History(system), history))
      return TE.right(
        TensorDict({ query: data(opened.right.map(textIn)), history: { prompt: data(prompts) } }, [batchSize]),
      )
    },
    step: (state, action) =>
      TE.fromIO(() => {
        const responses = get(action, 'history', 'response').items
        const histories = get(state, 'history', 'prompt').items.map(
          (history, i) => appendMessage(history, responses.get(i)!), // equal batch shapes
        )
        return { next: TensorDict({ history: { prompt: data(histories) } }, state.batchShape) }
      }),
  })
}
