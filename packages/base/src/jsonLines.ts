/** JSON Lines: one JSON value on each line of a text, or of a file of any size. */
import * as E from 'fp-ts/lib/Either.js'
import type { ByteSource } from './byteSource.js'
import type { FileFailure } from './failure.js'
import { joinBytes } from './joinBytes.js'
import { parseJson } from './json.js'
import type { RowFailure, RowProblem } from './rowFailure.js'
import { rowFailure } from './rowFailure.js'
import type { Issues, Schema } from './schemaJson.js'
import { roundedNumber } from './strictJson.js'
import { visibleLine } from './visibleText.js'

export interface JsonLinesOptions<T> {
  /** The schema of every row. It also transforms the values. */
  readonly schema: Schema<T>
  /** The name for failures, such as the path of the file. */
  readonly source: string
}

const BYTE_ORDER_MARK = '\uFEFF'

/**
 * JSON's white space without the line feed that ends the line. It includes the carriage return of
 * CRLF.
 */
const BLANK = /^[ \t\r]*$/

/** The number of bad rows after which reading stops. */
export const MOST_PROBLEMS = 100

/** Puts the path of a problem in front of it. */
export const pathed = (path: readonly PropertyKey[], problem: string): string =>
  path.length === 0 ? problem : `${path.map(String).join('.')}: ${problem}`

/** Most fields of a row that are named. */
const NAMED_FIELDS = 12

/** Formats all issues of a row in one sentence, with the fields of the row if one is missing. */
export const describeIssues = (error: Issues, row: unknown): string => {
  const problems = error.issues.map(({ path, message }) => pathed(path, message)).join('; ')
  const fields = typeof row === 'object' && row !== null ? Object.keys(row) : []
  const isMissing = error.issues.some(({ path }) => path.length === 1 && !fields.includes(String(path[0])))
  if (!isMissing || fields.length === 0) return problems
  const more = fields.length > NAMED_FIELDS ? ', ...' : ''
  return `${problems}; the row has ${visibleLine(fields.slice(0, NAMED_FIELDS).join(', ')).slice(0, 400)}${more}`
}

const parseLine = <T>(line: string, schema: Schema<T>): E.Either<string, T> => {
  const json = parseJson(line)
  if (E.isLeft(json)) return json
  const rounded = roundedNumber(line)
  if (rounded !== undefined) return E.left(pathed(rounded.path, rounded.problem))
  const parsed = schema.safeParse(json.right)
  return parsed.success ? E.right(parsed.data) : E.left(describeIssues(parsed.error, json.right))
}

/**
 * Reads the rows of a JSON Lines text, in order.
 *
 * A byte order mark at the start and CRLF line ends are accepted. Lines of white space hold no row,
 * but they count: the row number of a failure is the line number in the file.
 *
 * Errors   `Left(RowFailure)` for the lines that are not JSON, that have an integer beyond 2^53
 *          that a number rounds, or that the schema refuses: the first, and the others up to 100.
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
  const problems: RowProblem[] = []
  for (const [index, line] of lines.entries()) {
    if (problems.length === MOST_PROBLEMS) break
    if (BLANK.test(line)) continue
    const row = parseLine(line, schema)
    if (E.isLeft(row)) problems.push({ row: index + 1, reason: row.left })
    else rows.push(row.right)
  }
  const [first, ...others] = problems
  return first === undefined ? E.right(rows) : E.left(rowFailure(source, { first, others }))
}

/** A row of a file with its line number, counted from 1. */
export interface NumberedRow<T> {
  readonly line: number
  readonly value: T
  /** The number of bytes of the file up to the end of the line, including its line feed. */
  readonly end: number
}

export interface ReadJsonLinesOptions<T> extends Pick<JsonLinesOptions<T>, 'schema'> {
  /** The number of bytes per read. Default 1 MiB. */
  readonly chunkBytes?: number
  /**
   * The maximum length of a line. A longer line is a failure, and is not kept in memory. Default
   * 256 MiB.
   */
  readonly maxLineBytes?: number
}

/** A raw line of a file: its bytes, or only its length if it is too long. */
interface RawLine {
  readonly bytes: Uint8Array | undefined
  readonly length: number
  /** False for a last line without a line feed. */
  readonly isWhole: boolean
  /** The position of its end in the file, including its line feed. */
  readonly end: number
}

const LINE_FEED = 0x0a

