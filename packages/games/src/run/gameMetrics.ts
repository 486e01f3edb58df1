/** Metrics of the games in a batch. */
import type { RowIdentity } from 'tandem-rl'
import { findData, get, type TensorDict } from 'tandem-rl/tensordict'
import type { Game } from '../games/game.js'
import type { PlayedGame } from '../games/gameEnv.js'

/** Returns the games of a batch, as they stand after their last turn. */
const playedGames = (batch: TensorDict): readonly PlayedGame[] => {
  const games = findData<PlayedGame>(batch, ['next', 'game']) // written by `GameEnv`
  if (games === undefined) throw new RangeError('playedGames: the batch has no games')
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

/** Returns the actions of chance in a history: the cards or dice of the game. */
const drawsOf = <P>(game: Game<P>, history: readonly number[]): readonly number[] => {
  const draws: number[] = []
  let state = game.initial
  for (let at = 0; at < history.length; ) {
    const turn = game.turn(state)
    const size = turn === 'simultaneous' ? game.players : 1
    if (turn === 'chance') draws.push(history[at]!)
    state = game.apply(state, size === 1 ? history[at]! : history.slice(at, at + size))
    at += size
  }
  return draws
}

const countsOf = (names: readonly string[]): readonly number[] => {
  const counts = new Map<string, number>()
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1)
  return [...counts.values()]
}

/** Counts the ordered pairs of different elements in groups of the given sizes. */
const pairsIn = (sizes: readonly number[]): number => sum(sizes.map((size) => size * (size - 1)))

/** The share of equal histories among pairs of games with equal draws of chance. */
const sameGameOf = <P>(games: readonly PlayedGame[], game: Game<P> | undefined): number => {
  const draws = games.map(({ history }) => (game === undefined ? '' : drawsOf(game, history).join()))
  const pairs = pairsIn(countsOf(draws))
  return pairs === 0 ? 0 : pairsIn(countsOf(games.map(({ history }) => history.join()))) / pairs
}

/**
 * Returns metrics of the games in a batch, for the records of a run:
 *
 * - `firstReturn`: the mean return of seat 0
 * - `illegalMoves`: the share of replies that are illegal
 * - `forfeits`: the share of games that an illegal move ended
 * - `sameGame`: the probability that two games are equal if their cards or dice are: 1 if all games
 *   of a deal are the same. Without `game`, all cards count as equal.
 * - `vsOthers`: the mean return of `player` in games with another player, if there are any
 * - `lossToPast`: what `player` loses on average in games with `past`, if there are any
 */
export const gameMetrics = <P>(batch: TensorDict, game?: Game<P>): Readonly<Record<string, number>> => {
  const games = playedGames(batch)
  const vsOthers = returnsIn(games, (cast) => cast.some((each) => each !== 'player'))
  const vsPast = returnsIn(games, (cast) => cast.includes('past'))
  return {
    firstReturn: mean(games.flatMap(({ returns }) => (returns === null ? [] : [returns[0]!]))),
    illegalMoves:
      sum(games.flatMap(({ illegal }) => illegal)) / Math.max(1, sum(games.flatMap(({ replies }) => replies))),
    forfeits: mean(games.map(({ forfeit }) => (forfeit === null ? 0 : 1))),
    sameGame: sameGameOf(games, game),
    ...(vsOthers.length > 0 && { vsOthers: mean(vsOthers) }),
    ...(vsPast.length > 0 && { lossToPast: 0 - mean(vsPast) }),
  }
}
