import { pipe } from 'fp-ts/lib/function.js'
import type { Key } from '../core/key.js'
import type { HistoryAction } from '../data/policy.js'
import { DatasetChatEnv, type DatasetChatEnvOptions } from './datasetChatEnv.js'
import type { Env } from './env.js'
import type { AnswerState } from './mathEnv.js'
import type { AnswerRewardOptions } from './rewards/answerScore.js'
import { type CountdownTaskOptions, countdownTasks } from './rewards/countdown.js'
import { CountdownRewardParser } from './transforms/answerParsers.js'
import { StepCounter } from './transforms/stepCounter.js'
import { append } from './transforms/transform.js'

export interface CountdownEnvOptions extends Omit<DatasetChatEnvOptions, 'source' | 'keep'>, CountdownTaskOptions {
  /** Of the puzzles. */
  readonly key: Key
  readonly reward?: AnswerRewardOptions
}

/** Asks for the block that the reward reads, without writing an empty one. */
export const COUNTDOWN_SYSTEM_PROMPT =
  'Think first, between the tags think and /think, each in angle brackets. Then give the expression alone between the tags answer and ' +
  '/answer, in angle brackets as well.'

/**
 * Puzzles of numbers without end: `DatasetChatEnv` over `countdownTasks`, one step for each episode, `CountdownRewardParser`.
 *
 * Errors   throws RangeError for options that are no counts.
 * Source   TorchRL `CountdownEnv`.
 */
export const CountdownEnv = (options: CountdownEnvOptions): Env<AnswerState, HistoryAction> => {
  const { key, reward, numCount, maxNumber, maxTarget, ...dataset } = options
  const limits = {
    ...(numCount !== undefined && { numCount }),
    ...(maxNumber !== undefined && { maxNumber }),
    ...(maxTarget !== undefined && { maxTarget }),
  }
  const source = countdownTasks(key, limits)
  return pipe(
    DatasetChatEnv({ source, ...dataset }),
    append(StepCounter({ maxSteps: 1 })),
    append(CountdownRewardParser({ ...reward })),
  )
}
