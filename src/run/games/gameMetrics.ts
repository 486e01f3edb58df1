/** Metrics of the games in a batch. */

import type { RowIdentity } from '../../data/batch.js'
import type { Data } from '../../data/tensorDict/leaf.js'
import { find, get, type TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { PlayedGame } from '../../envs/games/gameEnv.js'

/** Returns the games of a batch, as they stand after their last turn. */
export const playedGames = (batch: TensorDict): readonly PlayedGame[] => {
  const entry = find(batch, ['next', 'game'])
  if (entry === undefined || !('_tag' in entry) || entry._tag !== 'Data')
    throw new RangeError('playedGames: the batch has no games')
  const games = (entry as Data<PlayedGame>).items.toArray() // written by `GameEnv`
  const ids = get(batch as TensorDict<RowIdentity>, 'trajectoryId').items.toArray() // every collected batch has them
  const last = new Map(ids.map((id, row) => [id, games[row]!])) // rows of a trajectory are in order
  return [...last.values()]
}

const mean = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0) / Math.max(1, numbers.length)

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0)

/** The returns of `player` in games of the casts that are selected. */
const returnsIn = (games: readonly PlayedGame[], isSelected: (cast: readonly string[]) => boolean): readonly number[] =>
  games.flatMap(({ cast, returns }) =>
    returns === null || !isSelected(cast)
      ? []
      : cast.flatMap((each, seat) => (each === 'player' ? [returns[seat]!] : [])),
  )

/**
 * Returns metrics of the games in a batch, for the records of a run:
 *
 * - `firstReturn`: the mean return of seat 0
 * - `illegalMoves`: the share of replies that are illegal
 * - `forfeits`: the share of games that an illegal move ended
 * - `sameGame`: the share of games that are equal to the most frequent one, with the same cards
 * - `vsOthers`: the mean return of `player` in games with another player, if there are any
 * - `lossToPast`: what `player` loses on average in games with `past`, if there are any
 */
export const gameMetrics = (batch: TensorDict): Readonly<Record<string, number>> => {
  const games = playedGames(batch)
  const counts = new Map<string, number>()
  for (const { history } of games) counts.set(history.join(), (counts.get(history.join()) ?? 0) + 1)
  const vsOthers = returnsIn(games, (cast) => cast.some((each) => each !== 'player'))
  const vsPast = returnsIn(games, (cast) => cast.includes('past'))
  return {
    firstReturn: mean(games.flatMap(({ returns }) => (returns === null ? [] : [returns[0]!]))),
    illegalMoves:
      sum(games.flatMap(({ illegal }) => illegal)) / Math.max(1, sum(games.flatMap(({ replies }) => replies))),
    forfeits: mean(games.map(({ forfeit }) => (forfeit === null ? 0 : 1))),
    sameGame: Math.max(...counts.values()) / games.length,
    ...(vsOthers.length > 0 && { vsOthers: mean(vsOthers) }),
    ...(vsPast.length > 0 && { lossToPast: 0 - mean(vsPast) }),
  }
}
