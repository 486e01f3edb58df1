/** The results of random play: a baseline for players. */
import { child, type Key, keyFromSeed, uniformInteger } from '@tandem-rl/base'
import { drawChance, type Game, type GameState, playersOf } from '../../games/game.js'
import { outcomeOf } from './outcomes.js'

/** The probabilities of the outcomes of one seat. */
export interface OutcomeShares {
  readonly win: number
  readonly draw: number
  readonly loss: number
}

/** The outcomes of each seat if all players choose legal actions uniformly. */
export interface RandomBaseline {
  /** `exact` by enumeration, or `simulated` by 4,000 games. */
  readonly kind: 'exact' | 'simulated'
  readonly seats: readonly OutcomeShares[]
}

const SIMULATED_GAMES = 4_000
const SHARES = ['win', 'draw', 'loss'] as const

const nothing = (game: Game): readonly number[] => playersOf(game).flatMap(() => SHARES.map(() => 0))

/** The outcomes of all seats at the end of a game, as one vector. */
const outcomeVector = (game: Game, state: GameState<unknown>): readonly number[] => {
  const returns = game.returns(state)
  return playersOf(game).flatMap((seat) => {
    const outcome = outcomeOf(returns, seat)
    return SHARES.map((share) => (share === outcome ? 1 : 0))
  })
}

const addScaled = (sum: number[], values: readonly number[], weight: number): void => {
  for (const [i, value] of values.entries()) sum[i]! += weight * value
}

/** Returns all moves of a simultaneous turn: one action of each player. */
export const jointMoves = (game: Game, state: GameState<unknown>): readonly (readonly number[])[] =>
  playersOf(game).reduce<readonly (readonly number[])[]>(
    (before, player) => before.flatMap((actions) => game.legalActions(state, player).map((each) => [...actions, each])),
    [[]],
  )

/** The game has more positions than the limit. */
class TooLarge extends Error {}

/** Enumerates the positions, each once: rules depend on nothing else. */
const enumerated = (game: Game, maxPositions: number): readonly number[] => {
  const known = new Map<string, readonly number[]>()
  const from = (state: GameState<unknown>): readonly number[] => {
    const turn = game.turn(state)
    if (turn === 'over') return outcomeVector(game, state)
    const id = JSON.stringify(state.position)
    const found = known.get(id)
    if (found !== undefined) return found
    if (known.size >= maxPositions) throw new TooLarge()
    const sum = [...nothing(game)]
    if (turn === 'chance')
      for (const { action, probability } of game.chance(state))
        addScaled(sum, from(game.apply(state, action)), probability)
    else {
      const moves = turn === 'simultaneous' ? jointMoves(game, state) : game.legalActions(state, turn)
      for (const move of moves) addScaled(sum, from(game.apply(state, move)), 1 / moves.length)
    }
    known.set(id, sum)
    return sum
  }
  return from(game.initial)
}

const playedAtRandom = (game: Game, key: Key): readonly number[] => {
  let state = game.initial
  for (let step = 0; ; step++) {
    const turn = game.turn(state)
    if (turn === 'over') return outcomeVector(game, state)
    const at = child(key, step)
    const choose = (player: number): number => {
      const actions = game.legalActions(state, player)
      return actions[uniformInteger(child(at, player), actions.length)]!
    }
    if (turn === 'chance') state = game.apply(state, drawChance(game, state, at))
    else state = game.apply(state, turn === 'simultaneous' ? playersOf(game).map(choose) : choose(turn))
  }
}

/**
 * Computes the outcomes of random play for each seat: exactly if the game has at most
 * `maxPositions` positions (default 20,000), else from 4,000 games with a fixed key.
 *
 * @example
 * randomBaseline(anyGame(ticTacToe)).seats[0].win.toFixed(4) // '0.5849'
 */
export const randomBaseline = (
  game: Game,
  { maxPositions = 20_000 }: { readonly maxPositions?: number } = {},
): RandomBaseline => {
  const shaped = (kind: RandomBaseline['kind'], vector: readonly number[]): RandomBaseline => ({
    kind,
    seats: playersOf(game).map((seat) => {
      const [win = 0, draw = 0, loss = 0] = vector.slice(3 * seat)
      return { win, draw, loss }
    }),
  })
  try {
    return shaped('exact', enumerated(game, maxPositions))
  } catch (error) {
    if (!(error instanceof TooLarge)) throw error
    const sum = [...nothing(game)]
    const key = keyFromSeed(0)
    for (let i = 0; i < SIMULATED_GAMES; i++) addScaled(sum, playedAtRandom(game, child(key, i)), 1 / SIMULATED_GAMES)
    return shaped('simulated', sum)
  }
}
