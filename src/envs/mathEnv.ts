import { pipe } from 'fp-ts/lib/function.js'
import type { HistoryAction } from '../data/policy.js'
import type { DeepMerge } from '../data/tensorDict/merge.js'
import { DatasetChatEnv, type DatasetChatEnvOptions, type DatasetChatState } from './datasetChatEnv.js'
import type { Env } from './env.js'
import type { MathRewardOptions } from './rewards/math/mathReward.js'
import { MATHRewardParser } from './transforms/answerParsers.js'
import type { AnswerParts } from './transforms/gsm8kRewardParser.js'
import { type StepCount, StepCounter } from './transforms/stepCounter.js'
import { append } from './transforms/transform.js'

export interface MATHEnvOptions extends Omit<DatasetChatEnvOptions, 'keep'> {
  readonly reward?: MathRewardOptions
}

/** The states of an environment whose answers are right, wrong or missing. */
export type AnswerState = DeepMerge<DeepMerge<DatasetChatState, StepCount>, AnswerParts>

/** Asks for a box, which the reward reads. */
export const MATH_SYSTEM_PROMPT =
  'Solve the problem step by step. Put the final answer, and nothing else, into a box: write backslash boxed and the answer in braces.'

/**
 * Single-turn problems of competitions with the reward of MATH: `DatasetChatEnv`, one step for each episode, `MATHRewardParser`.
 *
 * Source   TorchRL `MATHEnv`.
 */
export const MATHEnv = (options: MATHEnvOptions): Env<AnswerState, HistoryAction> => {
  const { reward, ...dataset } = options
  return pipe(DatasetChatEnv(dataset), append(StepCounter({ maxSteps: 1 })), append(MATHRewardParser({ ...reward })))
}
