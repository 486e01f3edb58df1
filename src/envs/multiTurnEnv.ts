/** Multi-turn environments from one function: what the world replies to the policy. */
import { checkOptions, child, formatKey, type Key, parseKey, unknownName } from '@tandem-rl/base'
import { thrownText } from '@tandem-rl/base/host'
import {
  appendMessage,
  type History,
  lastMessage,
  type Message,
  message,
  type Task,
  textOf,
  withoutThoughts,
} from '@tandem-rl/text'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { HistoryAction, HistoryPrompt } from '../data/policy.js'
import { dataSpec } from '../data/spec.js'
import { type Data, data } from '../data/tensorDict/leaf.js'
import { type DeepMerge, merge } from '../data/tensorDict/merge.js'
import { get, TensorDict } from '../data/tensorDict/tensorDict.js'
import { type Env, type EnvFailure, endedRows, envFailure } from './base/env.js'
import { DatasetChatEnv, type DatasetChatStateOf, type DrawnChats } from './datasetChatEnv.js'
import { MULTI_TURN_ENV_OPTIONS } from './optionKinds.js'
import type { Scored } from './rewards/reward.js'
import { weighedValue } from './rewards/scoredValue.js'
import type { TaskEntry } from './transforms/dataLoadingPrimer.js'
import {
  type PartEntries,
  type RewardEntries,
  rewarded,
  rewardKeys,
  rewardSpec,
  unscored,
} from './transforms/rewardEntries.js'
import { type StepCount, StepCounter } from './transforms/stepCounter.js'
import { append, type StepContext, transform } from './transforms/transform.js'

/** The argument of a reply function. */
export interface TurnScene<T extends Task = Task, S = null> {
  readonly task: T
  /** The conversation, with the policy's message at its end. */
  readonly history: History
  /** The text of the policy's message, without its thoughts. */
  readonly answer: string
  /** The state returned by the previous reply, or the initial state. */
  readonly state: S
  /** Number of the turn, from 1. The episode always ends in turn `maxTurns`. */
  readonly turn: number
  /** A random stream of this conversation and turn. */
  readonly key: Key
  /** Aborted when the step is no longer needed. */
  readonly signal: AbortSignal
}

/** The reward of a turn: a number, or one number for each part. */
export type TurnReward<P extends string> = [P] extends [never] ? number : Readonly<Record<P, number>>

/** The parts of a turn's reward. */
export interface TurnParts<P extends string> {
  /**
   * The names of the parts and what each weighs in the reward: 0 for a part that is only reported.
   * Default: no parts.
   */
  readonly parts?: Readonly<Record<P, number>>
  /** The reward from which on the task counts as solved. Default 1. */
  readonly solvedAt?: number
}

/** A reply as a record. */
export interface TurnResult<S = null, P extends string = never> {
  /** `true` ends the episode. Default `false`. */
  readonly done?: boolean
  /** The reward of the turn: a number, or one for each of `parts`. Default 0. */
  readonly reward?: TurnReward<P>
  /** The state for the next turn. Default: it stays. */
  readonly state?: S
  /** The next message for the policy. Required unless the episode ends. */
  readonly message?: string | Message
}

/** A text or a message, which continues the conversation, or a record. */
export type TurnReply<S = null, P extends string = never> = string | Message | TurnResult<S, P>

/**
 * Replies to the policy, synchronously or not. It must read only its argument, so that episodes can
 * be replayed, forked and resumed.
 */
export type ReplyFunction<T extends Task, S, P extends string> = (
  scene: TurnScene<T, S>,
) => TurnReply<S, P> | Promise<TurnReply<S, P>>

export interface MultiTurnEnvOptions<T extends Task = Task, S = null, P extends string = never>
  extends DrawnChats<T>,
    TurnParts<P> {
  readonly reply: ReplyFunction<T, NoInfer<S>, NoInfer<P>>
  /** Turns of the policy before an episode is truncated. */
  readonly maxTurns: number
  /**
   * The state of an episode before its first turn: JSON data, by its task and a random stream.
   * Default `null`.
   */
  readonly initial?: (task: T, key: Key) => S
}

/** The entries of a multi-turn environment for each conversation. All values are JSON. */
export type MultiTurnEntries<S> = {
  readonly turns: TensorDict<{
    readonly state: Data<S>
    /** Random key of the episode, in the format of `formatKey`. */
    readonly key: Data<string>
    /** Number of the policy's messages so far. */
    readonly count: Data<number>
  }>
}

