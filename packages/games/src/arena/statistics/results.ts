/**
 * The results of a tournament: players, seats, pairs, ratings, illegal moves, cost, and tests
 * against random play.
 */
import { checkOptions, type Interval, meanInterval, median, quantile } from '@tandem-rl/base'
import type { Game } from '../../games/game.js'
import { ARENA_RESULTS_OPTIONS } from '../../optionKinds.js'
import type { GameRecord, MoveRecord } from '../matches/records.js'
import { binomialTest, groupedShare } from './intervals.js'
import { groupBy, outcomeOf, type PairScore, pairScores, type ScoredGame, scoredGames, scoreOf } from './outcomes.js'
import { type RandomBaseline, randomBaseline } from './randomPlay.js'
import { type Rating, ratingsOf } from './ratings.js'

/** The price of a model in US dollars for a million tokens. */
export interface TokenPrice {
  readonly input: number
  readonly output: number
}

/**
 * Wins, draws and losses. `winShare` has Wilson's interval, widened for games with the same cards;
 * `score` counts draws as half.
 */
export interface Tally {
  readonly games: number
  readonly wins: number
  readonly draws: number
  readonly losses: number
  readonly winShare: Interval
  readonly score: number
}

/** The moves of a player. */
export interface MoveTally {
  readonly moves: number
  /** Illegal moves, retries included. */
  readonly illegal: number
  /** Random moves that were played in place of illegal ones. */
  readonly fallbacks: number
  /** Games that the player forfeited by an illegal move. */
  readonly forfeits: number
  readonly promptTokens: number
  readonly completionTokens: number
  /** In US dollars. `null` without a price. */
  readonly cost: number | null
  /** Per move, in ms. */
  readonly latency: { readonly median: number; readonly p95: number }
}

/** The wins of a player against random play, if all others of its games play at random. */
export interface RandomTest {
  readonly games: number
  readonly wins: number
  /** The wins that a random player would have on average on the same seats. */
  readonly expected: number
  /** The exact probability of a result at least as unlikely, if the player were random. */
  readonly p: number
}

/** A player in one game. */
export interface PlayerResult extends Tally, MoveTally {
  readonly name: string
  readonly meanReturn: number
  /** By seat. */
  readonly seats: readonly Tally[]
  readonly againstRandom: RandomTest | null
}

/** Two players in one game. */
export interface PairResult {
  readonly a: string
  readonly b: string
  readonly games: number
  readonly rounds: number
  /** The mean score of `a` minus that of `b`: from -1 to 1. The interval is over rounds. */
  readonly difference: Interval
}

/** All that was played of one game. */
export interface GameResult {
  readonly game: string
  readonly games: number
  readonly truncated: number
  readonly players: readonly PlayerResult[]
  readonly pairs: readonly PairResult[]
  /** The scores of each seat, whoever sat there: the effect of the seat. */
  readonly seats: readonly Tally[]
  readonly random: RandomBaseline
}

export interface ArenaResults {
  readonly games: readonly GameResult[]
  /** Over all games, the best first. */
  readonly ratings: readonly Rating[]
}

export interface ResultsOptions {
  readonly games: readonly Game[]
  /** Names of the players that move at random. Default `['random']`. */
  readonly randomPlayers?: readonly string[]
  /** By the name of the player. */
  readonly prices?: Readonly<Record<string, TokenPrice>>
}

/** A seat in a game. */
interface Seat {
  readonly game: ScoredGame
  readonly seat: number
}

const tallyOf = (seats: readonly Seat[]): Tally => {
  const outcomes = seats.map(({ game, seat }) => outcomeOf(game.returns, seat))
  const count = (outcome: string): number => outcomes.filter((each) => each === outcome).length
  const [games, wins] = [seats.length, count('win')]
  const score = seats.reduce((sum, { game, seat }) => sum + scoreOf(game.returns, seat), 0) / Math.max(1, games)
  // Games of a round have the same cards.
  const rounds = [...groupBy(seats, ({ game }) => String(game.round)).values()]
  const winShare = groupedShare(
    rounds.map((round) => round.map(({ game, seat }) => (outcomeOf(game.returns, seat) === 'win' ? 1 : 0))),
  )
  return { games, wins, draws: count('draw'), losses: count('loss'), winShare, score }
}

const sumOf = (moves: readonly MoveRecord[], value: (move: MoveRecord) => number): number =>
  moves.reduce((sum, move) => sum + value(move), 0)

