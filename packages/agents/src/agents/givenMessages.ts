import { History, type Message, type Task, withSystem } from '@tandem-rl/text'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { type HistoryPrompt, type Transform, transform } from 'tandem-rl'
import type { TaskEntry } from 'tandem-rl/envs'
import { data, dataSpec, get, TensorDict } from 'tandem-rl/tensordict'

/**
 * Starts episodes with the messages of their tasks, where a task has `messages`, instead of with
 * its question alone. A system message of the environment replaces that of the task.
 *
 * @example
 * givenMessages().name // 'givenMessages'
 */
export const givenMessages = (): Transform<null, HistoryPrompt & TaskEntry, HistoryPrompt> =>
  transform<null, HistoryPrompt & TaskEntry, HistoryPrompt>({
    name: 'givenMessages',
    initial: null,
    needs: {
      observation: { history: { prompt: dataSpec<History>('History') }, task: dataSpec<Task>('Task') },
      action: {},
    },
    adds: { history: { prompt: dataSpec<History>('History') } },
    reset: (td) => {
      const tasks = get(td, 'task').items
      const histories = get(td, 'history', 'prompt').items.map((request, i) => {
        const { messages } = tasks.get(i)! as Task & { readonly messages?: readonly Message[] } // a field of the row
        if (messages === undefined) return request
        const first = request.messages.first()
        const given = History(messages)
        return first?.role === 'system' ? withSystem(given, first) : given
      })
      return TE.right([TensorDict({ history: { prompt: data(histories) } }, td.batchShape), null])
    },
  })
