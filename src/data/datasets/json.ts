/** Rows of `.json` files: one array of them, or JSON Lines under that name. */
import {
  type ByteSource,
  collectJsonLines,
  describeIssues,
  type FileFailure,
  MOST_PROBLEMS,
  parseJson,
  pathed,
  type RowFailure,
  type RowProblem,
  roundedNumber,
  rowFailure,
} from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { z } from 'zod'

export interface JsonRowsOptions<T> {
  /** The schema of every row. Values are those that the schema returns. */
  readonly schema: z.ZodType<T>
  /**
   * Size limit of an array in bytes, because it is held in memory as a whole. Default 256 MiB.
   */
  readonly maxBytes?: number
}

/** Bytes at the start of a file that are searched for its first character. */
const HEAD = 4096

const OPENING = 0x5b // [
const SPACE = new Set([0x20, 0x09, 0x0a, 0x0d, 0xef, 0xbb, 0xbf]) // white space of JSON, and a byte order mark

const rowsOfArray = <T>(text: string, name: string, schema: z.ZodType<T>): E.Either<RowFailure, readonly T[]> => {
  const parsed = parseJson(text)
  if (E.isLeft(parsed)) return E.left(rowFailure(name, { first: { row: 1, reason: parsed.left } }))
  const rounded = roundedNumber(text)
  if (rounded !== undefined) {
    const [row, ...path] = rounded.path
    return E.left(
      rowFailure(name, { first: { row: Number(row ?? 0) + 1, reason: pathed(path, rounded.problem) }, unit: 'row' }),
    )
  }
  const values = parsed.right as readonly unknown[] // it begins with a bracket
  const rows: T[] = []
  const problems: RowProblem[] = []
  for (const [i, value] of values.entries()) {
    if (problems.length === MOST_PROBLEMS) break
    const row = schema.safeParse(value)
    if (row.success) rows.push(row.data)
    else problems.push({ row: i + 1, reason: describeIssues(row.error, value) })
  }
  const [first, ...others] = problems
  return first === undefined ? E.right(rows) : E.left(rowFailure(name, { first, others, unit: 'row' }))
}

const decode = (bytes: Uint8Array, name: string): E.Either<RowFailure, string> =>
  E.tryCatch(
    () => new TextDecoder('utf-8', { fatal: true }).decode(bytes),
    () => rowFailure(name, { first: { row: 1, reason: 'not UTF-8' } }),
  )

/**
 * Reads all rows of a `.json` file. A file whose first character is `[` is one array of rows, which
 * is read as a whole. Any other file is read as JSON Lines.
 *
 * Errors   `Left(RowFailure)` with the first bad row, counted from 1, and the others up to 100; for
 *          a text that is not JSON or not UTF-8; for an array of more than `maxBytes`, which should
 *          be JSON Lines or Parquet. `Left(FileFailure)` if the file cannot be read.
 * Effects  reads the source.
 */
export const collectJson = <T>(
  source: ByteSource,
  { schema, maxBytes = 2 ** 28 }: JsonRowsOptions<T>,
): TE.TaskEither<RowFailure | FileFailure, readonly T[]> =>
  pipe(
    source.read(0, Math.min(HEAD, source.size)),
    TE.chainW((head): TE.TaskEither<RowFailure | FileFailure, readonly T[]> => {
      if (head.find((byte) => !SPACE.has(byte)) !== OPENING) return collectJsonLines(source, { schema })
      if (source.size > maxBytes) {
        const reason = `an array of ${source.size} bytes, more than the ${maxBytes} that are allowed: write it as JSON Lines or Parquet`
        return TE.left(rowFailure(source.name, { first: { row: 1, reason } }))
      }
      return pipe(
        source.read(0, source.size),
        TE.chainEitherKW((bytes) => decode(bytes, source.name)),
        TE.chainEitherKW((text) => rowsOfArray(text, source.name, schema)),
      )
    }),
  )
