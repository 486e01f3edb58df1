import { checkOptions, type Key } from '@tandem-rl/base'
import { type AnswerEnv, answerEnv, type EpisodeOptions } from './answerEnv.js'
import type { DrawnChats } from './datasetChatEnv.js'
import { COUNTDOWN_ENV_OPTIONS } from './optionKinds.js'
import type { AnswerRewardOptions } from './rewards/answerScore.js'
import { type CountdownTaskOptions, countdownTasks } from './rewards/countdown.js'
import { CountdownRewardParser } from './transforms/answerParsers.js'

export interface CountdownEnvOptions extends Omit<DrawnChats, 'source'>, EpisodeOptions, CountdownTaskOptions {
  /** Of the puzzles. */
  readonly key: Key
  readonly reward?: AnswerRewardOptions
}

/** Asks for the block that the reward reads, without writing an empty one. */
export const COUNTDOWN_SYSTEM_PROMPT =
  'Think first, between the tags think and /think, each in angle brackets. Then give the expression alone between the tags answer and ' +
  '/answer, in angle brackets as well.'

/**
 * Puzzles of numbers without end: `DatasetChatEnv` over `countdownTasks`, `StepCounter`,
 * `CountdownRewardParser`. An answer ends the episode, and so does the last of `maxSteps` turns.
 *
 * Errors   throws RangeError for unknown options and for options that are no counts.
 * Source   TorchRL `CountdownEnv`.
 */
export const CountdownEnv: AnswerEnv<CountdownEnvOptions> = (options: CountdownEnvOptions) => {
  checkOptions('CountdownEnv', options, COUNTDOWN_ENV_OPTIONS)
  const { key, reward, numCount, maxNumber, maxTarget, ...rest } = options
  const limits = {
    ...(numCount !== undefined && { numCount }),
    ...(maxNumber !== undefined && { maxNumber }),
    ...(maxTarget !== undefined && { maxTarget }),
  }
  const dataset = { source: countdownTasks(key, limits), ...rest }
  return answerEnv(dataset, () => CountdownRewardParser({ ...reward })) as never // the states of AnswerEnv
}
