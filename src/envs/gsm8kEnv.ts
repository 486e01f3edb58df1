import { pipe } from 'fp-ts/lib/function.js'
import type { HistoryAction } from '../data/policy.js'
import type { DeepMerge } from '../data/tensorDict/merge.js'
import { DatasetChatEnv, type DatasetChatEnvOptions, type DatasetChatState } from './datasetChatEnv.js'
import type { Env } from './env.js'
import type { GSM8KRewardOptions } from './rewards/gsm8k.js'
import { type GSM8KParts, GSM8KRewardParser } from './transforms/gsm8kRewardParser.js'
import { type StepCount, StepCounter } from './transforms/stepCounter.js'
import { append } from './transforms/transform.js'

export interface GSM8KEnvOptions extends Omit<DatasetChatEnvOptions, 'keep'> {
  readonly reward?: GSM8KRewardOptions
}

export type GSM8KState = DeepMerge<DeepMerge<DatasetChatState, StepCount>, GSM8KParts>

/** Asks for the two blocks that the reward reads, without writing an empty pair of them. */
export const GSM8K_SYSTEM_PROMPT =
  'Solve the problem step by step. Put your reasoning between the tags think and /think, each in angle brackets, and then ' +
  'only the final number between the tags answer and /answer, in angle brackets as well.'

/**
 * Single-turn word problems with GSM8K's reward: `DatasetChatEnv`, one step for each episode, `GSM8KRewardParser`.
 *
 * Source   TorchRL `GSM8KEnv`. Its system prompt contains an empty answer block, which its own parser then finds; this one does not.
 */
export const GSM8KEnv = (options: GSM8KEnvOptions): Env<GSM8KState, HistoryAction> => {
  const { reward, ...dataset } = options
  return pipe(DatasetChatEnv(dataset), append(StepCounter({ maxSteps: 1 })), append(GSM8KRewardParser({ ...reward })))
}
