/** Games in which the loser wins. */
import { type Game, playersOf } from './game.js'

/**
 * Returns the game with all results negated: who would win loses.
 *
 * Source   OpenSpiel's `misere`.
 *
 * @example
 * misere(ticTacToe).returns(replayGame(ticTacToe, [4, 0, 2, 1, 6])) // [-1, 1]
 */
export const misere = <P>(game: Game<P>): Game<P> => ({
  ...game,
  name: `misere(${game.name})`,
  rules: `${game.rules}\nThe results are turned around: what you would win, you lose, and what you would lose, you win.`,
  returns: (state) => {
    const returns = game.returns(state)
    return playersOf(game).map((player) => 0 - returns[player]!)
  },
})
