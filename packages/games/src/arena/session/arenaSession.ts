/** Sessions of a tournament in a folder: opened, continued, and finished with a report. */
import { child, differingSettings, type Failure, type Files, keyFromSeed, type Locks, parseJson } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { type ArenaConfig, arenaConfig, configProblem } from '../config/schema.js'
import type { ArenaSetup } from '../config/setup.js'
import { openTournamentLog, type TournamentLog } from '../matches/log.js'
import type { GameRecord } from '../matches/records.js'
import { type ArenaReport, type MeasuredExploitability, renderArenaReport } from '../report/page.js'
import { measureExploitability } from '../statistics/exploitability.js'
import { arenaResults } from '../statistics/results.js'
import { gamesTable, movesTable } from './tables.js'

/** A folder that this process may write to. Call `release` once. */
export interface ArenaFolder {
  readonly path: string
  readonly log: TournamentLog
  readonly release: () => Promise<void>
}

/** The effects that sessions need. */
export interface SessionWorld {
  readonly files: Files
  readonly locks: Locks
}

/** Keys that may differ between sessions, because they do not change the games. */
const MAY_CHANGE: readonly string[] = [
  ...['num_episodes', 'parallel_episodes', 'log_level', 'tensorboard_logging', 'exploitability'],
  ...['llm_backend.timeout'],
]

const mayChange = (path: string): boolean =>
  MAY_CHANGE.some((each) => path === each || path.startsWith(`${each}.`)) ||
  /^agents\.player_\d+\.(price(\..*)?|max_requests_per_minute)$/.test(path)

const configPath = (folder: string): string => `${folder}/config.json`

/**
 * Reads the configuration of a folder. Returns `null` if the folder has none.
 *
 * Errors   `Left` if the file cannot be read, or is not a configuration.
 */
export const storedConfig = (folder: string, files: Files): TE.TaskEither<Failure, ArenaConfig | null> =>
  pipe(
    files.exists(configPath(folder)),
    TE.chain((exists) => (exists ? files.readText(configPath(folder)) : TE.right(null))),
    TE.mapLeft((failure): Failure => failure),
    TE.chainEitherK((text): E.Either<Failure, ArenaConfig | null> => {
      if (text === null) return E.right(null)
      const json = parseJson(text)
      return E.isLeft(json) ? E.left(configProblem(`${configPath(folder)}: ${json.left}`)) : arenaConfig(json.right)
    }),
  )

/** Refuses a configuration under which the games of the folder would have been others. */
const checkSame = (folder: string, before: ArenaConfig | null, now: ArenaConfig): E.Either<Failure, void> => {
  const changed = before === null ? [] : differingSettings(before, now).filter(({ path }) => !mayChange(path))
  if (changed.length === 0) return E.right(undefined)
  const list = changed.map(({ path, was, is }) => `${path} was ${JSON.stringify(was)}, and is ${JSON.stringify(is)}`)
  return E.left(
    configProblem(`${folder} has games of another configuration: ${list.join('; ')}. Choose another folder with --out`),
  )
}

/**
 * Opens a folder for a tournament, or continues the one in it.
 *
 * Errors   `Left` if another process plays there, if the folder has games of another configuration,
 *          or if its files cannot be read or written.
 */
export const openArena =
  (path: string, config: ArenaConfig, { files, locks }: SessionWorld): TE.TaskEither<Failure, ArenaFolder> =>
  async () => {
    const made = await files.makeFolder(path)()
    if (E.isLeft(made)) return made
    const lock = await locks.take(`${path}/lock`)()
    if (E.isLeft(lock)) return lock
    const opened: E.Either<Failure, TournamentLog> = await pipe(
      storedConfig(path, files),
      TE.chainEitherK((before) => checkSame(path, before, config)),
      TE.chainW(() => files.write(configPath(path), `${JSON.stringify(config, undefined, 2)}\n`)),
      TE.chainW(() => openTournamentLog(path, files)),
    )()
    if (E.isLeft(opened)) {
      await lock.right.release()
      return opened
    }
    return E.right({ path, log: opened.right, release: lock.right.release })
  }

/** Measures the players whose policy can be had in the games that are small enough. */
const measured = async (
  { config, games, players }: ArenaSetup,
  signal: AbortSignal,
): Promise<readonly MeasuredExploitability[]> => {
  const { samples, max_states } = config.exploitability
  const found: MeasuredExploitability[] = []
  for (const game of games)
    for (const player of players) {
      if (signal.aborted || (player.probabilities === undefined && samples === 0)) continue
      const options = { key: child(keyFromSeed(config.seed), 'exploitability'), maxStates: max_states, signal }
      const one = await measureExploitability(game, player, { ...options, samples: Math.max(1, samples) })()
      // A game that is too large, or a player that cannot play it, has no exploitability.
      if (E.isRight(one)) found.push({ game: game.name, player: player.name, ...one.right })
    }
  return found
}

/** The result of a finished session. */
export interface FinishedArena extends ArenaReport {
  readonly report: string
}

/**
 * Computes the results of all games so far, and writes `results.json`, `report.html`, and, if
 * hyparquet-writer is installed, `games.parquet` and `moves.parquet`.
 *
 * Errors   `Left` if a file cannot be written.
 */
export const finishArena =
  (
    folder: string,
    {
      setup,
      records,
      signal,
    }: { readonly setup: ArenaSetup; readonly records: readonly GameRecord[]; readonly signal: AbortSignal },
    files: Files,
  ): TE.TaskEither<Failure, FinishedArena> =>
  async () => {
    const { games, randomPlayers, prices, config } = setup
    const results = arenaResults(records, { games, randomPlayers, prices })
    const exploitability = await measured(setup, signal)
    const report = { games, records, results, exploitability, config }
    const tables = E.sequenceArray([await gamesTable(records)(), await movesTable(records)()])
    const writes: readonly TE.TaskEither<Failure, void>[] = [
      files.write(`${folder}/results.json`, `${JSON.stringify({ ...results, exploitability }, undefined, 2)}\n`),
      pipe(
        renderArenaReport(report, files),
        TE.chain((page) => files.write(`${folder}/report.html`, page)),
      ),
      ...(E.isRight(tables)
        ? [
            files.write(`${folder}/games.parquet`, tables.right[0]!),
            files.write(`${folder}/moves.parquet`, tables.right[1]!),
          ]
        : []),
    ]
    return pipe(
      TE.sequenceArray(writes),
      TE.map(
        (): FinishedArena => ({
          ...report,
          report: `${folder}/report.html`,
        }),
      ),
    )()
  }
