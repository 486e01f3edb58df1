/** Conversion of rows to tasks, shared by all datasets. */
import { type RowFailure, rowFailure } from '@tandem-rl/base'
import type { Task } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { type RowTask, type TaskSource, taskList } from '../task.js'

/** The schema of a data set, and the conversion of a row to a task. */
export interface DatasetFormat<in out Row, out T extends Task> {
  /** The default name of sources. */
  readonly name: string
  readonly schema: z.ZodType<Row>
  /** Converts a row. Pure; `id` is the task's id. */
  readonly task: (row: Row, id: string) => T
}

/** A row of a data set: its columns by name. */
export type PlainRow = Readonly<Record<string, unknown>>

/** An answer as text. Data sets may contain numbers and booleans. */
const answerText = z.union([z.string(), z.number().transform(String), z.boolean().transform(String)])

/** A row of any columns that has a `query` and, if it has one, an `answer`. */
export interface QueryRow {
  readonly query: string
  readonly answer: string
  /** All columns of the row. */
  readonly columns: PlainRow
}

const queryRow: z.ZodType<QueryRow> = z
  .looseObject({ query: z.string().regex(/\S/, 'must not be empty'), answer: answerText.default('') })
  .transform(({ query, answer, ...columns }) => ({ query, answer, columns: { ...columns, query, answer } }))

/**
 * Rows of any data set: `query` is the query, `answer` the answer as text (empty without one), and
 * every column stays in `row`. Other column names are mapped by `withColumns(ROWS, { query:
 * 'problem', answer: 'solution' })`.
 */
export const ROWS: DatasetFormat<QueryRow, RowTask<PlainRow>> = {
  name: 'rows',
  schema: queryRow,
  task: ({ query, answer, columns }, id) => ({ id, query, answer, row: columns }),
}

/** The column of a data set that holds each field of a format: `{ question: 'problem' }`. */
export type Columns = Readonly<Record<string, string>>

const isRow = (value: unknown): value is PlainRow =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The maximum number of columns in an error message. */
const LISTED = 10

/**
 * Returns a format that reads its fields from other columns: `withColumns(GSM8K, { question:
 * 'problem' })` reads rows with `problem` and `answer`. Unlisted fields keep their column, and the
 * row keeps every column.
 *
 * Errors   when rows are read: a row without such a column is refused, with the columns that it
 *          has.
 *
 * @example
 * withColumns(ROWS, { query: 'problem' }).schema.parse({ problem: '2 + 2?', answer: 4 }).query // '2 + 2?'
 */
export const withColumns = <Row, T extends Task>(
  format: DatasetFormat<Row, T>,
  columns: Columns,
): DatasetFormat<Row, T> => ({
  ...format,
  schema: z.preprocess((row, context) => {
    if (!isRow(row)) return row
    const mapped = Object.entries(columns).filter(([field, column]) => field !== column)
    const missing = mapped.filter(([, column]) => !Object.hasOwn(row, column))
    for (const [field, column] of missing) {
      const names = Object.keys(row)
      const list = `${names.slice(0, LISTED).join(', ')}${names.length > LISTED ? ' ...' : ''}`
      const message = `missing column '${column}' for '${field}': the row has ${list}`
      context.issues.push({ code: 'custom', message, input: row })
    }
    return missing.length > 0
      ? z.NEVER
      : { ...row, ...Object.fromEntries(mapped.map(([field, column]) => [field, row[column]])) }
  }, format.schema),
})

/**
 * Creates a task source over validated rows. A task's id is the name of the source and its index,
 * counted from 0.
 *
 * Errors   `Left(RowFailure)` if `rows` is empty.
 * Effects  none.
 */
export const tasksOfRows = <Row, T extends Task>(
  name: string,
  rows: readonly Row[],
  format: DatasetFormat<Row, T>,
): E.Either<RowFailure, TaskSource<T>> =>
  rows.length === 0
    ? E.left(rowFailure(name, { first: { row: 1, reason: 'no rows' } }))
    : E.right(
        taskList(
          name,
          rows.map((row, index) => format.task(row, `${name}-${index}`)),
        ) as TaskSource<T>, // tasks have the fields that rows may omit
      )
