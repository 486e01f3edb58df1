/** Shared options of environments with one right answer: episode length and rewards. */
import type { Task } from '@tandem-rl/text'
import { pipe } from 'fp-ts/lib/function.js'
import type { HistoryAction } from '../data/policy.js'
import type { DeepMerge } from '../data/tensorDict/merge.js'
import type { Env } from './base/env.js'
import { DatasetChatEnv, type DatasetChatState, type DrawnChats } from './datasetChatEnv.js'
import type { AnswerParts } from './transforms/answerParsers.js'
import type { NeededTask, RewardState } from './transforms/rewardTransform.js'
import { type StepCount, StepCounter } from './transforms/stepCounter.js'
import { append, type Transform } from './transforms/transform.js'

/** The options of episodes. */
export interface EpisodeOptions {
  /** Turns before an episode is truncated. Default 1. */
  readonly maxSteps?: number
  /**
   * `false` omits the reward, its parts and the end by an answer, for an outer transform. Default
   * `true`.
   */
  readonly computeReward?: boolean
}

/** The states of an environment that counts steps and gives no rewards. */
export type UnrewardedState = DeepMerge<DatasetChatState, StepCount>

/** The states of an environment whose answers are right, wrong or missing. */
export type AnswerState = DeepMerge<UnrewardedState, AnswerParts>

/** An environment of such answers, without the parts of its reward where that is left out. */
export interface AnswerEnv<Options extends EpisodeOptions> {
  (options: Options & { readonly computeReward: false }): Env<UnrewardedState, HistoryAction>
  (options: Options & { readonly computeReward?: true }): Env<AnswerState, HistoryAction>
}

type AnswerParser = Transform<RewardState, NeededTask<Task>, AnswerParts>

/**
 * Conversations over a data set with a limit of steps, and around them the reward unless it is left
 * out.
 */
export const answerEnv = (
  { maxSteps = 1, computeReward = true, ...dataset }: DrawnChats & EpisodeOptions,
  parser: () => AnswerParser,
): Env<AnswerState, HistoryAction> => {
  const chats = pipe(DatasetChatEnv(dataset), append(StepCounter({ maxSteps })))
  return computeReward ? pipe(chats, append(parser())) : (chats as never) // the states of AnswerEnv
}
