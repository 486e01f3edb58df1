/** Phantom tic-tac-toe: tic-tac-toe on a board of which each player sees its own discoveries. */
import { boardLines, boardRows, emptyCells, lineWinner, markedCells, markOf, placed, winnerReturns } from './boards.js'
import { defineGame, type GameTurn } from './game.js'

/** The board, what each player knows of it, and what was tried. */
export interface PhantomTicTacToePosition {
  readonly cells: string
  /** The cells as each player knows them. */
  readonly seen: readonly [first: string, second: string]
  /** All attempts, with those on cells that were taken. */
  readonly tried: readonly (readonly [player: number, cell: number])[]
}

const SIDE = 3
const LINES = boardLines({ rows: SIDE, columns: SIDE, inARow: SIDE })

const turnOf = ({ cells }: PhantomTicTacToePosition): GameTurn =>
  lineWinner(cells, LINES) !== undefined || !cells.includes('.') ? 'over' : markedCells(cells) % 2

const shown = (cells: string): string => boardRows(cells, SIDE).join('\n')

/**
 * Phantom tic-tac-toe. Players do not see the marks of the other. Who tries a cell that is taken
 * learns that, and tries again. Action numbers are those of `ticTacToe`.
 *
 * Source   OpenSpiel's `phantom_ttt` with `obstype=reveal-nothing`: action numbers and texts are
 *          the same.
 *
 * @example
 * phantomTicTacToe.turn(replayGame(phantomTicTacToe, [4, 4])) // 1
 */
export const phantomTicTacToe = defineGame<PhantomTicTacToePosition>({
  name: 'phantom_ttt',
  players: 2,
  utility: 'zeroSum',
  rules:
    'Two players mark the cells of a board of 3 rows and 3 columns in turn. Player 0 plays x and player 1 plays o. ' +
    'You do not see the marks of the other player. If you try a cell that is taken, you see its mark and try again. ' +
    'The first with three marks in a row, column or diagonal wins. x(0,1) marks the first row, second column.',
  initial: { cells: '.'.repeat(SIDE * SIDE), seen: ['.'.repeat(SIDE * SIDE), '.'.repeat(SIDE * SIDE)], tried: [] },
  turn: turnOf,
  legalActions: ({ seen }, player) => emptyCells(seen[player === 0 ? 0 : 1]),
  next: ({ cells, seen: [first, second], tried }, action) => {
    const player = markedCells(cells) % 2
    const after = cells[action] === '.' ? placed(cells, action, markOf(player)) : cells
    const mark = after[action]!
    return {
      cells: after,
      seen: player === 0 ? [placed(first, action, mark), second] : [first, placed(second, action, mark)],
      tried: [...tried, [player, action]],
    }
  },
  returns: ({ cells }) => winnerReturns(lineWinner(cells, LINES)),
  text: ({ cells }) => shown(cells),
  actionText: (_position, actor, action) => `${markOf(actor)}(${Math.floor(action / SIDE)},${action % SIDE})`,
  views: {
    observation: ({ seen }, player) => shown(seen[player === 0 ? 0 : 1]),
    informationState: ({ seen, tried }, player) =>
      `${shown(seen[player === 0 ? 0 : 1])}\n${tried
        .filter(([who]) => who === player)
        .map(([who, cell]) => `${who},${cell} `)
        .join('')}`,
  },
})
