import { pipe } from 'fp-ts/lib/function.js'
import { aNumber, aRecord, aText, checkOptions, type OptionKinds, oneOf } from '../core/options.js'
import type { HistoryAction } from '../data/policy.js'
import type { Task, TaskSource } from '../data/task.js'
import type { DeepMerge } from '../data/tensorDict/merge.js'
import { ChatEnv, type ChatState } from './chatEnv.js'
import type { Env } from './env.js'
import { DataLoadingPrimer, type Kept, type TaskEntries, type TaskEntry } from './transforms/dataLoadingPrimer.js'
import { append } from './transforms/transform.js'

export interface DatasetChatEnvOptions<T extends Task = Task, K extends Kept = Kept> {
  readonly source: TaskSource<T>
  /** Different tasks in a batch. */
  readonly prompts: number
  /** Completions of each task: the size of a group. Default 1. */
  readonly repeats?: number
  readonly systemPrompt?: string
  /** The row of the source to begin with. */
  readonly start?: number
  /** `task`: states have the whole task as well, for rewards that read its row. Default: its columns alone. */
  readonly keep?: K
}

/** The options that every environment over a data set has, for `checkOptions`. */
export const DATASET_OPTIONS: OptionKinds<Omit<DatasetChatEnvOptions, 'keep'>> = {
  source: aRecord,
  prompts: aNumber,
  repeats: aNumber,
  systemPrompt: aText,
  start: aNumber,
}

export type DatasetChatState = DeepMerge<ChatState, TaskEntries>

/** The states of a `DatasetChatEnv` that keeps this of its tasks. */
export type DatasetChatStateOf<T extends Task, K extends Kept> = K extends 'task'
  ? DeepMerge<DatasetChatState, TaskEntry<T>>
  : DatasetChatState

/**
 * Conversations about the rows of a dataset: `ChatEnv` fed by `DataLoadingPrimer`. The batch has `prompts * repeats` elements, the
 * members of a group side by side.
 *
 * Errors   throws RangeError for unknown options.
 * Source   TorchRL `DatasetChatEnv` with `group_repeats`.
 */
export const DatasetChatEnv = <T extends Task = Task, K extends Kept = 'columns'>(
  options: DatasetChatEnvOptions<T, K>,
): Env<DatasetChatStateOf<T, K>, HistoryAction> => {
  checkOptions('DatasetChatEnv', options, { ...DATASET_OPTIONS, keep: oneOf('columns', 'task') })
  const { prompts, repeats = 1, systemPrompt, ...rows } = options
  const batchSize = prompts * repeats
  const env = pipe(
    ChatEnv({ batchSize, ...(systemPrompt !== undefined && { systemPrompt }) }),
    append(DataLoadingPrimer<T, K>({ ...rows, batchSize, repeats })),
  )
  return env as never // its states have both schemas, whatever `keep` adds
}
