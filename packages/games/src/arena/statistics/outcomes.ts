/** Wins, draws and losses of games, by seat and between pairs of players. */
import type { GameRecord } from '../matches/records.js'

/** The outcome of a game for one player. */
export type GameOutcome = 'win' | 'draw' | 'loss'

/** A game with a result. */
export type ScoredGame = GameRecord & { readonly returns: readonly number[] }

/** Returns the games that have a result: those that were not truncated. */
export const scoredGames = (games: readonly GameRecord[]): readonly ScoredGame[] =>
  games.filter((game): game is ScoredGame => game.returns !== null)

const SAME = 1e-9

/** Returns 1 if the first return is higher, 0 if the second is, 0.5 if they are equal. */
const scoreBetween = (own: number, other: number): number => {
  if (Math.abs(own - other) < SAME) return 0.5
  return own > other ? 1 : 0
}

/**
 * Returns the outcome of a seat: a win needs a higher return than everybody else's. A single player
 * wins with a return above 0.
 */
export const outcomeOf = (returns: readonly number[], seat: number): GameOutcome => {
  if (returns.length === 1) return returns[0]! > 0 ? 'win' : 'loss'
  const scores = returns.map((other, i) => (i === seat ? 1 : scoreBetween(returns[seat]!, other)))
  const lowest = Math.min(...scores)
  return lowest === 1 ? 'win' : lowest === 0.5 ? 'draw' : 'loss'
}

/** Returns the score of a seat against all others: from 0 to 1, and 0.5 on average. */
export const scoreOf = (returns: readonly number[], seat: number): number => {
  if (returns.length === 1) return returns[0]! > 0 ? 1 : 0
  const others = returns.filter((_, i) => i !== seat)
  return others.reduce((sum, other) => sum + scoreBetween(returns[seat]!, other), 0) / Math.max(1, others.length)
}

/** A comparison of two players in one game. */
export interface PairScore {
  readonly a: string
  readonly b: string
  /** 1 if `a` did better, 0 if `b` did, 0.5 if neither. */
  readonly score: number
  /** Games with equal rounds share their chance, and are not independent. */
  readonly round: string
}

/** Compares all players of a game by pairs, in the order of their names. */
export const pairScores = ({ game, round, seats, returns }: ScoredGame): readonly PairScore[] =>
  seats.flatMap((first, i) =>
    seats.slice(i + 1).map((second, j): PairScore => {
      const score = scoreBetween(returns[i]!, returns[i + 1 + j]!)
      const at = { round: `${game} | ${round}` }
      return first < second ? { a: first, b: second, score, ...at } : { a: second, b: first, score: 1 - score, ...at }
    }),
  )

/** Groups items by a name, in the order of the first ones. */
export const groupBy = <T>(items: readonly T[], nameOf: (item: T) => string): ReadonlyMap<string, readonly T[]> => {
  const groups = new Map<string, T[]>()
  for (const item of items) {
    const name = nameOf(item)
    const group = groups.get(name)
    if (group === undefined) groups.set(name, [item])
    else group.push(item)
  }
  return groups
}
