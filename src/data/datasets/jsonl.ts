/** JSON Lines: one JSON value on each line of a text. */
import * as E from 'fp-ts/lib/Either.js'
import type { z } from 'zod'
import type { RowFailure } from '../task.js'

export interface JsonLinesOptions<T> {
  /** What every row must be; the values are what the schema makes of them. */
  readonly schema: z.ZodType<T>
  /** The name that a failure gives, such as the path of the file. */
  readonly source: string
}

const BYTE_ORDER_MARK = '\uFEFF'

/** JSON's own white space, less the line feed that ends the line. The carriage return of CRLF is part of it. */
const BLANK = /^[ \t\r]*$/

const describeIssues = (error: z.ZodError): string =>
  error.issues
    .map(({ path, message }) => (path.length === 0 ? message : `${path.map(String).join('.')}: ${message}`))
    .join('; ')

const parseLine = <T>(line: string, schema: z.ZodType<T>): E.Either<string, T> => {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch (error) {
    return E.left(`not JSON: ${error instanceof Error ? error.message : String(error)}`)
  }
  const parsed = schema.safeParse(value)
  return parsed.success ? E.right(parsed.data) : E.left(describeIssues(parsed.error))
}

/**
 * The rows of a JSON Lines text, in order.
 *
 * A byte order mark at the start and CRLF line ends are accepted. Lines of white space hold no row, but they count: the row
 * number of a failure is the line number in the file.
 *
 * Errors   `Left(RowFailure)` for the first line that is not JSON or not what the schema asks for.
 * Effects  none: it reads no file.
 *
 * @example
 * parseJsonLines('{"n":1}\n{"n":2}\n', { schema: z.object({ n: z.number() }), source: 'a.jsonl' }) // right([{ n: 1 }, { n: 2 }])
 */
export const parseJsonLines = <T>(
  text: string,
  { schema, source }: JsonLinesOptions<T>,
): E.Either<RowFailure, readonly T[]> => {
  const lines = (text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text).split('\n')
  const rows: T[] = []
  for (const [index, line] of lines.entries()) {
    if (BLANK.test(line)) continue
    const row = parseLine(line, schema)
    if (E.isLeft(row)) return E.left({ _tag: 'RowFailure', source, row: index + 1, reason: row.left })
    rows.push(row.right)
  }
  return E.right(rows)
}
