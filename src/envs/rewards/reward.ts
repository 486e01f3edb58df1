/**
 * The types of rewards: scores of a conversation for a task.
 *
 * This folder holds rewards: functions from a conversation and its task to a score. It does not
 * hold the transform that pays them (`../transforms/rewardTransform.ts`) or advantages
 * (`src/objectives/advantages`).
 */
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Key } from '../../core/key.js'
import type { PolicyFailure } from '../../data/policy.js'
import type { Task } from '../../data/task.js'
import type { History } from '../../text/history/history.js'
import type { Episode } from '../base/episode.js'

/** A conversation about a task. */
export interface Answered<out T extends Task = Task> {
  readonly task: T
  /** The messages, up to the policy's last one and the tool results behind it. */
  readonly history: History
  /**
   * The observation of the tool call that ended the episode (`status: 'finish'`). Default: none.
   */
  readonly finish?: string | undefined
  /** The states of the tools, by name. Default: no tools. */
  readonly tools?: Readonly<Record<string, unknown>> | undefined
}

/** What an answer is worth. */
export interface Scored {
  /** In reward units; not NaN. */
  readonly reward: number
  /** Whether the task counts as solved. */
  readonly success: boolean
  /** What the reward is made of, by name: every reward says its names in `partNames`. */
  readonly parts: Readonly<Record<string, number>>
}

/**
 * A reward as a pure function: equal arguments, equal score, whatever the text. `P` are the names
 * of its parts.
 */
export interface Reward<in T extends Task = Task, out P extends string = string> {
  readonly name: string
  readonly partNames: readonly P[]
  /** Lowest and highest that `reward` can be. */
  readonly range: readonly [lowest: number, highest: number]
  readonly score: (answered: Answered<T>) => Scored
}

/**
 * What a reward needs could not be had, which says nothing about the answer: the rollout fails, and
 * gets no reward.
 */
export interface RewardFailure {
  readonly _tag: 'RewardFailure'
  readonly rewardName: string
  readonly reason: string
  readonly cause?: PolicyFailure
}

export interface ScoreContext {
  readonly key: Key
  /** The conversation and its group; undefined outside of environments. */
  readonly episode?: Episode | undefined
  /** Aborted when nobody waits any more. */
  readonly signal: AbortSignal
}

/** A reward that asks a model, a sandbox or a server. */
export interface RewardService<in T extends Task = Task, out P extends string = string>
  extends Omit<Reward<T, P>, 'score'> {
  readonly score: (answered: Answered<T>, context: ScoreContext) => TaskEither<RewardFailure, Scored>
}

/** A reward of either kind. */
export type AnyReward<T extends Task = Task, P extends string = string> = Reward<T, P> | RewardService<T, P>
