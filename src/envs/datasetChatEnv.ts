import { pipe } from 'fp-ts/lib/function.js'
import type { HistoryAction } from '../data/policy.js'
import type { TaskSource } from '../data/task.js'
import type { DeepMerge } from '../data/tensorDict/merge.js'
import { ChatEnv, type ChatState } from './chatEnv.js'
import type { Env } from './env.js'
import { DataLoadingPrimer, type TaskEntries } from './transforms/dataLoadingPrimer.js'
import { append } from './transforms/transform.js'

export interface DatasetChatEnvOptions {
  readonly source: TaskSource
  /** Different tasks in a batch. */
  readonly prompts: number
  /** Completions of each task: the size of a group. Default 1. */
  readonly repeats?: number
  readonly systemPrompt?: string
  /** The row of the source to begin with. */
  readonly start?: number
}

export type DatasetChatState = DeepMerge<ChatState, TaskEntries>

/**
 * Conversations about the rows of a dataset: `ChatEnv` fed by `DataLoadingPrimer`. The batch has `prompts * repeats` elements, the
 * members of a group side by side.
 *
 * Source   TorchRL `DatasetChatEnv` with `group_repeats`.
 */
export const DatasetChatEnv = (options: DatasetChatEnvOptions): Env<DatasetChatState, HistoryAction> => {
  const { source, prompts, repeats = 1, systemPrompt, start } = options
  const batchSize = prompts * repeats
  return pipe(
    ChatEnv({ batchSize, ...(systemPrompt !== undefined && { systemPrompt }) }),
    append(DataLoadingPrimer({ source, batchSize, repeats, ...(start !== undefined && { start }) })),
  )
}
