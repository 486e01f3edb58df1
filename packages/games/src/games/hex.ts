/** Hex: connect two sides of a board of hexagons. */
import { checkOptions, refuse } from '@tandem-rl/base'
import { HEX_OPTIONS } from '../optionKinds.js'
import { boardRows, emptyCells, markOf, placed, winnerReturns } from './boards.js'
import { defineGame, type Game } from './game.js'

export interface HexOptions {
  /** From 1 to 26. Default 11. */
  readonly rows?: number
  /** From 1 to 26. Default 11. */
  readonly columns?: number
  /**
   * `swap`: instead of its first stone, player 1 may take over the stone of player 0, mirrored in
   * the long diagonal. This takes the advantage from the first move. Default `none`.
   */
  readonly pie?: 'none' | 'swap'
}

/** The cells row by row, each `x`, `o` or `.`, and the number of moves so far. */
export interface HexPosition {
  readonly cells: string
  readonly moves: number
}

/** Returns the neighbors of each cell: two in its row, two above and two below. */
const neighborsOf = (rows: number, columns: number): readonly (readonly number[])[] =>
  Array.from({ length: rows * columns }, (_, at) => {
    const [row, column] = [Math.floor(at / columns), at % columns]
    return [
      [row - 1, column],
      [row - 1, column + 1],
      [row, column + 1],
      [row + 1, column],
      [row + 1, column - 1],
      [row, column - 1],
    ].flatMap(([r = -1, c = -1]) => (r >= 0 && r < rows && c >= 0 && c < columns ? [r * columns + c] : []))
  })

/**
 * Returns `true` if stones of a mark connect a cell of `from` with one for which `isGoal` holds.
 */
const connects = (
  cells: string,
  { mark, neighbors }: { readonly mark: string; readonly neighbors: readonly (readonly number[])[] },
  { from, isGoal }: { readonly from: readonly number[]; readonly isGoal: (at: number) => boolean },
): boolean => {
  const own = mark.charCodeAt(0)
  const isSeen = new Uint8Array(cells.length)
  const open = from.filter((at) => cells.charCodeAt(at) === own)
  for (const at of open) isSeen[at] = 1
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    if (isGoal(at)) return true
    for (const next of neighbors[at]!)
      if (isSeen[next] === 0 && cells.charCodeAt(next) === own) {
        isSeen[next] = 1
        open.push(next)
      }
  }
  return false
}

/**
 * Hex. Action `row * columns + column` places a stone. Player 0 plays `x` and connects top and
 * bottom; player 1 plays `o` and connects left and right. The winner gets 1 from the other. A draw
 * is impossible. With `pie: 'swap'`, action `rows * columns` is the swap.
 *
 * Errors   throws RangeError unless the sizes are whole numbers from 1 to 26, and equal for a swap.
 * Source   OpenSpiel's `hex`: action numbers and texts are the same.
 *
 * @example
 * hex({ rows: 2, columns: 2 }).returns(replayGame(hex({ rows: 2, columns: 2 }), [0, 1, 2])) // [1, -1]
 */
export const hex = (options: HexOptions = {}): Game<HexPosition> => {
  checkOptions('hex', options, HEX_OPTIONS)
  const { rows = 11, columns = 11, pie = 'none' } = options
  for (const [option, size] of Object.entries({ rows, columns }))
    if (!Number.isInteger(size) || size < 1 || size > 26)
      throw new RangeError(`hex: ${option} must be a whole number from 1 to 26, got ${size}`)
  const neighbors = neighborsOf(rows, columns)
  const cellsAt = Array.from({ length: rows * columns }, (_, at) => at)
  const top = cellsAt.slice(0, columns)
  const left = cellsAt.filter((at) => at % columns === 0)
  const isBottom = (at: number): boolean => at >= (rows - 1) * columns
  const isRight = (at: number): boolean => at % columns === columns - 1
  const swap = rows * columns
  refuse('hex', [
    pie === 'swap' && rows !== columns && `pie: a swap needs as many rows as columns, got ${rows} and ${columns}`,
  ])
  /** Only who moved last can have a new chain, and it needs a stone in each row or column. */
  const winnerOf = ({ cells, moves }: HexPosition): number | undefined => {
    const last = (moves + 1) % 2
    if ((moves + 1 - last) / 2 < (last === 0 ? rows : columns)) return undefined
    const goal = last === 0 ? { from: top, isGoal: isBottom } : { from: left, isGoal: isRight }
    return connects(cells, { mark: markOf(last), neighbors }, goal) ? last : undefined
  }
  const swapped = (cells: string): string => {
    const at = cells.indexOf('x')
    return placed('.'.repeat(swap), (at % columns) * columns + Math.floor(at / columns), 'o')
  }
  return defineGame<HexPosition>({
    name: 'hex',
    players: 2,
    utility: 'zeroSum',
    rules:
      `Two players place stones on a board of ${rows} rows and ${columns} columns of hexagons in turn. Each row is shifted ` +
      'half a cell to the right of the one above it. Player 0 plays x and wins with a chain from the top to the bottom ' +
      'row. Player 1 plays o and wins with a chain from the left to the right column. a2 is the first cell of the second row.' +
      (pie === 'swap'
        ? ' In its first turn, player 1 may swap: the stone becomes its own, with row and column exchanged.'
        : ''),
    initial: { cells: '.'.repeat(rows * columns), moves: 0 },
    turn: (position) => (winnerOf(position) === undefined ? position.moves % 2 : 'over'),
    legalActions: ({ cells, moves }) =>
      pie === 'swap' && moves === 1 ? [...emptyCells(cells), swap] : emptyCells(cells),
    next: ({ cells, moves }, action) => ({
      cells: action === swap ? swapped(cells) : placed(cells, action, markOf(moves % 2)),
      moves: moves + 1,
    }),
    returns: (position) => winnerReturns(winnerOf(position)),
    text: ({ cells }) =>
      boardRows(cells, columns)
        .map((row, i) => `${' '.repeat(i)}${[...row].map((cell) => `${cell} `).join('')}`)
        .join('\n'),
    actionText: (_position, _actor, action) =>
      action === swap ? 'swap' : `${String.fromCharCode(97 + (action % columns))}${Math.floor(action / columns) + 1}`,
    views: 'open',
  })
}
