/** Values and failures of tasks, for tests that know which it must be. */
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'

/** The value of a task that must succeed. */
export const rightOf = async <T>(task: TaskEither<unknown, T>): Promise<T> => {
  const result = await task()
  if (result._tag === 'Left') throw new Error(`expected a value, got the failure ${JSON.stringify(result.left)}`)
  return result.right
}

/** The failure of a task that must fail. */
export const leftOf = async <F>(task: TaskEither<F, unknown>): Promise<F> => {
  const result = await task()
  if (result._tag === 'Right') throw new Error('expected a failure, got a value')
  return result.left
}
