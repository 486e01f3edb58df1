/** Connect Four: discs fall down columns, and four in a line win. */
import { checkOptions } from '@tandem-rl/base'
import { CONNECT_FOUR_OPTIONS } from '../optionKinds.js'
import {
  boardLines,
  boardRows,
  emptyCells,
  hasLine,
  linesThrough,
  lineWinner,
  markedCells,
  markOf,
  placed,
  requireWhole,
  winnerReturns,
} from './boards.js'
import { defineGame, type Game, remembered } from './game.js'

export interface ConnectFourOptions {
  /** Default 6. */
  readonly rows?: number
  /** Default 7. */
  readonly columns?: number
  /** Discs in a line that win. Default 4. */
  readonly inARow?: number
}

/** The cells row by row from the top, each `x`, `o` or `.`. */
export interface ConnectFourPosition {
  readonly cells: string
}

/** The lowest empty cell of a column. */
const landing = (cells: string, column: number, columns: number): number => {
  let at = cells.length - columns + column
  while (cells[at] !== '.') at -= columns
  return at
}

/**
 * Connect Four. Action `column` drops a disc. Player 0 plays `x`. A line of four wins 1 from the
 * opponent.
 *
 * Errors   throws RangeError unless the options are whole numbers of at least 1.
 * Source   OpenSpiel's `connect_four`: action numbers and texts are the same.
 *
 * @example
 * connectFour().returns(replayGame(connectFour(), [0, 1, 0, 1, 0, 1, 0])) // [1, -1]
 */
export const connectFour = (options: ConnectFourOptions = {}): Game<ConnectFourPosition> => {
  checkOptions('connectFour', options, CONNECT_FOUR_OPTIONS)
  const { rows = 6, columns = 7, inARow = 4 } = options
  requireWhole('connectFour', { rows, columns, inARow })
  const lines = boardLines({ rows, columns, inARow })
  const through = linesThrough(rows * columns, lines)
  const winnerOf = remembered(({ cells }: ConnectFourPosition) => lineWinner(cells, lines))
  return defineGame<ConnectFourPosition>({
    name: 'connect_four',
    players: 2,
    utility: 'zeroSum',
    rules:
      `Two players drop discs into the ${columns} columns of a board of ${rows} rows in turn. A disc falls to the ` +
      'lowest empty cell. Player 0 plays x and player 1 plays o. ' +
      `The first with ${inARow} discs in a row, column or diagonal wins. x3 drops into the fourth column from the left.`,
    initial: { cells: '.'.repeat(rows * columns) },
    turn: (position) =>
      winnerOf(position) !== undefined || !position.cells.includes('.') ? 'over' : markedCells(position.cells) % 2,
    legalActions: ({ cells }) => emptyCells(cells.slice(0, columns)),
    next: ({ cells }, column) => {
      const [at, player] = [landing(cells, column, columns), markedCells(cells) % 2]
      const after = { cells: placed(cells, at, markOf(player)) }
      return winnerOf.known(after, hasLine(after.cells, through[at]!, markOf(player)) ? player : undefined)
    },
    returns: (position) => winnerReturns(winnerOf(position)),
    text: ({ cells }) => `${boardRows(cells, columns).join('\n')}\n`,
    actionText: (_position, actor, action) => `${markOf(actor)}${action}`,
    views: 'open',
  })
}
