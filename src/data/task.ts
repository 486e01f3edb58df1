/** Tasks and where they come from. A dataset is a task source: rows with an id, validated, in an order fixed by a key. */
import * as E from 'fp-ts/lib/Either.js'
import { child, type Key, permutation } from '../core/key.js'

/** One problem: what the policy is asked, and the reference answer as the dataset has it. */
export interface Task {
  /** Unique in its source. */
  readonly id: string
  readonly query: string
  readonly answer: string
}

/** A row that cannot be used: where it is and what is wrong with it. */
export interface RowFailure {
  readonly _tag: 'RowFailure'
  readonly source: string
  /** Counted from 1. */
  readonly row: number
  readonly reason: string
}

/** Rows by position. `at` is pure: the same index gives the same task, so that a run resumes by remembering a number. */
export interface TaskSource {
  readonly name: string
  /** How many rows there are; an endless source has a task at every index. */
  readonly size: number | 'endless'
  /** The task at `index`, counted from 0. Finite sources start again after the last row. */
  readonly at: (index: number) => E.Either<RowFailure, Task>
}

const checkIndex = (name: string, index: number): void => {
  if (!Number.isSafeInteger(index) || index < 0) {
    throw new RangeError(`${name}: task index must be a non-negative integer, got ${index}`)
  }
}

/**
 * A finite source over rows that are already validated.
 *
 * Errors   throws RangeError if there is no row, or (from `at`) for a negative or fractional index.
 */
export const taskList = (name: string, tasks: readonly Task[]): TaskSource => {
  if (tasks.length === 0) throw new RangeError(`taskList: source '${name}' has no rows`)
  return {
    name,
    size: tasks.length,
    at: (index) => {
      checkIndex(name, index)
      return E.right(tasks[index % tasks.length]!)
    },
  }
}

/** A source that makes its tasks: `make` must be pure. */
export const endlessTasks = (name: string, make: (index: number) => Task): TaskSource => ({
  name,
  size: 'endless',
  at: (index) => {
    checkIndex(name, index)
    return E.right(make(index))
  },
})

/**
 * The same rows in another order, which is a new permutation in every epoch. An endless source is returned as it is: its order
 * is random already.
 */
export const shuffled = (source: TaskSource, key: Key): TaskSource => {
  const { size } = source
  if (size === 'endless') return source
  const orders = new Map<number, Uint32Array>() // the last epoch asked for: a cache, not state
  const orderOf = (epoch: number): Uint32Array => {
    const known = orders.get(epoch)
    if (known !== undefined) return known
    const order = permutation(child(key, epoch), size)
    orders.clear()
    orders.set(epoch, order)
    return order
  }
  return {
    ...source,
    at: (index) => {
      checkIndex(source.name, index)
      return source.at(orderOf(Math.floor(index / size))[index % size]!)
    },
  }
}
