/** An append-only file of trajectories that survives crashes. */
import { type ByteSource, type FileFailure, type Files, readJsonLines } from '@tandem-rl/base'
import { fileBytes, liveFiles } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import type { TensorDict } from '../tensorDict/tensorDict.js'
import { encodeTrajectories, type TrajectoryFailure } from './trajectories.js'

/** The state of a log: an immutable value, replaced by every append. */
export interface TrajectoryLog {
  readonly path: string
  /** The number of complete batches, and their size in bytes. */
  readonly batches: number
  readonly wholeBytes: number
  /** The failure of a torn end, if any. Nothing can be appended until `cutTorn`. */
  readonly torn?: TrajectoryFailure
}

const headerLine = z.object({ _schema: z.object({ batchShape: z.array(z.number().int().nonnegative()).min(1) }) })

const failureAt = (kind: TrajectoryFailure['kind'], line: number, reason: string): TrajectoryFailure => ({
  _tag: 'TrajectoryFailure',
  kind,
  line,
  path: [],
  reason: `line ${line}: ${reason}`,
})

/** Counts complete batches by their headers, without reading their elements. */
const scan = async (
  path: string,
  source: ByteSource,
): Promise<E.Either<TrajectoryFailure | FileFailure, TrajectoryLog>> => {
  let [batches, wholeBytes, left, last] = [0, 0, 0, 0]
  let bad: { readonly row: number; readonly reason: string } | undefined
  for await (const row of readJsonLines(source, { schema: z.unknown() })) {
    if (bad !== undefined) return E.left(failureAt('damaged', bad.row, bad.reason))
    if (E.isLeft(row)) {
      if (row.left._tag === 'FileFailure') return E.left(row.left)
      bad = row.left
      continue
    }
    const { line, value, end } = row.right
    last = line
    if (left === 0) {
      const header = headerLine.safeParse(value)
      if (!header.success) return E.left(failureAt('damaged', line, 'expected a header, { "_schema": ... }'))
      left = header.data._schema.batchShape[0]!
    } else left -= 1
    if (left === 0) [batches, wholeBytes] = [batches + 1, end]
  }
  const whole = { path, batches, wholeBytes }
  if (bad !== undefined) return E.right({ ...whole, torn: failureAt('torn', bad.row, bad.reason) })
  if (left > 0)
    return E.right({
      ...whole,
      torn: failureAt('torn', last, `the file ends where ${left} more elements should follow`),
    })
  return E.right({ ...whole, wholeBytes: source.size }) // with the blank lines at its end, if any
}

/**
 * Opens a log. A missing file is an empty log.
 *
 * Errors   `Left(TrajectoryFailure)` for damage before the end, `Left(FileFailure)`. A torn end is
 *          not a failure: it is in `torn`.
 * Effects  reads the whole file, in pieces.
 */
export const openTrajectoryLog = (
  path: string,
  files: Files = liveFiles,
): TE.TaskEither<TrajectoryFailure | FileFailure, TrajectoryLog> =>
  pipe(
    files.exists(path),
    TE.chainW(
      (exists): TE.TaskEither<TrajectoryFailure | FileFailure, TrajectoryLog> =>
        exists
          ? pipe(
              fileBytes(path, files),
              TE.chainW((source) => () => scan(path, source)),
            )
          : TE.right({ path, batches: 0, wholeBytes: 0 }),
    ),
  )

/**
 * Appends a batch to a log, and returns the new log.
 *
 * Errors   `Left(TrajectoryFailure)` if the end of the file is torn, or if another process has
 *          written to the file since the log was opened; `Left(FileFailure)`, after which the file
 *          should be opened again. Throws TensorDictError as `encodeTrajectories` does.
 * Effects  appends to the file.
 */
export const appendTrajectories = (
  log: TrajectoryLog,
  batch: TensorDict,
  files: Files = liveFiles,
): TE.TaskEither<TrajectoryFailure | FileFailure, TrajectoryLog> => {
  if (log.torn !== undefined) return TE.left(log.torn)
  const text = encodeTrajectories(batch)
  return pipe(
    log.wholeBytes === 0
      ? TE.right('')
      : pipe(
          fileBytes(log.path, files),
          TE.chainW((source) => missingLineFeed(log, source)),
        ),
    TE.map((lineFeed) => lineFeed + text),
    TE.chainFirstW((lines) => files.append(log.path, lines)),
    TE.map((lines) => ({
      ...log,
      batches: log.batches + 1,
      wholeBytes: log.wholeBytes + new TextEncoder().encode(lines).length,
    })),
  )
}

/** Returns the line feed that the last line of a log lacks, or an empty text. */
const missingLineFeed = (
  log: TrajectoryLog,
  source: ByteSource,
): TE.TaskEither<TrajectoryFailure | FileFailure, string> =>
  source.size === log.wholeBytes
    ? pipe(
        source.read(source.size - 1, source.size),
        TE.map(([last]) => (last === 0x0a ? '' : '\n')),
      )
    : TE.left(
        failureAt(
          'damaged',
          0,
          `${log.path} has ${source.size} bytes, not the ${log.wholeBytes} it had when it was opened: open it anew`,
        ),
      )

/**
 * Removes the torn end, leaving the complete batches. Read the complete elements of the torn batch
 * before, with `salvageTrajectories`.
 *
 * Errors   `Left(FileFailure)`.
 * Effects  truncates the file, if its end is torn.
 */
export const cutTorn = (log: TrajectoryLog, files: Files = liveFiles): TE.TaskEither<FileFailure, TrajectoryLog> => {
  const { torn, ...whole } = log
  return torn === undefined
    ? TE.right(log)
    : pipe(
        files.truncate(log.path, log.wholeBytes),
        TE.map(() => whole),
      )
}
