/** The games of a tournament: pairings, seats and chance. */
import { checkOptions, child, countOf, type Key } from '@tandem-rl/base'
import type { Game } from '../../games/game.js'
import { PLAN_TOURNAMENT_OPTIONS } from '../../optionKinds.js'
import type { Player } from '../players/player.js'
import type { GamePlan } from './playGame.js'

/**
 * The pairing of players.
 *
 * - `match`: all players sit in one game; there must be as many as the game has seats.
 * - `roundRobin`: every group of players as large as the game.
 * - `gauntlet`: the first player meets every group of the others.
 */
export type Pairing = 'match' | 'roundRobin' | 'gauntlet'

export interface TournamentOptions {
  readonly games: readonly Game[]
  /** With different names. */
  readonly players: readonly Player[]
  readonly pairing: Pairing
  /** Games for each matchup of each game. */
  readonly episodes: number
  readonly key: Key
  /**
   * `balanced` moves the players by one seat from game to game. `fixed` keeps their order. Default
   * `balanced`.
   */
  readonly seats?: 'balanced' | 'fixed'
}

/** Returns all subsets of a size, in order. */
const subsets = <T>(items: readonly T[], size: number): readonly (readonly T[])[] => {
  if (size === 0) return [[]]
  return items.flatMap((item, i) => subsets(items.slice(i + 1), size - 1).map((rest) => [item, ...rest]))
}

const matchupsOf = (game: Game, { players, pairing }: TournamentOptions): readonly (readonly Player[])[] => {
  const [first, ...others] = players
  if (pairing === 'match') {
    if (players.length !== game.players)
      throw new RangeError(
        `planTournament: ${game.name} has ${countOf(game.players, 'seat')}, and there ${players.length === 1 ? 'is' : 'are'} ${countOf(players.length, 'player')}`,
      )
    return [players]
  }
  if (players.length < game.players)
    throw new RangeError(`planTournament: ${game.name} needs ${game.players} players, got ${players.length}`)
  if (pairing === 'roundRobin') return subsets(players, game.players)
  return subsets(others, game.players - 1).map((group) => [first!, ...group])
}

const rotated = <T>(items: readonly T[], by: number): readonly T[] =>
  items.map((_, i) => items[(i + by) % items.length]!)

/**
 * Plans a tournament. Games of the same round share the draws of chance: within a matchup, where
 * the players change seats, and between matchups.
 *
 * Errors   throws RangeError for players with equal names, a wrong number of players, and unless
 *          `episodes` is an integer of at least 1.
 *
 * @example
 * const players = [randomPlayer('a'), randomPlayer('b')]
 * planTournament({ games: [anyGame(ticTacToe)], players, pairing: 'match', episodes: 4, key: keyFromSeed(1) }).length // 4
 */
export const planTournament = (options: TournamentOptions): readonly GamePlan[] => {
  checkOptions('planTournament', options, PLAN_TOURNAMENT_OPTIONS)
  const { games, players, episodes, key, seats = 'balanced' } = options
  const names = players.map(({ name }) => name)
  const twice = names.find((name, i) => names.indexOf(name) < i)
  if (twice !== undefined) throw new RangeError(`planTournament: two players are named '${twice}'`)
  if (!Number.isInteger(episodes) || episodes < 1)
    throw new RangeError(`planTournament: episodes must be an integer of at least 1, got ${episodes}`)
  return games.flatMap((game) =>
    matchupsOf(game, options).flatMap((group) => {
      const matchup = group.map(({ name }) => name).join(' / ')
      return Array.from({ length: episodes }, (_, episode): GamePlan => {
        const size = seats === 'balanced' ? game.players : 1
        const [round, shift] = [Math.floor(episode / size), episode % size]
        const id = `${game.name} | ${matchup} | ${episode}`
        return {
          id,
          game,
          matchup,
          episode,
          round,
          seats: rotated(group, shift),
          chanceKey: child(child(child(key, 'chance'), game.name), round),
          playKey: child(child(key, 'play'), id),
        }
      })
    }),
  )
}
