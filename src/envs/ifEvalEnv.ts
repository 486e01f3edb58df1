import { checkOptions } from '@tandem-rl/base'
import { pipe } from 'fp-ts/lib/function.js'
import type { IfEvalRow } from '../data/datasets/ifEval.js'
import type { HistoryAction } from '../data/policy.js'
import type { RowTask } from '../data/task.js'
import type { DeepMerge } from '../data/tensorDict/merge.js'
import type { Env } from './base/env.js'
import { DatasetChatEnv, type DatasetChatStateOf, type DrawnChats } from './datasetChatEnv.js'
import { IFEVAL_ENV_OPTIONS } from './optionKinds.js'
import { type IfEvalEntries, IfEvalScorer, type IfEvalScorerOptions } from './transforms/ifEvalScorer.js'
import { type StepCount, StepCounter } from './transforms/stepCounter.js'
import { append } from './transforms/transform.js'

export interface IFEvalEnvOptions extends DrawnChats<RowTask<IfEvalRow>> {
  /** The reward of replies, and the detector of languages, from `loadLanguageDetector()`. */
  readonly reward: Pick<IfEvalScorerOptions, 'detectLanguage' | 'judged' | 'aggregate' | 'onAnswer'>
  /** Turns before an episode is cut off. Default 1. */
  readonly maxSteps?: number
}

export type IFEvalState = DeepMerge<DeepMerge<DatasetChatStateOf<RowTask<IfEvalRow>, 'task'>, StepCount>, IfEvalEntries>

/** Asks for the block that is judged, without writing an empty pair of its tags. */
export const IFEVAL_SYSTEM_PROMPT =
  'Follow every instruction of the user. Put your reasoning between the tags think and /think, each in angle brackets, and then only ' +
  'the response itself between the tags answer and /answer, in angle brackets as well.'

/**
 * Single-turn prompts with instructions that a program can check: `DatasetChatEnv` over the rows of
 * `IFEVAL`, `StepCounter`, `IfEvalScorer`.
 *
 * Source   TorchRL `IFEvalEnv`. With `judged: 'reply'`, ask the policy for no blocks.
 */
export const IFEvalEnv = (options: IFEvalEnvOptions): Env<IFEvalState, HistoryAction> => {
  checkOptions('IFEvalEnv', options, IFEVAL_ENV_OPTIONS)
  const { reward, maxSteps = 1, ...dataset } = options
  return pipe(
    DatasetChatEnv<RowTask<IfEvalRow>, 'task'>({ ...dataset, keep: 'task' }),
    append(StepCounter({ maxSteps })),
    append(IfEvalScorer(reward)),
  )
}
