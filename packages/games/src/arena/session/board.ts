/** Games as events for trackers such as TensorBoard. */
import type { TrackedEvent } from '@tandem-rl/tracking'
import type { GameRecord } from '../matches/records.js'

/** The sum of a field over the moves of a seat. */
const sumOver = ({ moves }: GameRecord, seat: number, value: (move: GameRecord['moves'][number]) => number): number =>
  moves.reduce((sum, move) => sum + (move.player === seat ? value(move) : 0), 0)

/**
 * Returns the scalars of a finished game: for each player `Rewards/NAME`, `illegal/NAME` and
 * `latency_ms/NAME`. The step is the number of finished games.
 */
export const gameScalars = (record: GameRecord, step: number, at: number): TrackedEvent => ({
  type: 'scalars',
  at,
  step,
  seconds: {},
  values: Object.fromEntries(
    record.seats.flatMap((name, seat) => [
      ...(record.returns === null ? [] : [[`Rewards/${name}`, record.returns[seat]!]]),
      [`illegal/${name}`, sumOver(record, seat, ({ illegal }) => illegal.length)],
      [`latency_ms/${name}`, sumOver(record, seat, ({ latencyMs }) => latencyMs)],
    ]),
  ),
})
