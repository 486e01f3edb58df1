/**
 * Environments of conversations.
 *
 * This folder holds environments, and in folders of their own their parts: transforms, rewards,
 * tools and agents. It does not hold policies (`src/modules`) or the play of episodes for training
 * (`src/collectors/rollouts`).
 */
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { aNumber, aText, checkOptions } from '../core/options.js'
import type { HistoryAction } from '../data/policy.js'
import { dataSpec } from '../data/spec.js'
import { type Data, data } from '../data/tensorDict/leaf.js'
import { type DeepMerge, merge } from '../data/tensorDict/merge.js'
import { find, get, TensorDict } from '../data/tensorDict/tensorDict.js'
import { appendMessage, History, type Message, message } from '../text/history/history.js'
import { type Env, envFailure, type Outcome, outcomeAfter, requireBatchSize, requireSameBatch } from './base/env.js'

/** The states of a `ChatEnv`. */
export type ChatState = {
  /** The text of the first user message. */
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

const isQueries = (entry: unknown): entry is Data<string> =>
  typeof entry === 'object' &&
  entry !== null &&
  '_tag' in entry &&
  entry._tag === 'Data' &&
  (entry as Data).items.every((item) => typeof item === 'string') // a Data by its tag

/**
 * A conversation: the base of all language environments.
 *
 * `reset` needs `query` in its request, by the caller or by a transform such as
 * `DataLoadingPrimer`, and builds `history.prompt`: the system message, if there is one, and the
 * query. `step` appends the policy's message, `history.response`, which makes the next prompt. It
 * gives no reward and never ends an episode: transforms do; an episode that they have ended stays
 * ended.
 *
 * Errors   `Left(EnvFailure)` from `reset` if the request has no `query` of strings; throws
 *          RangeError for a batch size below 1.
 * Source   TorchRL `ChatEnv`.
 */
export const ChatEnv = (options: ChatEnvOptions): Env<ChatState, HistoryAction> => {
  checkOptions('ChatEnv', options, { batchSize: aNumber, systemPrompt: aText, systemRole: aText, userRole: aText })
  const { batchSize, systemPrompt, systemRole = 'system', userRole = 'user' } = options
  requireBatchSize('ChatEnv', batchSize)
  const opening = (query: string): History =>
    History([...(systemPrompt === undefined ? [] : [message(systemRole, systemPrompt)]), message(userRole, query)])
  return {
    name: 'ChatEnv',
    batchSize,
    specs: {
      observation: { query: dataSpec<string>('string'), history: { prompt: dataSpec<History>('History') } },
      action: { history: { response: dataSpec<Message>('Message') } },
    },
    reset: (request) => {
      const queries = find(request, ['query'])
      if (!isQueries(queries) || queries.items.size !== batchSize) {
        return TE.left(envFailure('ChatEnv', `reset needs 'query', ${batchSize} strings, in its request`))
      }
      const state = TensorDict({ query: queries, history: { prompt: data(queries.items.map(opening)) } }, [batchSize])
      return TE.right(merge(request, state) as TensorDict<ChatState>) // the state's own entries win
    },
    step: (state, action) => {
      requireSameBatch('ChatEnv', state, action)
      return async () => {
        const prompts = get(state, 'history', 'prompt').items
        const responses = get(action, 'history', 'response').items
        const histories = prompts.map((history, i) => appendMessage(history, responses.get(i)!)) // equal batch shapes
        const next = TensorDict({ history: { prompt: data(histories) } }, state.batchShape)
        const after = merge(merge(state, next), outcomeAfter(state))
        return E.right(after as TensorDict<DeepMerge<ChatState, Outcome>>) // both merged in
      }
    },
  }
}
