import type { Task } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskSource } from '../../../../src/data/task.js'

/** The task at an index of a source that has one everywhere. */
export const taskAt = ({ name, at }: TaskSource, index: number): Task => {
  const task = at(index)
  if (E.isLeft(task)) throw new Error(`${name}: ${task.left.reason}`)
  return task.right
}

export const tasksOf = (source: TaskSource, count: number): readonly Task[] =>
  Array.from({ length: count }, (_, index) => taskAt(source, index))
