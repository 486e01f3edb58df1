/** An environment with scripted rewards and ends. */
import type { TokenSpan } from '@tandem-rl/text'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { Env, Outcome, TokenAction, TokenPrompt } from 'tandem-rl'
import {
  type Data,
  type DeepMerge,
  data,
  dataSpec,
  get,
  merge,
  ragged,
  raggedRow,
  raggedSpec,
  TensorDict,
} from 'tandem-rl/tensordict'

/** The script of one batch element. */
export interface ScriptedEpisode {
  /** One reward per turn, which also sets the number of turns. */
  readonly rewards: readonly number[]
  /** The ids of the first prompt. Default `[1]`. */
  readonly prompt?: readonly number[]
  /** The kind of end after the last turn. Default `terminated`. */
  readonly end?: 'terminated' | 'truncated'
  /** Default: a separate group. */
  readonly groupId?: string
}

/** The states of a `scriptedEnv`: a prompt of tokens, and the position in the script. */
export type ScriptedState = DeepMerge<
  TokenPrompt,
  {
    readonly groupId: Data<string>
    /** Index of the episode, and its number of turns so far. */
    readonly episode: Data<number>
    readonly turns: Data<number>
  }
>

/** The id between two turns, in place of a template's tokens. */
const SEPARATOR = 0

const span = (start: number, end: number, message: number, origin: TokenSpan['origin']): TokenSpan => ({
  start,
  end,
  message,
  role: message % 2 === 0 ? 'user' : 'assistant',
  origin,
})

const stateOf = (
  rows: readonly {
    readonly episode: number
    readonly turns: number
    readonly prompt: ArrayLike<number>
    readonly spans: readonly TokenSpan[]
    readonly groupId: string
  }[],
): TensorDict<ScriptedState> => {
  const prompts = rows.map((row) => row.prompt)
  return TensorDict(
    {
      tokens: { prompt: ragged('int32', prompts), spans: data(rows.map((row) => row.spans)) },
      groupId: data(rows.map((row) => row.groupId)),
      episode: data(rows.map((row) => row.episode)),
      turns: data(rows.map((row) => row.turns)),
    },
    [rows.length],
  )
}

/**
 * Makes an environment for token policies with the given rewards and lengths, independent of the
 * actions.
 *
 * Element i plays `episodes[i]`. Its next prompt is the previous one, the sampled ids, and the id 0
 * as a turn of the user. An episode that continues after its end has reward 0 and stays done.
 *
 * Errors   throws RangeError if there is no episode, or one without a reward or without a prompt.
 * Effects  none: an episode can be replayed and forked.
 *
 * @example
 * scriptedEnv([{ rewards: [0, 1] }, { rewards: [0.5], end: 'truncated' }]).batchSize // 2
 */
export const scriptedEnv = (episodes: readonly ScriptedEpisode[]): Env<ScriptedState, TokenAction> => {
  const isWrong = (episode: ScriptedEpisode): boolean => episode.rewards.length === 0 || episode.prompt?.length === 0
  const wrong = episodes.findIndex(isWrong)
  if (episodes.length === 0) throw new RangeError('scriptedEnv: there is no episode')
  if (wrong >= 0) throw new RangeError(`scriptedEnv: episode ${wrong} has no reward or an empty prompt`)
  const outcomeOf = (episode: readonly number[], turns: readonly number[]): TensorDict<Outcome> => {
    const ended = (end: ScriptedEpisode['end']): tf.Tensor => {
      const isOver = (i: number, at: number): boolean =>
        turns[at]! >= episodes[i]!.rewards.length && (episodes[i]!.end ?? 'terminated') === end
      return tf.tensor1d(episode.map(isOver), 'bool')
    }
    return scope(() => {
      const rewards = episode.map((i, at) => episodes[i]!.rewards[turns[at]! - 1] ?? 0)
      const [terminated, truncated] = [ended('terminated'), ended('truncated')]
      const done = tf.logicalOr(terminated, truncated)
      return TensorDict({ reward: tf.tensor1d(rewards), terminated, truncated, done }, [episode.length])
    })
  }
  return {
    name: 'scriptedEnv',
    batchSize: episodes.length,
    specs: {
      observation: {
        tokens: { prompt: raggedSpec('int32'), spans: dataSpec<readonly TokenSpan[]>('TokenSpan[]') },
        groupId: dataSpec<string>('string'),
        episode: dataSpec<number>('number'),
        turns: dataSpec<number>('number'),
      },
      action: { tokens: { response: raggedSpec('int32') } },
    },
    reset: (request) => {
      const first = episodes.map(({ prompt = [1], groupId }, episode) => {
        const spans = [span(0, prompt.length, 0, 'rendered')]
        return { episode, turns: 0, prompt, spans, groupId: groupId ?? `${episode}` }
      })
      return TE.right(merge(request, stateOf(first)) as TensorDict<ScriptedState>) // the state's own entries take precedence
    },
    step: (state, action) => async () => {
      const played = get(state, 'turns').items.map((turns) => turns + 1)
      const episode = get(state, 'episode').items
      const next = Array.from({ length: played.size }, (_, i) => {
        const [prompt, reply] = [
          raggedRow(get(state, 'tokens', 'prompt'), i),
          raggedRow(get(action, 'tokens', 'response'), i),
        ]
        const spans = get(state, 'tokens', 'spans').items.get(i)! // one for each element
        const [sampled, rendered] = [prompt.length + reply.length, prompt.length + reply.length + 1]
        const turn = 2 * played.get(i)! // one for each element
        return {
          episode: episode.get(i)!, // one for each element
          turns: played.get(i)!, // one for each element
          prompt: [...prompt, ...reply, SEPARATOR],
          spans: [
            ...spans,
            span(prompt.length, sampled, turn - 1, 'sampled'),
            span(sampled, rendered, turn, 'rendered'),
          ],
          groupId: get(state, 'groupId').items.get(i)!, // one for each element
        }
      })
      const outcome = outcomeOf(episode.toArray(), played.toArray())
      return E.right(merge(merge(state, stateOf(next)), outcome) as TensorDict<DeepMerge<ScriptedState, Outcome>>) // both merged in
    },
  }
}
