/** Finished games and their moves as Parquet files. */
import type { PackageFailure } from '@tandem-rl/base'
import { encodeParquet, type ParquetColumn } from '@tandem-rl/parquet'
import type * as TE from 'fp-ts/lib/TaskEither.js'
import type { GameRecord } from '../matches/records.js'

type Encoded = TE.TaskEither<PackageFailure, Uint8Array>

/** Makes columns of rows. */
const columnsOf =
  <R>(rows: readonly R[]) =>
  (name: string, type: ParquetColumn['type'], of: (row: R) => unknown): ParquetColumn => ({
    name,
    type,
    values: rows.map(of),
  })

/** Encodes one row for each game. */
export const gamesTable = (records: readonly GameRecord[]): Encoded => {
  const column = columnsOf(records)
  return encodeParquet([
    column('id', 'string', ({ id }) => id),
    column('game', 'string', ({ game }) => game),
    column('matchup', 'string', ({ matchup }) => matchup),
    column('episode', 'int32', ({ episode }) => episode),
    column('round', 'int32', ({ round }) => round),
    column('seats', { list: 'string' }, ({ seats }) => seats),
    column('end', 'string', ({ end }) => end),
    column('returns', { nullable: { list: 'float64' } }, ({ returns }) => returns),
    column('history', { list: 'int32' }, ({ history }) => history),
  ])
}

/** Encodes one row for each move of a player. */
export const movesTable = (records: readonly GameRecord[]): Encoded => {
  const rows = records.flatMap(({ id, seats, moves }) =>
    moves.map((move, decision) => ({ id, name: seats[move.player]!, decision, ...move })),
  )
  const column = columnsOf(rows)
  return encodeParquet([
    column('id', 'string', ({ id }) => id),
    column('decision', 'int32', ({ decision }) => decision),
    column('seat', 'int32', ({ player }) => player),
    column('player', 'string', ({ name }) => name),
    column('action', { nullable: 'int32' }, ({ action }) => action),
    column('text', 'string', ({ text }) => wellFormed(text)),
    column('by', 'string', ({ by }) => by),
    column('illegal', 'int32', ({ illegal }) => illegal.length),
    column('reply', { nullable: 'string' }, ({ reply }) => (reply === undefined ? null : wellFormed(reply))),
    column('reasoning', { nullable: 'string' }, ({ reasoning }) =>
      reasoning === undefined ? null : wellFormed(reasoning),
    ),
    column('prompt_tokens', { nullable: 'int32' }, ({ usage }) => usage?.promptTokens ?? null),
    column('completion_tokens', { nullable: 'int32' }, ({ usage }) => usage?.completionTokens ?? null),
    column('latency_ms', 'float64', ({ latencyMs }) => latencyMs),
  ])
}

/** Replaces halves of characters, which models may write and Parquet cannot store. */
const wellFormed = (text: string): string => text.replace(/\p{Surrogate}/gu, '\u{fffd}')
