/** Fixed players of games: probabilities of actions as pure functions of a state. */
import * as E from 'fp-ts/lib/Either.js'
import type { GamePolicy } from './exactValues.js'
import type { Game, GameState } from './game.js'
import { minimax } from './minimax.js'

/** A decision of a player, with the whole state of the game. */
export interface StrategyScene<P> {
  readonly game: Game<P>
  readonly state: GameState<P>
  readonly player: number
}

/**
 * A fixed player: returns one probability for each legal action, in order. It must be a pure
 * function. A strategy that reads what is hidden from the player cheats.
 */
export type GameStrategy<P = unknown> = (scene: StrategyScene<P>) => readonly number[]

/**
 * Plays a `GamePolicy`, which sees only the information state.
 *
 * @example
 * policyStrategy(uniformGamePolicy)({ game: ticTacToe, state: ticTacToe.initial, player: 0 }).length // 9
 */
export const policyStrategy =
  (policy: GamePolicy) =>
  <P>({ game, state, player }: StrategyScene<P>): readonly number[] =>
    policy({
      player,
      informationState: game.informationState(state, player),
      legalActions: game.legalActions(state, player),
    })

/**
 * Returns the perfect player of a zero-sum game of two players without chance and hidden
 * information. It plays each of the best actions with the same probability.
 *
 * Errors   throws RangeError for a game of another number of players or utility. The strategy
 *          throws RangeError where chance or both players move.
 * Cost     that of `minimax`, once for all calls.
 *
 * @example
 * minimaxStrategy(ticTacToe)({ game: ticTacToe, state: replayGame(ticTacToe, [0, 3, 1, 4]), player: 0 }) // [1, 0, 0, 0, 0]
 */
export const minimaxStrategy = <P>(game: Game<P>): GameStrategy<P> => {
  if (game.players !== 2 || game.utility !== 'zeroSum')
    throw new RangeError(`minimaxStrategy: ${game.name} must be a zero-sum game of two players`)
  const bestActions = minimax(game)
  return ({ state, player }) => {
    const best = bestActions(state, player)
    if (E.isLeft(best)) throw new RangeError(`minimaxStrategy: ${best.left}`)
    const share = 1 / best.right.length
    return game.legalActions(state, player).map((action) => (best.right.includes(action) ? share : 0))
  }
}
