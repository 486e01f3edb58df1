/** From rows to tasks: what every dataset does in the same way. */
import * as E from 'fp-ts/lib/Either.js'
import type { z } from 'zod'
import { type RowFailure, type RowProblem, type Task, type TaskSource, taskList } from '../task.js'

/** How the rows of a dataset look, and what task a row is. */
export interface DatasetFormat<in out Row, out T extends Task> {
  /** The name that sources get if nobody gives them one. */
  readonly name: string
  readonly schema: z.ZodType<Row>
  /** Pure. `id` is the task's. */
  readonly task: (row: Row, id: string) => T
}

/** Bad rows that are quoted in one sentence. */
const QUOTED = 3

/** The failure of some rows, with the first of them in front. */
export const rowFailure = (
  source: string,
  {
    first,
    others = [],
    unit,
  }: {
    readonly first: RowProblem
    readonly others?: readonly RowProblem[]
    readonly unit?: 'row'
  },
): RowFailure => {
  const quoted = others.slice(0, QUOTED).map(({ row, reason }) => `${unit ?? 'line'} ${row}: ${reason}`)
  const rest = others.length > QUOTED ? `, and ${others.length - QUOTED} more` : ''
  return {
    _tag: 'RowFailure',
    source,
    row: first.row,
    reason: others.length === 0 ? first.reason : `${first.reason} (also ${quoted.join(', ')}${rest})`,
    ...(unit !== undefined && { unit }),
    ...(others.length > 0 && { others }),
  }
}

/**
 * A task source over rows that fit their schema. A task's id is the name of the source and its index, counted from 0.
 *
 * Errors   `Left(RowFailure)` if there is no row.
 * Effects  none.
 */
export const tasksOfRows = <Row, T extends Task>(
  name: string,
  rows: readonly Row[],
  format: DatasetFormat<Row, T>,
): E.Either<RowFailure, TaskSource<T>> =>
  rows.length === 0
    ? E.left(rowFailure(name, { first: { row: 1, reason: 'there are no rows' } }))
    : E.right(
        taskList(
          name,
          rows.map((row, index) => format.task(row, `${name}-${index}`)),
        ) as TaskSource<T>, // tasks have all that a row may lack
      )