const moveTallyOf = (moves: readonly MoveRecord[], price: TokenPrice | undefined): MoveTally => {
  const promptTokens = sumOf(moves, ({ usage }) => usage?.promptTokens ?? 0)
  const completionTokens = sumOf(moves, ({ usage }) => usage?.completionTokens ?? 0)
  const times = moves.length === 0 ? [0] : moves.map(({ latencyMs }) => latencyMs)
  return {
    moves: moves.length,
    illegal: sumOf(moves, ({ illegal }) => illegal.length),
    fallbacks: moves.filter(({ by }) => by === 'fallback').length,
    forfeits: moves.filter(({ by }) => by === 'forfeit').length,
    promptTokens,
    completionTokens,
    cost: price === undefined ? null : (promptTokens * price.input + completionTokens * price.output) / 1e6,
    latency: { median: median(times), p95: quantile(times, 0.95) },
  }
}

/** Tests the wins of a player in games in which all others play at random. */
const randomTest = (
  seats: readonly Seat[],
  { seats: baseline }: RandomBaseline,
  randomPlayers: readonly string[],
): RandomTest | null => {
  const fair = seats.filter(({ game, seat }) =>
    game.seats.every((name, i) => (i === seat) !== randomPlayers.includes(name)),
  )
  if (fair.length === 0) return null
  const groups = [...groupBy(fair, ({ seat }) => String(seat)).values()].map((group) => ({
    trials: group.length,
    probability: baseline[group[0]!.seat]!.win,
  }))
  const wins = fair.filter(({ game, seat }) => outcomeOf(game.returns, seat) === 'win').length
  return {
    games: fair.length,
    wins,
    expected: groups.reduce((sum, { trials, probability }) => sum + trials * probability, 0),
    p: binomialTest(wins, groups),
  }
}

const pairResult = (scores: readonly PairScore[]): PairResult => {
  const rounds = [...groupBy(scores, ({ round }) => round).values()].map(
    (group) => group.reduce((sum, { score }) => sum + 2 * score - 1, 0) / group.length,
  )
  const { a, b } = scores[0]!
  return { a, b, games: scores.length, rounds: rounds.length, difference: meanInterval(rounds, [-1, 1]) }
}

const pairsOf = (scores: readonly PairScore[]): readonly PairResult[] =>
  [...groupBy(scores, ({ a, b }) => JSON.stringify([a, b])).values()].map(pairResult)

const gameResult = (
  game: Game,
  records: readonly GameRecord[],
  { randomPlayers = ['random'], prices = {} }: ResultsOptions,
): GameResult => {
  const scored = scoredGames(records)
  const random = randomBaseline(game)
  const seats = scored.flatMap((each) => each.seats.map((_, seat): Seat => ({ game: each, seat })))
  const ofSeat = (all: readonly Seat[], at: number): Tally => tallyOf(all.filter(({ seat }) => seat === at))
  const names = [...new Set(records.flatMap((record) => record.seats))]
  const players = names.map((name): PlayerResult => {
    const own = seats.filter((each) => each.game.seats[each.seat] === name)
    const moves = records.flatMap((record) => record.moves.filter(({ player }) => record.seats[player] === name))
    return {
      name,
      ...tallyOf(own),
      ...moveTallyOf(moves, prices[name]),
      meanReturn: own.reduce((sum, each) => sum + each.game.returns[each.seat]!, 0) / Math.max(1, own.length),
      seats: Array.from({ length: game.players }, (_, seat) => ofSeat(own, seat)),
      againstRandom: randomPlayers.includes(name) ? null : randomTest(own, random, randomPlayers),
    }
  })
  return {
    game: game.name,
    games: records.length,
    truncated: records.length - scored.length,
    players,
    pairs: pairsOf(scored.flatMap(pairScores)),
    seats: Array.from({ length: game.players }, (_, seat) => ofSeat(seats, seat)),
    random,
  }
}

/**
 * Computes the results of finished games. A win needs a higher return than everybody else's in the
 * game; a forfeit is a loss. Intervals are at 95 %. Truncated games are counted and have no
 * outcome.
 *
 * Cost     for each game, the enumeration of `randomBaseline`.
 *
 * @example
 * arenaResults([], { games: [] }) // { games: [], ratings: [] }
 */
export const arenaResults = (records: readonly GameRecord[], options: ResultsOptions): ArenaResults => {
  checkOptions('arenaResults', options, ARENA_RESULTS_OPTIONS)
  const byGame = groupBy(records, ({ game }) => game)
  const scores = scoredGames(records).flatMap(pairScores)
  return {
    games: options.games.flatMap((game) => {
      const played = byGame.get(game.name)
      return played === undefined ? [] : [gameResult(game, played, options)]
    }),
    ratings: scores.length === 0 ? [] : ratingsOf(scores),
  }
}
