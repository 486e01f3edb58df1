/** Rewards of the user's agent: from the row and the answer, or from what the program returned. */
import type { Key } from '@tandem-rl/base'
import { thrownText } from '@tandem-rl/base/host'
import {
  appendMessage,
  type CapturedReward,
  type CapturedSession,
  callHistory,
  History,
  message,
  type Task,
} from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import type { AnyReward } from '../../envs/rewards/reward.js'
import { type OpenRewardFunction, type RewardFunction, reward } from '../../envs/rewards/rewardFunction.js'

/**
 * A function of named arguments, as `reward` takes it, which may return parts beside the reward; or
 * a reward of `tandem-rl/rewards`.
 */
export type AgentReward<T extends Task = Task> = AnyReward<T> | OpenRewardFunction<T>

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

/** An attempt that is to be scored. */
interface Scoring<T extends Task> {
  readonly task: T
  readonly session: CapturedSession
  readonly result: unknown
  readonly key: Key
}

/** The conversation with the text that the program returned as its last message. */
const answered = (session: CapturedSession, result: unknown): History => {
  const talk = lastConversation(session)
  return typeof result === 'string' ? appendMessage(talk, message('assistant', result)) : talk
}

const scoreOf = async <T extends Task>(
  given: AgentReward<T>,
  { task, session, result, key }: Scoring<T>,
): Promise<E.Either<string, CapturedReward>> => {
  const service: AnyReward<T> =
    typeof given === 'function' ? reward<T>(given as RewardFunction<T>, { extras: 'parts' }) : given // with parts
  const context = { key, signal: new AbortController().signal }
  const scored = service.score({ task, history: answered(session, result) }, context)
  const value = typeof scored === 'function' ? await scored() : E.right(scored)
  if (E.isLeft(value)) return E.left(value.left.reason)
  const { reward: total, success, parts } = value.right
  return E.right({ total, parts: { ...parts, success: success ? 1 : 0 } })
}

/**
 * Scores an attempt.
 *
 * Errors   `Left` with the reason if the reward fails, or if no reward is given and the program
 *          returned no number. A failed reward is never 0.
 */
export const scoreAttempt = async <T extends Task>(
  given: AgentReward<T> | undefined,
  attempt: Scoring<T>,
): Promise<E.Either<string, CapturedReward>> => {
  try {
    if (given !== undefined)
      return E.mapLeft((reason: string) => `the reward failed: ${reason}`)(await scoreOf(given, attempt))
    const none = 'the program must return its reward, as there is no reward function'
    return E.mapLeft((reason: string) => `${none}: ${reason}`)(readReward(attempt.result))
  } catch (error) {
    return E.left(`the reward failed: ${thrownText(error)}`)
  }
}