/** The states of a `MultiTurnEnv`. */
export type MultiTurnState<T extends Task, S, P extends string> = DeepMerge<
  DeepMerge<DeepMerge<DatasetChatStateOf<T, 'task'>, StepCount>, MultiTurnEntries<S>>,
  RewardEntries & PartEntries<P>
>

const NAME = 'MultiTurnEnv'

const RESULT_FIELDS: readonly (keyof TurnResult)[] = ['done', 'reward', 'state', 'message']

/** A conversation after a reply. */
interface Turned<S> {
  readonly history: History
  readonly state: S
  readonly done: boolean
  readonly score: Scored
}

const isMessage = (value: object): value is Message => 'role' in value && 'content' in value

const asMessage = (extended: string | Message): Message =>
  typeof extended === 'string' ? message('user', extended) : extended

/** Why a value cannot be kept in a state: JSON would not give it back. `undefined` if it can. */
const notJson = (value: unknown, path = 'state'): string | undefined => {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return undefined
  if (typeof value === 'number') return Number.isFinite(value) ? undefined : `${path} is ${value}`
  const isPlain =
    typeof value === 'object' && [Object.prototype, null, Array.prototype].includes(Object.getPrototypeOf(value))
  if (!isPlain) return `${path} is a value of type ${typeof value}`
  for (const [name, each] of Object.entries(value)) {
    const problem = notJson(each, `${path}.${name}`)
    if (problem !== undefined) return problem
  }
  return undefined
}

/** Reads the result of a reply function; a string lists its errors. */
const readReply = <S>(
  returned: unknown,
  { history, state }: { readonly history: History; readonly state: S },
  parts: TurnParts<string>,
): E.Either<string, Turned<S>> => {
  if (typeof returned !== 'string' && (typeof returned !== 'object' || returned === null)) {
    return E.left(`it returned ${String(returned)}: expected a text, a message or a record`)
  }
  const result: TurnResult<S, string> =
    typeof returned === 'string' || isMessage(returned) ? { message: returned } : (returned as TurnResult<S, string>) // checked below
  const unknown = Object.keys(result).filter((name) => !RESULT_FIELDS.some((field) => field === name))
  if (unknown.length > 0) return E.left(unknown.map((name) => unknownName('field', name, RESULT_FIELDS)).join('; '))
  const done = result.done === true
  if (!done && result.message === undefined) return E.left("it returned neither 'message' nor 'done: true'")
  const nothing = Object.fromEntries(Object.keys(parts.parts ?? {}).map((name) => [name, 0]))
  const scored: E.Either<string, Scored> =
    result.reward === undefined
      ? E.right({ reward: 0, success: false, parts: nothing })
      : weighedValue(result.reward, parts)
  if (E.isLeft(scored)) return scored
  const next = result.state === undefined ? state : result.state
  const problem = notJson(next)
  if (problem !== undefined) return E.left(`the state must be JSON data: ${problem}`)
  const extended = result.message === undefined ? history : appendMessage(history, asMessage(result.message))
  return E.right({ history: extended, state: next, done, score: scored.right })
}

