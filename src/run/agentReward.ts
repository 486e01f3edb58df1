/** Rewards of the user's agent: from the row and the answer, or from what the program returned. */
import * as E from 'fp-ts/lib/Either.js'
import { namedMessage } from '../core/failure.js'
import type { Key } from '../core/key.js'
import { callHistory } from '../data/capture/history.js'
import type { CapturedReward, CapturedSession } from '../data/capture/session.js'
import type { RowTask, Task } from '../data/task.js'
import type { AnyReward } from '../envs/rewards/reward.js'
import { appendMessage, History, lastMessage, message, textOf } from '../text/history/history.js'

/** What a reward function reads: the fields of the row, and what the agent did. */
export type AgentScene<T extends Task = Task> = T &
  (T extends RowTask<infer Row> ? Row : unknown) & {
    /** The text that the program returned, or else the last message of the model. */
    readonly prediction: string
    /** The last conversation of the attempt. */
    readonly trajectory: History
    /** The value that the program returned. */
    readonly result: unknown
  }

/** A reward, or a reward with named parts, which are only reported. */
type RewardNumbers = number | ({ readonly reward: number } & Readonly<Record<string, number>>)

/** A function of the scene, or any reward of `tandem-rl/rewards`. */
export type AgentReward<T extends Task = Task> =
  | AnyReward<T>
  | ((scene: AgentScene<T>) => RewardNumbers | Promise<RewardNumbers>)

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Reads a number, or a record of numbers with `reward`. */
const readReward = (value: unknown): E.Either<string, CapturedReward> => {
  const given = isRecord(value) ? value : { reward: value }
  const { reward: total, ...parts } = given
  if (typeof total !== 'number' || !Number.isFinite(total))
    return E.left(
      `expected a finite number, or a record with the number 'reward', got ${isRecord(value) ? 'another record' : String(value)}`,
    )
  const wrong = Object.entries(parts).find(([, part]) => typeof part !== 'number' || !Number.isFinite(part))
  return wrong === undefined
    ? E.right({ total, parts: parts as Readonly<Record<string, number>> }) // all are numbers
    : E.left(`the part '${wrong[0]}' must be a finite number, got ${String(wrong[1])}`)
}

/** Returns the conversation of the last call with messages, or an empty one. */
export const lastConversation = ({ calls }: CapturedSession): History => {
  const last = calls.findLast(({ messages }) => messages !== null)
  return (last && callHistory(last)) ?? History([])
}

const predictionOf = (trajectory: History, result: unknown): string => {
  if (typeof result === 'string') return result
  const last = lastMessage(trajectory)
  return last?.role === 'assistant' ? textOf(last) : ''
}

/** An attempt that is to be scored. */
interface Scoring<T extends Task> {
  readonly task: T
  readonly session: CapturedSession
  readonly result: unknown
  readonly key: Key
}

const serviceScore = async <T extends Task>(
  reward: AnyReward<T>,
  { task, session, result, key }: Scoring<T>,
): Promise<E.Either<string, CapturedReward>> => {
  const talk = lastConversation(session)
  const history = typeof result === 'string' ? appendMessage(talk, message('assistant', result)) : talk
  const scored = reward.score({ task, history }, { key, signal: new AbortController().signal })
  const value = typeof scored === 'function' ? await scored() : E.right(scored)
  return E.isLeft(value)
    ? E.left(value.left.reason)
    : E.right({
        total: value.right.reward,
        parts: { ...value.right.parts, success: value.right.success ? 1 : 0 },
      })
}

/**
 * Scores an attempt.
 *
 * Errors   `Left` with the reason if the reward fails, or if there is none and the program returned
 *          no number. A failed reward is never 0.
 */
export const scoreAttempt = async <T extends Task>(
  reward: AgentReward<T> | undefined,
  attempt: Scoring<T>,
): Promise<E.Either<string, CapturedReward>> => {
  const { task, session, result } = attempt
  if (reward === undefined)
    return E.mapLeft(
      (reason: string) => `the program must return its reward, as there is no reward function: ${reason}`,
    )(readReward(result))
  try {
    if (typeof reward !== 'function') return await serviceScore(reward, attempt)
    const trajectory = lastConversation(session)
    const row = 'row' in task && isRecord(task.row) ? task.row : {}
    const scene = { ...row, ...task, prediction: predictionOf(trajectory, result), trajectory, result }
    const value = await reward(scene as AgentScene<T>) // the task's fields, and those of its row
    return E.mapLeft((reason: string) => `the reward failed: ${reason}`)(readReward(value))
  } catch (error) {
    return E.left(`the reward failed: ${namedMessage(error)}`)
  }
}
