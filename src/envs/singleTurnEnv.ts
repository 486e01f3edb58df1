/** Single-turn environments from one reward: what an answer is worth. */
import { checkOptions } from '@tandem-rl/base'
import type { Task } from '@tandem-rl/text'
import { pipe } from 'fp-ts/lib/function.js'
import type { HistoryAction } from '../data/policy.js'
import type { DeepMerge } from '../data/tensorDict/merge.js'
import type { Env } from './base/env.js'
import { DatasetChatEnv, type DatasetChatStateOf, type DrawnChats } from './datasetChatEnv.js'
import { SINGLE_TURN_ENV_OPTIONS } from './optionKinds.js'
import type { AnyReward } from './rewards/reward.js'
import type { RewardFunction, RewardParts } from './rewards/rewardFunction.js'
import type { PartEntries, RewardEntries } from './transforms/rewardEntries.js'
import { rewardTransform } from './transforms/rewardTransform.js'
import { type StepCount, StepCounter } from './transforms/stepCounter.js'
import { append } from './transforms/transform.js'

export interface SingleTurnEnvOptions<T extends Task = Task, P extends string = never>
  extends DrawnChats<T>,
    RewardParts<P> {
  /**
   * A reward of `tandem-rl/rewards`, or a function of named arguments: `prediction`, the answer of
   * the policy, and the fields of the task. `parts`, `solvedAt` and `optional` are for functions.
   */
  readonly reward: AnyReward<T, P> | RewardFunction<T, NoInfer<P>>
}

/** The states of a `SingleTurnEnv`. */
export type SingleTurnState<T extends Task, P extends string> = DeepMerge<
  DeepMerge<DatasetChatStateOf<T, 'task'>, StepCount>,
  RewardEntries & PartEntries<P>
>

/**
 * Makes a single-turn environment: the policy answers the `query` of a task, and `reward` scores
 * the answer.
 *
 * Shapes   reward, parts and `success` `[B]`.
 * Errors   throws RangeError for unknown options. `Left(EnvFailure)`, with the task, if the reward
 *          cannot be computed.
 * Effects  those of `reward`. Answers of a batch are scored concurrently.
 *
 * @example
 * SingleTurnEnv({ source: taskList('one', [{ query: '1 + 1', answer: '2' }]), prompts: 1, reward: ({ prediction, answer }) => Number(prediction === answer) }).batchSize // 1
 */
export const SingleTurnEnv = <T extends Task, const P extends string = never>(
  options: SingleTurnEnvOptions<T, P>,
): Env<SingleTurnState<T, P>, HistoryAction> => {
  checkOptions('SingleTurnEnv', options, SINGLE_TURN_ENV_OPTIONS)
  const { reward, parts, solvedAt, optional, ...dataset } = options
  const scoring = {
    ...(parts !== undefined && { parts }),
    ...(solvedAt !== undefined && { solvedAt }),
    ...(optional !== undefined && { optional }),
  }
  const chats = DatasetChatEnv<T, 'task'>({ ...dataset, keep: 'task' })
  const rewarded = rewardTransform({ reward, ...scoring } as never) // by the type of the options
  return pipe(chats as never, append(StepCounter({ maxSteps: 1 })), append(rewarded as never)) as never // by its parts
}
