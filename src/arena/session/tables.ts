/** Finished games and their moves as Parquet files. */
import type * as TE from 'fp-ts/lib/TaskEither.js'
import type { PackageFailure } from '../../data/codecs/optionalPackage.js'
import { encodeParquet, type ParquetColumn } from '../../data/codecs/parquetWrite.js'
import type { GameRecord } from '../matches/records.js'

type Encoded = TE.TaskEither<PackageFailure, Uint8Array>

const column = (name: string, type: ParquetColumn['type'], values: readonly unknown[]): ParquetColumn => ({
  name,
  type,
  values,
})

/** Encodes one row for each game. */
export const gamesTable = (records: readonly GameRecord[]): Encoded =>
  encodeParquet([
    column(
      'id',
      'string',
      records.map(({ id }) => id),
    ),
    column(
      'game',
      'string',
      records.map(({ game }) => game),
    ),
    column(
      'matchup',
      'string',
      records.map(({ matchup }) => matchup),
    ),
    column(
      'episode',
      'int32',
      records.map(({ episode }) => episode),
    ),
    column(
      'round',
      'int32',
      records.map(({ round }) => round),
    ),
    column(
      'seats',
      { list: 'string' },
      records.map(({ seats }) => seats),
    ),
    column(
      'end',
      'string',
      records.map(({ end }) => end),
    ),
    column(
      'returns',
      { nullable: { list: 'float64' } },
      records.map(({ returns }) => returns),
    ),
    column(
      'history',
      { list: 'int32' },
      records.map(({ history }) => history),
    ),
  ])

/** Encodes one row for each move of a player. */
export const movesTable = (records: readonly GameRecord[]): Encoded => {
  const rows = records.flatMap(({ id, seats, moves }) =>
    moves.map((move, decision) => ({ id, name: seats[move.player]!, decision, ...move })),
  )
  return encodeParquet([
    column(
      'id',
      'string',
      rows.map(({ id }) => id),
    ),
    column(
      'decision',
      'int32',
      rows.map(({ decision }) => decision),
    ),
    column(
      'seat',
      'int32',
      rows.map(({ player }) => player),
    ),
    column(
      'player',
      'string',
      rows.map(({ name }) => name),
    ),
    column(
      'action',
      { nullable: 'int32' },
      rows.map(({ action }) => action),
    ),
    column(
      'text',
      'string',
      rows.map(({ text }) => wellFormed(text)),
    ),
    column(
      'by',
      'string',
      rows.map(({ by }) => by),
    ),
    column(
      'illegal',
      'int32',
      rows.map(({ illegal }) => illegal.length),
    ),
    column(
      'reply',
      { nullable: 'string' },
      rows.map(({ reply }) => (reply === undefined ? null : wellFormed(reply))),
    ),
    column(
      'reasoning',
      { nullable: 'string' },
      rows.map(({ reasoning }) => (reasoning === undefined ? null : wellFormed(reasoning))),
    ),
    column(
      'prompt_tokens',
      { nullable: 'int32' },
      rows.map(({ usage }) => usage?.promptTokens ?? null),
    ),
    column(
      'completion_tokens',
      { nullable: 'int32' },
      rows.map(({ usage }) => usage?.completionTokens ?? null),
    ),
    column(
      'latency_ms',
      'float64',
      rows.map(({ latencyMs }) => latencyMs),
    ),
  ])
}

/** Replaces halves of characters, which models may write and Parquet cannot store. */
const wellFormed = (text: string): string => text.replace(/\p{Surrogate}/gu, '\u{fffd}')
