import { checkOptions } from '@tandem-rl/base'
import { type AnswerEnv, answerEnv, type EpisodeOptions } from './answerEnv.js'
import type { DrawnChats } from './datasetChatEnv.js'
import { MATH_ENV_OPTIONS } from './optionKinds.js'
import type { MathRewardOptions } from './rewards/math/mathReward.js'
import { MATHRewardParser } from './transforms/answerParsers.js'

export interface MATHEnvOptions extends DrawnChats, EpisodeOptions {
  readonly reward?: MathRewardOptions
}

/** Asks for a box, which the reward reads. */
export const MATH_SYSTEM_PROMPT =
  'Solve the problem step by step. Put the final answer, and nothing else, into a box: write backslash boxed and the answer in braces.'

/**
 * Problems of competitions with the reward of MATH: `DatasetChatEnv`, `StepCounter`,
 * `MATHRewardParser`. An answer ends the episode, and so does the last of `maxSteps` turns.
 *
 * Errors   throws RangeError for unknown options.
 * Source   TorchRL `MATHEnv`.
 */
export const MATHEnv: AnswerEnv<MATHEnvOptions> = (options: MATHEnvOptions) => {
  checkOptions('MATHEnv', options, MATH_ENV_OPTIONS)
  const { reward, ...rest } = options
  return answerEnv(rest, () => MATHRewardParser({ ...reward })) as never // the states of AnswerEnv
}
