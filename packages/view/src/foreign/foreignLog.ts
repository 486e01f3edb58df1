/** Logs of other programs as rollouts. */
import { type Failure, type Files, type Json, parseJsonAs } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { z } from 'zod'
import type { ViewedTurn } from './viewedTurn.js'

/** The rollouts of a log. */
export interface ForeignLog {
  readonly model: string | null
  readonly data: string | null
  /** The start in ISO format, or `null`. */
  readonly startedAt: string | null
  /** Further facts of the log, shown as settings. */
  readonly settings: Readonly<Record<string, Json>>
  readonly turns: readonly ViewedTurn[]
}

/** A log cannot be read. */
export interface ForeignLogFailure {
  readonly _tag: 'ForeignLogFailure'
  readonly format: string
  /** The file. */
  readonly where: string
  readonly reason: string
}

/** A reader of one format. */
export interface ForeignReader {
  /** The program and its format, such as `TRL completions`. */
  readonly format: string
  /** Checks the name of a file. */
  readonly hasName: (name: string) => boolean
  /** `file`: each file is a log. `folder`: the files of a folder are one log. */
  readonly unit: 'file' | 'folder'
  /** The start of the file, for names that other programs use too. Default: all files. */
  readonly startsWith?: string
  /**
   * Reads a log from its files, in the order of their names.
   *
   * Errors   `Left` that names the file, and the line or entry that is malformed.
   */
  readonly read: (files: Files, paths: readonly string[]) => TE.TaskEither<Failure, ForeignLog>
}

/** Makes the failure of a file. */
export const foreignFailure = (format: string, where: string, reason: string): ForeignLogFailure => ({
  _tag: 'ForeignLogFailure',
  format,
  where,
  reason,
})

/** Parses JSON lines. An incomplete last line is left out, because its writer may be active. */
export const parseForeignLines = <T>(
  format: string,
  { where, text, schema }: { readonly where: string; readonly text: string; readonly schema: z.ZodType<T> },
): E.Either<ForeignLogFailure, readonly T[]> => {
  const rows: T[] = []
  const lines = text.split('\n')
  for (const [i, line] of lines.entries()) {
    if (line === '') continue
    const parsed = parseJsonAs(schema, line)
    if (E.isRight(parsed)) rows.push(parsed.right)
    else if (i < lines.length - 1) return E.left(foreignFailure(format, where, `line ${i + 1}: ${parsed.left}`))
  }
  return E.right(rows)
}

/** Reads and converts the files of a log one after the other, and joins the results. */
export const readEach = <T>(
  paths: readonly string[],
  read: (path: string) => TE.TaskEither<Failure, readonly T[]>,
): TE.TaskEither<Failure, readonly T[]> =>
  TE.map((parts: readonly (readonly T[])[]) => parts.flat())(TE.traverseSeqArray(read)(paths))

/** Reads files of JSON lines, one row for each line. */
export const readLines = <T>(
  files: Files,
  paths: readonly string[],
  { format, schema }: { readonly format: string; readonly schema: z.ZodType<T> },
): TE.TaskEither<Failure, readonly T[]> =>
  readEach(paths, (path) =>
    pipe(
      files.readText(path),
      TE.chainEitherKW((text) => parseForeignLines(format, { where: path, text, schema })),
    ),
  )

/** Numbers each distinct text from 0, in order of first appearance. */
export const numbering = (): ((text: string) => number) => {
  const known = new Map<string, number>()
  return (text) => {
    const at = known.get(text) ?? known.size
    known.set(text, at)
    return at
  }
}

/** The fields of a turn that most logs do not have. */
export const NO_TOKENS = { logProbs: null, stopReason: null, policyVersion: null, failed: false } as const

/** Keeps the fields of a record that are numbers, except for some names. */
export const numbersOf = (
  record: Readonly<Record<string, unknown>>,
  except: ReadonlySet<string>,
): Readonly<Record<string, number>> =>
  Object.fromEntries(
    Object.entries(record).filter(
      (entry): entry is [string, number] => typeof entry[1] === 'number' && !except.has(entry[0]),
    ),
  )
