import { checkOptions } from '@tandem-rl/base'
import type { Task } from '@tandem-rl/text'
import { pipe } from 'fp-ts/lib/function.js'
import type { HistoryAction } from '../data/policy.js'
import type { Infer, Spec } from '../data/spec.js'
import type { TaskSource } from '../data/task.js'
import type { DeepMerge } from '../data/tensorDict/merge.js'
import type { Env } from './base/env.js'
import { ChatEnv, type ChatState } from './chatEnv.js'
import { DATASET_CHAT_ENV_OPTIONS } from './optionKinds.js'
import {
  DataLoadingPrimer,
  type Kept,
  QUESTION_SPEC,
  type TaskEntries,
  type TaskEntry,
} from './transforms/dataLoadingPrimer.js'
import { append } from './transforms/transform.js'

/** The options for drawing conversations from a data set. */
export interface DrawnChats<T extends Task = Task> {
  readonly source: TaskSource<T>
  /** Number of different tasks per batch. */
  readonly prompts: number
  /** Completions per task, the size of a group. Default 1. */
  readonly repeats?: number
  readonly systemPrompt?: string
  /** Index of the first row. */
  readonly start?: number
}

/** No further columns. */
export type NoColumns = Readonly<Record<never, never>>

export interface DatasetChatEnvOptions<T extends Task = Task, K extends Kept = Kept, P extends Spec = Spec>
  extends DrawnChats<T> {
  /**
   * `task`: states have the whole task as well, for rewards that read its row. Default: its columns
   * alone.
   */
  readonly keep?: K
  /**
   * Entries that further columns of a row become, as in `DataLoadingPrimer`. Default: none beside
   * `query` and `answer`.
   */
  readonly primers?: P
  /** The columns of entries whose name is another, as in `DataLoadingPrimer`. */
  readonly columns?: Readonly<Record<string, string>>
}

export type DatasetChatState = DeepMerge<ChatState, TaskEntries>

/** The states of a `DatasetChatEnv` that keeps this of its tasks and has these further columns. */
export type DatasetChatStateOf<T extends Task, K extends Kept, P extends Spec = NoColumns> = DeepMerge<
  K extends 'task' ? DeepMerge<DatasetChatState, TaskEntry<T>> : DatasetChatState,
  Infer<P>
>

/**
 * Makes an environment of conversations about the rows of a data set: `ChatEnv` with
 * `DataLoadingPrimer`. The batch has `prompts * repeats` elements, with members of a group
 * adjacent.
 *
 * Errors   throws RangeError for unknown options.
 * Source   TorchRL `DatasetChatEnv` with `group_repeats`.
 */
export const DatasetChatEnv = <T extends Task = Task, K extends Kept = 'columns', P extends Spec = NoColumns>(
  options: DatasetChatEnvOptions<T, K, P>,
): Env<DatasetChatStateOf<T, K, P>, HistoryAction> => {
  checkOptions('DatasetChatEnv', options, DATASET_CHAT_ENV_OPTIONS)
  const { prompts, repeats = 1, systemPrompt, primers, ...rows } = options
  const batchSize = prompts * repeats
  const env = pipe(
    ChatEnv({ batchSize, ...(systemPrompt !== undefined && { systemPrompt }) }),
    append(
      DataLoadingPrimer<T, K, Spec>({
        ...rows,
        batchSize,
        repeats,
        primers: { ...QUESTION_SPEC, ...primers },
      }) as never,
    ),
  )
  return env as never // its states have both schemas, whatever `keep` and `primers` add
}
