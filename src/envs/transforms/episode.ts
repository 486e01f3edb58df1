/** The tasks and episodes of the elements of a state. */
import type { Task } from '@tandem-rl/text'
import { find, findData, get, type TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { Episode } from '../base/episode.js'
import type { TaskColumns, TaskEntry } from './dataLoadingPrimer.js'

/** The tasks of a state: whole ones if it keeps them, their columns otherwise. */
export const stateTasks = (td: TensorDict): readonly Task[] => {
  // Casts: by the schemas of the primer, whose entries these are.
  if (find(td, ['task']) !== undefined) return get(td as TensorDict<TaskEntry>, 'task').items.toArray()
  const columns = td as TensorDict<TaskColumns>
  const [queries, answers] = [get(columns, 'query').items, get(columns, 'answer').items]
  return get(columns, 'taskId')
    .items.map((id, i) => ({ id, query: queries.get(i)!, answer: answers.get(i)! }))
    .toArray()
}

/** The episodes of a state's elements, with the given names of their chains. */
export const episodesOf = (td: TensorDict, chains: readonly string[]): readonly Episode[] => {
  const hasTasks = find(td, ['task']) !== undefined || find(td, ['taskId']) !== undefined
  const tasks = hasTasks ? stateTasks(td) : []
  const groups = findData<string>(td, 'groupId')
  return chains.map((chain, i) => ({ chain, group: groups?.[i] ?? chain, task: tasks[i] }))
}
