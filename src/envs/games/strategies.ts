/** Fixed players of games: probabilities of actions as pure functions of a state. */
import type { GamePolicy } from './exactValues.js'
import type { Game, GameState } from './game.js'

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

const uniformOver = (count: number): readonly number[] => new Array<number>(count).fill(1 / count)

/** Plays every legal action with the same probability. */
export const randomStrategy = <P>({ game, state, player }: StrategyScene<P>): readonly number[] =>
  uniformOver(game.legalActions(state, player).length)

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
 * Cost     visits every position that can follow, once for all calls: for games as small as
 *          tic-tac-toe.
 *
 * @example
 * minimaxStrategy(ticTacToe)({ game: ticTacToe, state: replayGame(ticTacToe, [0, 3, 1, 4]), player: 0 }) // [1, 0, 0, 0, 0]
 */
export const minimaxStrategy = <P>(game: Game<P>): GameStrategy<P> => {
  if (game.players !== 2 || game.utility !== 'zeroSum')
    throw new RangeError(`minimaxStrategy: ${game.name} must be a zero-sum game of two players`)
  const values = new Map<string, number>()
  const worthOf = (state: GameState<P>): number => {
    const turn = game.turn(state)
    if (turn === 'over') return game.returns(state)[0]!
    if (typeof turn !== 'number')
      throw new RangeError(`minimaxStrategy: in ${game.name}, the turn must be of one player, got '${turn}'`)
    const name = `${turn} ${game.text(state)}`
    const known = values.get(name)
    if (known !== undefined) return known
    const each = game.legalActions(state, turn).map((action) => worthOf(game.apply(state, action)))
    const value = turn === 0 ? Math.max(...each) : Math.min(...each)
    values.set(name, value)
    return value
  }
  return ({ state, player }) => {
    if (game.turn(state) !== player)
      throw new RangeError(`minimaxStrategy: it must be the turn of player ${player}, got '${game.turn(state)}'`)
    const sign = player === 0 ? 1 : -1
    const worth = game.legalActions(state, player).map((action) => sign * worthOf(game.apply(state, action)))
    const best = Math.max(...worth)
    const count = worth.filter((each) => each === best).length
    return worth.map((each) => (each === best ? 1 / count : 0))
  }
}