/** Splits a source at line feeds, with at most a line and a chunk in memory. */
async function* rawLines(
  source: ByteSource,
  { chunkBytes, maxLineBytes }: { readonly chunkBytes: number; readonly maxLineBytes: number },
): AsyncGenerator<E.Either<FileFailure, RawLine>> {
  let parts: Uint8Array[] = []
  let length = 0
  const add = (part: Uint8Array): void => {
    length += part.length
    if (length > maxLineBytes) parts = []
    else if (part.length > 0) parts.push(part)
  }
  const lineTo = (end: number, ending: 'line feed' | 'end of file'): RawLine => {
    const line = {
      bytes: length > maxLineBytes ? undefined : joinBytes(parts),
      length,
      isWhole: ending === 'line feed',
      end,
    }
    parts = []
    length = 0
    return line
  }
  for (let start = 0; start < source.size; start += chunkBytes) {
    const chunk = await source.read(start, Math.min(start + chunkBytes, source.size))()
    if (E.isLeft(chunk)) {
      yield chunk
      return
    }
    let from = 0
    for (let at = chunk.right.indexOf(LINE_FEED); at >= 0; at = chunk.right.indexOf(LINE_FEED, from)) {
      add(chunk.right.subarray(from, at))
      from = at + 1
      yield E.right(lineTo(start + from, 'line feed'))
    }
    add(chunk.right.subarray(from))
  }
  if (length > 0) yield E.right(lineTo(source.size, 'end of file'))
}

const decodeLine = ({ bytes, length, isWhole }: RawLine, limit: number): E.Either<string, string> => {
  if (bytes === undefined) return E.left(`the line has ${length} bytes, more than the ${limit} that are allowed`)
  try {
    return E.right(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes))
  } catch {
    return E.left(isWhole ? 'not UTF-8' : `not UTF-8: the last line is cut off after ${length} bytes`)
  }
}

/**
 * Reads the rows of a JSON Lines file of any size one after the other, each with its line number.
 *
 * A bad line is a `Left` in its place, and reading continues after it, so no row is lost. A
 * truncated last line is such a `Left`, and its reason mentions the truncation. Byte order mark,
 * CRLF and lines of white space are treated as in `parseJsonLines`.
 *
 * Errors   yields `Left(RowFailure)` for a line that is not UTF-8, not JSON, refused by the schema,
 *          or too long, or that has an integer beyond 2^53 that a number rounds; yields
 *          `Left(FileFailure)` and ends if the file cannot be read further. Throws RangeError for a
 *          limit that is not a positive integer.
 * Effects  reads the source.
 * Cost     linear; memory for a chunk and a line.
 */
export async function* readJsonLines<T>(
  source: ByteSource,
  options: ReadJsonLinesOptions<T>,
): AsyncGenerator<E.Either<RowFailure | FileFailure, NumberedRow<T>>> {
  const { schema, chunkBytes = 2 ** 20, maxLineBytes = 2 ** 28 } = options
  for (const [name, limit] of Object.entries({ chunkBytes, maxLineBytes })) {
    if (!Number.isSafeInteger(limit) || limit < 1) {
      throw new RangeError(`readJsonLines: ${name} must be a positive integer, got ${limit}`)
    }
  }
  let line = 0
  for await (const raw of rawLines(source, { chunkBytes, maxLineBytes })) {
    if (E.isLeft(raw)) {
      yield raw
      return
    }
    line += 1
    const fail = (reason: string): E.Either<RowFailure, never> =>
      E.left(rowFailure(source.name, { first: { row: line, reason } }))
    const decoded = decodeLine(raw.right, maxLineBytes)
    if (E.isLeft(decoded)) {
      yield fail(decoded.left)
      continue
    }
    const text = line === 1 && decoded.right.startsWith(BYTE_ORDER_MARK) ? decoded.right.slice(1) : decoded.right
    if (BLANK.test(text)) continue
    const row = parseLine(text, schema)
    if (E.isRight(row)) yield E.right({ line, value: row.right, end: raw.right.end })
    else
      yield fail(
        raw.right.isWhole
          ? row.left
          : `${row.left}; it is the last line, and no line feed ends it: the file may be cut off`,
      )
  }
}

/**
 * Reads all rows of a JSON Lines file of any size.
 *
 * Errors   `Left(RowFailure)` with the first bad line and the others up to 100, `Left(FileFailure)`
 *          if the file cannot be read.
 * Effects  reads the source.
 */
export const collectJsonLines =
  <T>(source: ByteSource, options: ReadJsonLinesOptions<T>) =>
  async (): Promise<E.Either<RowFailure | FileFailure, readonly T[]>> => {
    const rows: T[] = []
    const problems: RowProblem[] = []
    for await (const row of readJsonLines(source, options)) {
      if (E.isRight(row)) rows.push(row.right.value)
      else if (row.left._tag === 'FileFailure') return E.left(row.left)
      else problems.push({ row: row.left.row, reason: row.left.reason })
      if (problems.length === MOST_PROBLEMS) break
    }
    const [first, ...others] = problems
    return first === undefined ? E.right(rows) : E.left(rowFailure(source.name, { first, others }))
  }
