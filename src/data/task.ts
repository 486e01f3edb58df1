/**
 * Tasks and their sources. A dataset is a task source: validated rows with an id, in an order fixed
 * by a key.
 */
import { child, type Key, permutation, type RowFailure } from '@tandem-rl/base'
import type { Task } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'

/** A task with its dataset row. */
export interface RowTask<out Row> extends Task {
  readonly row: Row
}

/**
 * Rows by index. `at` is pure: the same index gives the same row, so a run resumes from a number
 * alone.
 */
export interface RowSource<out Row> {
  readonly name: string
  /** The number of rows. An endless source has a row at every index. */
  readonly size: number | 'endless'
  /** Returns the row at `index`, counted from 0. Finite sources start again after the last row. */
  readonly at: (index: number) => E.Either<RowFailure, Row>
}

/** Rows of any columns, each with an id. */
export type IdentifiedRows = RowSource<{ readonly id: string }>

/** Tasks by index. */
export type TaskSource<T extends Task = Task> = RowSource<T>

const checkIndex = (name: string, index: number): void => {
  if (!Number.isSafeInteger(index) || index < 0) {
    throw new RangeError(`${name}: task index must be a non-negative integer, got ${index}`)
  }
}

/** Creates a source over these rows, which starts again after the last. */
const cycled = <Row>(name: string, rows: readonly Row[]): RowSource<Row> => ({
  name,
  size: rows.length,
  at: (index) => {
    checkIndex(name, index)
    return E.right(rows[index % rows.length]!) // rows are not empty
  },
})

/** A row with an id as text. */
export type IdentifiedRow<R> = Readonly<Omit<R, 'id'>> & { readonly id: string }

/**
 * Creates a finite source over rows of any columns, such as rows of token ids. A row's `id` is its
 * own, as text, or the name of the source and its index.
 *
 * Errors   throws RangeError if `rows` is empty, if a row is not a record, or if an id is neither a
 *          string nor a number; and (from `at`) for a negative or fractional index.
 *
 * @example
 * orThrow(rowList('ids', [{ input_ids: [1, 2] }]).at(0)) // { input_ids: [1, 2], id: 'ids-0' }
 */
export const rowList = <R extends object>(name: string, rows: readonly R[]): RowSource<IdentifiedRow<R>> => {
  if (rows.length === 0) throw new RangeError(`rowList: source '${name}' has no rows`)
  const identified = rows.map((row, i) => {
    if (typeof row !== 'object' || row === null || Array.isArray(row))
      throw new RangeError(`rowList: source '${name}': row ${i + 1} must be a record`)
    const { id = `${name}-${i}` } = row as { readonly id?: unknown } // rows of any columns
    if (typeof id !== 'string' && typeof id !== 'number')
      throw new RangeError(
        `rowList: source '${name}': the id of row ${i + 1} must be a string or a number, got ${typeof id}`,
      )
    return { ...row, id: String(id) } as IdentifiedRow<R> // the row with this id
  })
  return cycled(name, identified)
}

/**
 * A row as a caller writes it: a question, optionally an id and an answer, and any other fields.
 */
export interface PlainTask {
  readonly id?: string
  readonly query: string
  readonly answer?: string
}

/** The task of a row: its fields, with an id and an answer. */
export type TaskOf<R extends PlainTask> = R extends Task ? R : Task & Readonly<Omit<R, keyof Task>>

/**
 * Creates a finite source of rows. A missing `id` becomes the name of the source and the index, and
 * a missing `answer` an empty text. Other fields are kept for rewards.
 *
 * Errors   throws RangeError, with the invalid rows, if there are no rows, or a query, id or answer
 *          is not a string; `at` throws it for a negative or fractional index.
 *
 * @example
 * orThrow(taskList('sums', [{ query: 'What is 2 + 2?', answer: '4', level: 1 }]).at(0)) // { id: 'sums-0', query: 'What is 2 + 2?', answer: '4', level: 1 }
 */
export const taskList = <R extends PlainTask>(name: string, rows: readonly R[]): TaskSource<TaskOf<R>> => {
  if (rows.length === 0) throw new RangeError(`taskList: source '${name}' has no rows`)
  const tasks = rows.map((row, i) => ({ ...row, id: row.id ?? `${name}-${i}`, answer: row.answer ?? '' }))
  const wrong = tasks.flatMap((task: Readonly<Record<keyof Task, unknown>>, i) =>
    (['id', 'query', 'answer'] as const).flatMap((field) =>
      typeof task[field] === 'string' ? [] : [`row ${i + 1}: ${field} must be a string, got ${typeof task[field]}`],
    ),
  )
  if (wrong.length > 0) throw new RangeError(`taskList: source '${name}': ${wrong.slice(0, 5).join('; ')}`)
  return cycled(name, tasks as unknown as readonly TaskOf<R>[]) // the rows, with ids and answers
}

/** Creates a source that computes its tasks. `make` must be pure. */
export const endlessTasks = <T extends Task>(name: string, make: (index: number) => T): TaskSource<T> => ({
  name,
  size: 'endless',
  at: (index) => {
    checkIndex(name, index)
    return E.right(make(index))
  },
})

/**
 * Shuffles a source, with a new permutation in every epoch. An endless source is returned
 * unchanged: its order is random already.
 */
export const shuffled = <Row>(source: RowSource<Row>, key: Key): RowSource<Row> => {
  const { size } = source
  if (size === 'endless') return source
  const orders = new Map<number, Uint32Array>() // the last requested epoch: a cache, not state
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
