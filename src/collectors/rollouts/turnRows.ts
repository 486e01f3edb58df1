/** The rows of a collected batch: state and action of a turn, and the views that training reads. */
import type { Key } from '@tandem-rl/base'
import { appendMessage, type History, type Message, textOf } from '@tandem-rl/text'
import type { RowIdentity, TokenMasks } from '../../data/batch.js'
import type { HistoryAction, HistoryPrompt, TextAction, TextPrompt, TokenAction } from '../../data/policy.js'
import { exclude } from '../../data/tensorDict/edit.js'
import { concat } from '../../data/tensorDict/joining.js'
import { type Data, data, filledRows, joinRows, type Ragged, rowLengths } from '../../data/tensorDict/leaf.js'
import { assign, type DeepMerge, merge } from '../../data/tensorDict/merge.js'
import { take } from '../../data/tensorDict/selecting.js'
import { find, get, TensorDict } from '../../data/tensorDict/tensorDict.js'
import { type Outcome, REMEMBERED } from '../../envs/base/env.js'
import type { Stepped } from '../../envs/transforms/transform.js'
import { rowsByTrajectory, trajectoryId, withOwnGroups } from './identity.js'

/** A turn with the token ids of its prompt and response. */
type TokenTurn = {
  readonly tokens: TensorDict<{ readonly prompt: Ragged<'int32'>; readonly response: Ragged<'int32'> }>
}
type LogProbTurn = { readonly logProbs: TensorDict<{ readonly response: Ragged<'float32'> }> }

/** The entries of every collected row, independent of environment and policy. */
export type TurnEntries = RowIdentity & {
  readonly status: Data<'ok'>
  /** The row's share of the policy's time in ms. The sum over a batch is the time of all calls. */
  readonly generationMs: Data<number>
}

/** Views of turns with tokens: all tokens of the row, and masks. */
type TokenViews<S> = S extends TokenTurn
  ? TokenMasks & { readonly tokens: TensorDict<{ readonly full: Ragged<'int32'> }> }
  : unknown

/** View of turns with log-probabilities: over `tokens.full`, with NaN over the prompt. */
type LogProbViews<S> = S extends TokenTurn & LogProbTurn
  ? { readonly logProbs: TensorDict<{ readonly full: Ragged<'float32'> }> }
  : unknown

/** Views of turns with a conversation: the new message, and the conversation including it. */
type HistoryViews<S> = S extends HistoryPrompt
  ? { readonly history: TensorDict<{ readonly response: Data<Message>; readonly full: Data<History> }> }
  : unknown

/** Views of turns with text: the response with special tokens, and the prompt followed by it. */
type TextViews<S> = S extends TextPrompt
  ? { readonly text: TensorDict<{ readonly response: Data<string>; readonly full: Data<string> }> }
  : S extends HistoryAction
    ? { readonly text: TensorDict<{ readonly response: Data<string> }> }
    : unknown

type Views<S> = TokenViews<S> & LogProbViews<S> & HistoryViews<S> & TextViews<S>

/**
 * A collected batch of states `O` and actions `P`: one row per turn, ordered by trajectory and
 * turn.
 *
 * Each row has the entries of state and action, its identity (`trajectoryId`, `turn`), and `next`
 * with the state after the turn and its outcome. Depending on state and action it also has these
 * views: `tokens.full` and masks for tokens, `logProbs.full` for log-probabilities,
 * `history.{response,full}` for conversations, and `text.{response,full}` for texts. If the policy
 * writes messages and there is no text prompt, only `text.response`, the text of the message,
 * exists.
 */
export type CollectedBatch<O, P = TokenAction> = TensorDict<CollectedEntries<O, P>>

/** The entries of a collected batch. */
type CollectedEntries<O, P = TokenAction> = DeepMerge<
  DeepMerge<DeepMerge<O, P>, TurnEntries & Views<DeepMerge<O, P>>>,
  { readonly next: TensorDict<Stepped<O>> }
>

/** Entries that the previous step left in a state. They are kept in that step's `next` instead. */
const OUTCOME = ['reward', 'terminated', 'truncated', 'done'] as const satisfies readonly (keyof Outcome)[]

interface Turn<O, P> {
  readonly env: string
  readonly state: TensorDict<O>
  readonly action: TensorDict<P>
  /**
   * The action with the entries that transforms parsed from it, as the innermost environment got
   * it.
   */
  readonly read: TensorDict
  readonly next: TensorDict<Stepped<O>>
  /** The key of the trajectories' reset. */
  readonly origin: Key
  /** The elements of the environment that played the turn. */
  readonly rows: readonly number[]
  readonly turn: number
  /** Duration of the policy call in ms. */
  readonly generationMs: number
}

const has = (td: TensorDict, ...path: readonly string[]): boolean => find(td, path) !== undefined

const tokenViews = (turn: TensorDict): Readonly<Record<string, unknown>> => {
  if (!has(turn, 'tokens', 'prompt') || !has(turn, 'tokens', 'response')) return {}
  const known = turn as TensorDict<TokenTurn & LogProbTurn> // log-probabilities are looked for below
  const prompt = get(known, 'tokens', 'prompt')
  const response = get(known, 'tokens', 'response')
  const full = joinRows(prompt, response)
  return {
    tokens: { full },
    masks: {
      attention: filledRows(full, 'bool', 1),
      assistant: joinRows(filledRows(prompt, 'bool', 0), filledRows(response, 'bool', 1)),
    },
    ...(has(turn, 'logProbs', 'response') && {
      logProbs: { full: joinRows(filledRows(prompt, 'float32', Number.NaN), get(known, 'logProbs', 'response')) },
    }),
  }
}

