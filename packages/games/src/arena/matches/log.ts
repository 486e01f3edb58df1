/** The log of a tournament: finished games and the moves of unfinished ones, as JSON lines. */
import { type FileFailure, type Files, type FormatFailure, parseJson } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { z } from 'zod'
import { type GameRecord, gameRecord, type MoveRecord, type PendingMove, pendingMove } from './records.js'

/** The paths of a tournament's log. */
export interface LogPaths {
  readonly games: string
  readonly pending: string
}

/** The contents of a log. */
export interface LogContents {
  readonly games: readonly GameRecord[]
  /** Moves of unfinished games by the id of the game, then by the number of the decision. */
  readonly pending: ReadonlyMap<string, ReadonlyMap<number, MoveRecord>>
}

/** Appends to a log, one write at a time. */
export interface TournamentLog {
  readonly contents: LogContents
  readonly addGame: (record: GameRecord) => Promise<E.Either<FileFailure, void>>
  readonly addMove: (move: PendingMove) => Promise<E.Either<FileFailure, void>>
}

type LogFailure = FileFailure | FormatFailure

/** Returns the names of the log's files in a folder. */
export const logPaths = (folder: string): LogPaths => ({
  games: `${folder}/games.jsonl`,
  pending: `${folder}/unfinished.jsonl`,
})

/**
 * Reads all lines of a file. A last line without a line feed, which a kill leaves behind, is
 * removed.
 */
const readLines = <S extends z.ZodType>(
  files: Files,
  path: string,
  schema: S,
): TE.TaskEither<LogFailure, readonly z.infer<S>[]> =>
  pipe(
    files.append(path, ''),
    TE.chain(() => files.readBytes(path)),
    TE.chainFirst((bytes) => {
      const whole = bytes.lastIndexOf(10) + 1
      return whole === bytes.length ? TE.right(undefined) : files.truncate(path, whole)
    }),
    TE.chainEitherKW((bytes) => {
      const text = new TextDecoder().decode(bytes.subarray(0, bytes.lastIndexOf(10) + 1))
      return E.traverseArray((line: { readonly text: string; readonly at: number }) => parseLine(path, schema, line))(
        text
          .split('\n')
          .slice(0, -1)
          .map((line, i) => ({ text: line, at: i + 1 })),
      )
    }),
  )

const parseLine = <S extends z.ZodType>(
  path: string,
  schema: S,
  { text, at }: { readonly text: string; readonly at: number },
): E.Either<FormatFailure, z.infer<S>> => {
  const fail = (reason: string): E.Either<FormatFailure, never> =>
    E.left({ _tag: 'FormatFailure', format: 'arena log', where: `${path}, line ${at}`, reason })
  const json = parseJson(text)
  if (E.isLeft(json)) return fail(json.left)
  const parsed = schema.safeParse(json.right)
  return parsed.success ? E.right(parsed.data) : fail('this is not a record of a game')
}

const byGame = (
  moves: readonly PendingMove[],
  finished: ReadonlySet<string>,
): ReadonlyMap<string, ReadonlyMap<number, MoveRecord>> => {
  const pending = new Map<string, Map<number, MoveRecord>>()
  for (const { id, decision, move } of moves) {
    if (finished.has(id)) continue
    const known = pending.get(id) ?? new Map<number, MoveRecord>()
    pending.set(id, known.set(decision, move))
  }
  return pending
}

/** Returns the finished games, each once. */
const onlyFirst = (games: readonly GameRecord[]): readonly GameRecord[] =>
  [...new Map(games.toReversed().map((game) => [game.id, game])).values()].toReversed()

/**
 * Opens the log of a folder, or starts one. Incomplete last lines are removed.
 *
 * Errors   `Left(FileFailure)`; `Left(FormatFailure)` with the line if a whole line is not a
 *          record.
 */
export const openTournamentLog = (folder: string, files: Files): TE.TaskEither<LogFailure, TournamentLog> => {
  const paths = logPaths(folder)
  /** Appends run one after the other, so that lines are never mixed. */
  let last: Promise<unknown> = Promise.resolve()
  const append = (path: string, value: unknown): Promise<E.Either<FileFailure, void>> => {
    const next = last.then(() => files.append(path, `${JSON.stringify(value)}\n`)())
    last = next
    return next
  }
  return pipe(
    files.makeFolder(folder),
    TE.chainW(() => readLines(files, paths.games, gameRecord)),
    TE.bindTo('games'),
    TE.bindW('moves', () => readLines(files, paths.pending, pendingMove)),
    TE.map(({ games, moves }) => ({
      contents: {
        games: onlyFirst(games),
        pending: byGame(moves, new Set(games.map(({ id }) => id))),
      },
      addGame: (record) => append(paths.games, record),
      addMove: (move) => append(paths.pending, move),
    })),
  )
}
