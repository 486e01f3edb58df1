/** Failures of rows that cannot be used. */

/** A row that cannot be used, with all its problems. */
export interface RowProblem {
  /** Counted from 1. */
  readonly row: number
  readonly reason: string
}

/** A failure of rows that cannot be used: the first of them, and the others that were found. */
export interface RowFailure extends RowProblem {
  readonly _tag: 'RowFailure'
  readonly source: string
  /** The unit that `row` counts. Default: lines of a text. */
  readonly unit?: 'row'
  readonly others?: readonly RowProblem[]
  /** The source and the row in words: `train.jsonl, line 3`. */
  readonly where: string
}

/** The maximum number of bad rows in one message. */
const QUOTED = 3

/** Creates the failure of some rows, with the first of them in front. */
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
    where: `${source}, ${unit ?? 'line'} ${first.row}`,
    reason: others.length === 0 ? first.reason : `${first.reason} (also ${quoted.join(', ')}${rest})`,
    ...(unit !== undefined && { unit }),
    ...(others.length > 0 && { others }),
  }
}