/**
 * Returns the error for an environment whose step does not report how it parsed the policy's
 * tokens.
 */
const unread = (env: string, node: 'history' | 'text'): TypeError =>
  new TypeError(
    `LLMCollector: ${env} has '${node}.prompt', but its step reports no '${node}.response': a custom step must pass its options on`,
  )

const historyViews = (turn: TensorDict, env: string): Readonly<Record<string, unknown>> => {
  if (!has(turn, 'history', 'prompt')) return {}
  if (!has(turn, 'history', 'response')) throw unread(env, 'history')
  const known = turn as TensorDict<HistoryPrompt & HistoryAction>
  const responses = get(known, 'history', 'response').items
  const full = get(known, 'history', 'prompt').items.map((history, i) => appendMessage(history, responses.get(i)!)) // one for each row
  return { history: { response: data(responses), full: data(full) } }
}

const textViews = (turn: TensorDict, env: string): Readonly<Record<string, unknown>> => {
  if (!has(turn, 'text', 'prompt')) {
    if (!has(turn, 'history', 'response') || has(turn, 'text', 'response')) return {}
    const message = get(turn as TensorDict<HistoryAction>, 'history', 'response').items
    return { text: { response: data(message.map(textOf)) } }
  }
  if (!has(turn, 'text', 'response')) throw unread(env, 'text')
  const known = turn as TensorDict<TextPrompt & TextAction>
  const responses = get(known, 'text', 'response').items
  const full = get(known, 'text', 'prompt').items.map((prompt, i) => prompt + responses.get(i)!) // one for each row
  return { text: { response: data(responses), full: data(full) } }
}

/** Returns the message and the text that transforms parsed from an action. */
const readEntries = (read: TensorDict): Readonly<Record<string, unknown>> =>
  Object.fromEntries(
    ['history', 'text'].flatMap((node) => {
      const response = find(read, [node, 'response'])
      return response === undefined ? [] : [[node, { response }]]
    }),
  )

/**
 * Makes the rows of a turn, one for each element that played it.
 *
 * Errors   throws TypeError if the states have a conversation or a text, the policy writes neither,
 *          and the environment's step does not call `onAction`.
 */
export const turnRows = <O, P>(parts: Turn<O, P>): CollectedBatch<O, P> => {
  const { env, state, action, read, next, origin, rows, turn, generationMs } = parts
  const request = exclude(state as TensorDict, REMEMBERED, ...OUTCOME) as TensorDict
  const acted = assign(request, readEntries(read) as never) as TensorDict // entries of the action, which TensorDict checks
  const played = merge(acted, action as TensorDict) as TensorDict
  const root = withOwnGroups(played, origin)
  const views = TensorDict(
    { ...tokenViews(root), ...historyViews(root, env), ...textViews(root, env) } as never, // leaves, by the functions above
    root.batchShape,
  )
  const entries = {
    trajectoryId: data(rows.map((element) => trajectoryId(origin, element))),
    turn: data(rows.map(() => turn)),
    status: data(rows.map(() => 'ok' as const)),
    generationMs: data(rows.map(() => generationMs / rows.length)),
    next: withOwnGroups(exclude(next as TensorDict, REMEMBERED) as TensorDict, origin),
  }
  return assign(merge(root, views as TensorDict), entries) as unknown as CollectedBatch<O, P> // state, action, views and entries
}

/** Joins turns in one TensorDict, by trajectory in the order of their first turns. */
export const joinTurns = <O, P>(turns: readonly CollectedBatch<O, P>[]): CollectedBatch<O, P> => {
  const first = turns[0]!
  if (turns.length === 1) return first
  const joined = concat(turns as readonly TensorDict[]) as unknown as CollectedBatch<O, P> // the same entries
  return take(joined, [...rowsByTrajectory(joined as TensorDict).values()].flat())
}

/** Returns the number of sampled tokens per row, or an empty list for policies without tokens. */
export const responseLengths = (batch: TensorDict): readonly number[] => {
  const response = find(batch, ['tokens', 'response'])
  return response !== undefined && '_tag' in response && response._tag === 'Ragged' ? rowLengths(response) : []
}

export const isDone = (next: TensorDict): readonly boolean[] =>
  Array.from(get(next as TensorDict<Outcome>, 'done').dataSync(), (done) => done === 1) // every env adds an Outcome

/**
 * Sums the rewards of each trajectory, in order of first appearance. `rewards` replaces the batch's
 * own rewards, one per row.
 */
export const trajectoryReturns = (
  batch: TensorDict<RowIdentity & { readonly next: TensorDict<Pick<Outcome, 'reward'>> }>,
  rewards?: ArrayLike<number>,
): readonly { readonly trajectoryId: string; readonly rows: readonly number[]; readonly return: number }[] => {
  const each = rewards ?? get(batch, 'next', 'reward').dataSync()
  return [...rowsByTrajectory(batch as TensorDict)].map(([trajectoryId, rows]) => ({
    trajectoryId,
    rows,
    return: rows.reduce((sum, row) => sum + each[row]!, 0),
  }))
}
