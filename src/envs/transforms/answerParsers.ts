/** The rewards of MATH and Countdown as transforms. */
import type { AnswerRewardOptions } from '../rewards/answerScore.js'
import { countdownReward } from '../rewards/countdown.js'
import { type MathRewardOptions, mathReward } from '../rewards/math/mathReward.js'
import type { TaskColumns } from './dataLoadingPrimer.js'
import type { AnswerParts } from './gsm8kRewardParser.js'
import { type RewardState, RewardTransform, type RewardTransformOptions } from './rewardTransform.js'
import type { Transform } from './transform.js'

/** How an action is read, and whether an answer ends the episode. */
export type ParserOptions = Omit<RewardTransformOptions, 'task'>

export interface MATHRewardParserOptions extends ParserOptions, MathRewardOptions {}

export interface CountdownRewardParserOptions extends ParserOptions, AnswerRewardOptions {}

type AnswerParser = Transform<RewardState, TaskColumns, AnswerParts>

/**
 * Rewards each answer by `mathReward` against the state's `answer`, and ends the episodes in which an answer was given.
 *
 * Errors   `Left(EnvFailure)` if the action lacks the view that `inputMode` names.
 * Source   TorchRL `MATHRewardParser`.
 */
export const MATHRewardParser = (options: MATHRewardParserOptions = {}): AnswerParser =>
  RewardTransform(mathReward(options), options) as never // its entries are those of the reward's three parts

/**
 * Rewards each answer by `countdownReward` against the goal in the state's `answer`, and ends the episodes in which an answer was given.
 *
 * Errors   `Left(EnvFailure)` if the action lacks the view that `inputMode` names.
 * Source   TorchRL `CountdownRewardParser`.
 */
export const CountdownRewardParser = (options: CountdownRewardParserOptions = {}): AnswerParser =>
  RewardTransform(countdownReward(options), options) as never // its entries are those of the reward's three parts
