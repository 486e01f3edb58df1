/** The rewards of GSM8K, MATH and Countdown as transforms. */
import { checkOptions } from '@tandem-rl/base'
import type { Task } from '@tandem-rl/text'
import {
  COUNTDOWN_REWARD_PARSER_OPTIONS,
  GSM8K_REWARD_PARSER_OPTIONS,
  MATH_REWARD_PARSER_OPTIONS,
} from '../optionKinds.js'
import type { AnswerReward, AnswerRewardOptions } from '../rewards/answerScore.js'
import { countdownReward } from '../rewards/countdown.js'
import { type GSM8KRewardOptions, gsm8kAnswerReward } from '../rewards/gsm8k.js'
import { type MathRewardOptions, mathReward } from '../rewards/math/mathReward.js'
import type { PartEntries, RewardEntries } from './rewardEntries.js'
import { type NeededTask, type RewardReading, type RewardState, rewarding } from './rewardTransform.js'
import type { Transform } from './transform.js'

/** The options of reading actions and ending episodes. Each turn is rewarded. */
export type ParserOptions = Omit<RewardReading, 'when'>

export interface GSM8KRewardParserOptions extends ParserOptions, GSM8KRewardOptions {}

export interface MATHRewardParserOptions extends ParserOptions, MathRewardOptions {}

export interface CountdownRewardParserOptions extends ParserOptions, AnswerRewardOptions {}

/**
 * The parts of the reward of an answer block, each `[B]` float32, and whether the answer is right,
 * `[B]` bool. Added on every step.
 */
export type AnswerParts = RewardEntries & PartEntries<'answer' | 'think' | 'right'>

type AnswerParser = Transform<RewardState, NeededTask<Task>, AnswerParts>

const parser = (name: string, reward: AnswerReward, reading: ParserOptions): AnswerParser =>
  rewarding(name, reward, { ...reading, when: 'turn' })

/** The options of the reward: those that are not about how an answer is read. */
const rewardOptions = <O extends ParserOptions>({ onAnswer, inputMode, endOfTurn, ...reward }: O) => reward

/**
 * Rewards each answer by `gsm8kReward` against the state's `answer`, and ends episodes with an
 * answer. The reward is added to the existing one. Only the completion is read, never the prompt,
 * in every input mode.
 *
 * Errors   `Left(EnvFailure)` if the action lacks the view that `inputMode` names. Throws
 *          RangeError for unknown options.
 * Source   TorchRL `GSM8KRewardParser`.
 */
export const GSM8KRewardParser = (options: GSM8KRewardParserOptions = {}): AnswerParser => {
  checkOptions('GSM8KRewardParser', options, GSM8K_REWARD_PARSER_OPTIONS)
  return parser('GSM8KRewardParser', gsm8kAnswerReward(rewardOptions(options)), options)
}

/**
 * Rewards each answer by `mathReward` against the state's `answer`, and ends episodes with an
 * answer.
 *
 * Errors   `Left(EnvFailure)` if the action lacks the view that `inputMode` names. Throws
 *          RangeError for unknown options.
 * Source   TorchRL `MATHRewardParser`.
 */
export const MATHRewardParser = (options: MATHRewardParserOptions = {}): AnswerParser => {
  checkOptions('MATHRewardParser', options, MATH_REWARD_PARSER_OPTIONS)
  return parser('MATHRewardParser', mathReward(rewardOptions(options)), options)
}

/**
 * Rewards each answer by `countdownReward` against the goal in the state's `answer`, and ends
 * episodes with an answer.
 *
 * Errors   `Left(EnvFailure)` if the action lacks the view that `inputMode` names. Throws
 *          RangeError for unknown options.
 * Source   TorchRL `CountdownRewardParser`.
 */
export const CountdownRewardParser = (options: CountdownRewardParserOptions = {}): AnswerParser => {
  checkOptions('CountdownRewardParser', options, COUNTDOWN_REWARD_PARSER_OPTIONS)
  return parser('CountdownRewardParser', countdownReward(rewardOptions(options)), options)
}
