/** Tic-tac-toe: three in a row on a board of nine cells. */
import { boardLines, boardRows, emptyCells, lineWinner, markedCells, markOf, placed, winnerReturns } from './boards.js'
import { defineGame, type GameTurn } from './game.js'

/** The cells row by row, each `x`, `o` or `.`. */
export interface TicTacToePosition {
  readonly cells: string
}

const SIDE = 3
const LINES = boardLines({ rows: SIDE, columns: SIDE, inARow: SIDE })

const turnOf = ({ cells }: TicTacToePosition): GameTurn =>
  lineWinner(cells, LINES) !== undefined || !cells.includes('.') ? 'over' : markedCells(cells) % 2

/**
 * Tic-tac-toe. Action `3 * row + column` marks an empty cell. Player 0 plays `x`. A line of three
 * wins 1 from the opponent.
 *
 * Source   OpenSpiel's `tic_tac_toe`: action numbers and texts are the same.
 *
 * @example
 * ticTacToe.text(replayGame(ticTacToe, [4, 0])) // 'o..\n.x.\n...'
 */
export const ticTacToe = defineGame<TicTacToePosition>({
  name: 'tic_tac_toe',
  players: 2,
  utility: 'zeroSum',
  rules:
    'Two players mark the cells of a board of 3 rows and 3 columns in turn. Player 0 plays x and player 1 plays o. ' +
    'The first with three marks in a row, column or diagonal wins. x(0,1) marks the first row, second column.',
  initial: { cells: '.'.repeat(SIDE * SIDE) },
  turn: turnOf,
  legalActions: ({ cells }) => emptyCells(cells),
  next: ({ cells }, action) => ({ cells: placed(cells, action, markOf(markedCells(cells) % 2)) }),
  returns: ({ cells }) => winnerReturns(lineWinner(cells, LINES)),
  text: ({ cells }) => boardRows(cells, SIDE).join('\n'),
  actionText: (_position, actor, action) => `${markOf(actor)}(${Math.floor(action / SIDE)},${action % SIDE})`,
  views: 'open',
})
