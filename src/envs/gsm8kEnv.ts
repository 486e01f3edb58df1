import { checkOptions } from '@tandem-rl/base'
import { type AnswerEnv, type AnswerState, answerEnv, type EpisodeOptions } from './answerEnv.js'
import type { DrawnChats } from './datasetChatEnv.js'
import { GSM8K_ENV_OPTIONS } from './optionKinds.js'
import type { GSM8KRewardOptions } from './rewards/gsm8k.js'
import { GSM8KRewardParser } from './transforms/answerParsers.js'

export interface GSM8KEnvOptions extends DrawnChats, EpisodeOptions {
  readonly reward?: GSM8KRewardOptions
}

export type GSM8KState = AnswerState

/** Asks for the two blocks that the reward reads, without writing an empty pair of them. */
export const GSM8K_SYSTEM_PROMPT =
  'Solve the problem step by step. Put your reasoning between the tags think and /think, each in angle brackets, and then ' +
  'only the final number between the tags answer and /answer, in angle brackets as well.'

/**
 * Word problems with GSM8K's reward: `DatasetChatEnv`, `StepCounter`, `GSM8KRewardParser`. An
 * answer ends the episode, and so does the last of `maxSteps` turns; a transform outside, such as
 * `AddThinkingPrompt`, may open it again.
 *
 * Errors   throws RangeError for unknown options.
 * Source   TorchRL `GSM8KEnv`. Its system prompt contains an empty answer block, which its own
 *          parser then finds; this one does not.
 *
 * @example
 * GSM8KEnv({ source: taskList('one', [{ id: 'a', query: 'What is 2 + 2?', answer: '#### 4' }]), prompts: 1, maxSteps: 10 }).batchSize // 1
 */
export const GSM8KEnv: AnswerEnv<GSM8KEnvOptions> = (options: GSM8KEnvOptions) => {
  checkOptions('GSM8KEnv', options, GSM8K_ENV_OPTIONS)
  const { reward, ...rest } = options
  return answerEnv(rest, () => GSM8KRewardParser({ ...reward })) as never // the states are those that AnswerEnv says
}
