/** The types of rewards: scores of a conversation for a task. */
import type { Key } from '@tandem-rl/base'
import type { History, Task } from '@tandem-rl/text'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { PolicyFailure } from '../../data/policy.js'
import type { Episode } from '../base/episode.js'

/** A conversation about a task. */
export interface Answered<out T extends Task = Task> {
  readonly task: T
  /** The messages, up to the policy's last one and the tool results after it. */
  readonly history: History
  /**
   * The observation of the tool call that ended the episode (`status: 'finish'`). Default: none.
   */
  readonly finish?: string | undefined
  /** The states of the tools, by name. Default: no tools. */
  readonly tools?: Readonly<Record<string, unknown>> | undefined
}

/** The score of an answer. */
export interface Scored {
  /** In reward units; not NaN. */
  readonly reward: number
  /** True if the task counts as solved. */
  readonly success: boolean
  /** The components of the reward, by the names in `partNames`. */
  readonly parts: Readonly<Record<string, number>>
}

/**
 * A reward as a pure function: equal arguments give equal scores. `P` are the names of its parts.
 */
export interface Reward<in T extends Task = Task, out P extends string = string> {
  readonly name: string
  readonly partNames: readonly P[]
  /** `parts`: scores may have further parts, which become metrics too. Default: none. */
  readonly extras?: 'parts'
  /** The lowest and the highest possible `reward`. */
  readonly range: readonly [lowest: number, highest: number]
  readonly score: (answered: Answered<T>) => Scored
}

/**
 * The failure of a reward, which does not depend on the answer: the rollout fails and gets no
 * reward.
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
  /** Aborts when the score is no longer needed. */
  readonly signal: AbortSignal
}

/** A reward that calls a model, a sandbox or a server. */
export interface RewardService<in T extends Task = Task, out P extends string = string>
  extends Omit<Reward<T, P>, 'score'> {
  readonly score: (answered: Answered<T>, context: ScoreContext) => TaskEither<RewardFailure, Scored>
}

/** A reward of either kind. */
export type AnyReward<T extends Task = Task, P extends string = string> = Reward<T, P> | RewardService<T, P>
