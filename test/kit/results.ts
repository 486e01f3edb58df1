/** Values and failures of tasks, for tests that know which it must be. */
import { requireLeft, requireRight } from '@tandem-rl/testing'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'

/** The value of a task that must succeed. */
export const rightOf = async <T>(task: TaskEither<unknown, T>): Promise<T> => requireRight(await task())

/** The failure of a task that must fail. */
export const leftOf = async <F>(task: TaskEither<F, unknown>): Promise<F> => requireLeft(await task())
