/** Environments of one given task, for servers that score completions of other programs. */
import type { Task } from '@tandem-rl/text'
import type { HistoryAction, HistoryPrompt } from '../data/policy.js'
import { type TaskSource, taskList } from '../data/task.js'
import type { Env } from './base/env.js'

/** Makes the environment of one task, with a batch of one element. */
export type EnvOfTask = (task: Task) => Env<HistoryPrompt, HistoryAction>

/** Makes an environment over a source of tasks, as recipes do. */
type EnvOverTasks<O> = (
  source: TaskSource,
) => (context: { readonly prompts: number; readonly repeats: number; readonly start: number }) => Env<O, HistoryAction>

/**
 * Returns a function that makes the environment of a given task.
 *
 * @example
 * envOfTask((source) => (tasks) => GSM8KEnv({ source, ...tasks }))({ id: '1', query: 'What is 1 + 1?', answer: '#### 2' }).batchSize // 1
 */
export const envOfTask =
  <O extends HistoryPrompt>(env: EnvOverTasks<O>): EnvOfTask =>
  (task) =>
    env(taskList('request', [task]))({ prompts: 1, repeats: 1, start: 0 }) as unknown as ReturnType<EnvOfTask> // only its own states are stepped