/** The transform that lets the world reply. */
const replies = <T extends Task, S, P extends string>(options: MultiTurnEnvOptions<T, S, P>) => {
  const { reply, initial, parts, solvedAt } = options
  const scoring = { ...(parts !== undefined && { parts }), ...(solvedAt !== undefined && { solvedAt }) }
  const keys = rewardKeys(NAME, Object.keys(parts ?? {}))
  type Needed = HistoryPrompt & TaskEntry<T>
  type Entries = DeepMerge<HistoryPrompt, MultiTurnEntries<S>> & RewardEntries & PartEntries<P>

  const entriesOf = (
    rows: readonly { readonly history: History; readonly state: S; readonly key: string; readonly count: number }[],
  ): TensorDict =>
    TensorDict(
      {
        history: { prompt: data(rows.map(({ history }) => history)) },
        turns: {
          state: data(rows.map(({ state }) => state)),
          key: data(rows.map(({ key }) => key)),
          count: data(rows.map(({ count }) => count)),
        },
      },
      [rows.length],
    )

  const step =
    (next: TensorDict<Needed>, { previous, signal = new AbortController().signal }: StepContext) =>
    async () => {
      const known = get(previous as TensorDict<MultiTurnEntries<S>>, 'turns') // added by `reset` or the step before
      const over = endedRows(previous, 'done')
      const [histories, tasks] = [get(next, 'history', 'prompt').items, get(next, 'task').items]
      const before = get(previous as TensorDict<HistoryPrompt>, 'history', 'prompt').items // needed of the state
      const turnOf = async (i: number): Promise<E.Either<EnvFailure, Turned<S> | null>> => {
        if (over[i] === true) return E.right(null)
        const [task, history, state] = [tasks.get(i)!, histories.get(i)!, get(known, 'state').items.get(i)!] // one for each element
        const turn = get(known, 'count').items.get(i)! + 1
        const key = child(parseKey(get(known, 'key').items.get(i)!)!, turn) // as `reset` wrote it
        const failed = (reason: string) =>
          envFailure(NAME, `the reply to task ${task.id} failed in turn ${turn}: ${reason}`)
        try {
          const answer = withoutThoughts(textOf(lastMessage(history)!)) // the policy's message is in it
          const returned = await reply({ task, history, answer, state, turn, key, signal })
          return E.mapLeft(failed)(readReply(returned, { history, state }, scoring))
        } catch (error) {
          return E.left(failed(`it threw ${thrownText(error)}`))
        }
      }
      const turned = E.sequenceArray(await Promise.all(tasks.toArray().map((_, i) => turnOf(i))))
      if (E.isLeft(turned)) return turned
      const rows = turned.right.map((row, i) => ({
        history: row?.history ?? before.get(i)!,
        state: row === null ? get(known, 'state').items.get(i)! : row.state,
        key: get(known, 'key').items.get(i)!,
        count: get(known, 'count').items.get(i)! + (row === null ? 0 : 1),
      }))
      const scores = turned.right.map((row) => row?.score ?? null)
      const ends = turned.right.map((row) => row?.done === true)
      const added = scope(() => merge(entriesOf(rows), rewarded({ previous, next }, scores, { keys, ends })))
      return E.right([added as unknown as TensorDict<Entries>, null] as const) // the keys are those of the parts
    }

  return transform<null, Needed, Entries>({
    name: NAME,
    initial: null,
    needs: {
      observation: { history: { prompt: dataSpec<History>('History') }, task: dataSpec<Task>('Task') },
      action: {},
    },
    adds: {
      history: { prompt: dataSpec<History>('History') },
      turns: { state: dataSpec<S>('JSON'), key: dataSpec<string>('string'), count: dataSpec<number>('number') },
      ...rewardSpec(keys),
    },
    reset: (td, _, key) => {
      const own = child(key, NAME)
      const first = get(td, 'task')
        .items.toArray()
        .map((task, i) => {
          const episode = child(own, i)
          const state = initial === undefined ? (null as S) : initial(task, child(episode, 0)) // the default of S is null
          return { history: get(td, 'history', 'prompt').items.get(i)!, state, key: formatKey(episode), count: 0 }
        })
      const problem = first.map(({ state }) => notJson(state)).find((reason) => reason !== undefined)
      if (problem !== undefined) return TE.left(envFailure(NAME, `the initial state must be JSON data: ${problem}`))
      const added = scope(() => merge(entriesOf(first), unscored(keys, td)))
      return TE.right([added as unknown as TensorDict<Entries>, null]) // the keys are those of the parts
    },
    step,
  })
}

/**
 * Makes a multi-turn environment from one function: `reply` reads the policy's message and returns
 * the next message for the policy, or ends the episode with a reward. Each conversation starts with
 * the `query` of a task, as in `DatasetChatEnv`.
 *
 * The environment's memory is `state`, JSON data in the TensorDict, so an episode can be replayed,
 * forked, stored and resumed. Randomness comes from `key`. After `maxTurns` turns the episode is
 * truncated. Ended conversations receive no reply.
 *
 * Shapes   reward, parts and `success` `[B]`.
 * Errors   throws RangeError for unknown options. `Left(EnvFailure)`, with the task and the turn,
 *          if `reply` throws, rejects, or returns an invalid value.
 * Effects  those of `reply`. Conversations of a batch are processed concurrently.
 *
 * @example
 * MultiTurnEnv({ source: taskList('one', [{ query: 'Say yes.' }]), prompts: 1, maxTurns: 3, reply: ({ answer }) => (answer === 'yes' ? { done: true, reward: 1 } : 'Say it.') }).batchSize // 1
 */
export const MultiTurnEnv = <T extends Task, S = null, const P extends string = never>(
  options: MultiTurnEnvOptions<T, S, P>,
): Env<MultiTurnState<T, S, P>, HistoryAction> => {
  checkOptions(NAME, options, MULTI_TURN_ENV_OPTIONS)
  const { reply: _reply, maxTurns, initial: _initial, parts: _parts, solvedAt: _solvedAt, ...dataset } = options
  const chats = DatasetChatEnv<T, 'task'>({ ...dataset, keep: 'task' })
  return pipe(chats as never, append(StepCounter({ maxSteps: maxTurns })), append(replies(options) as never)) as never // by the types of its parts
}
