/** Hex: connect two sides of a board of hexagons. */
import { aNumber, checkOptions } from '../../core/options.js'
import { boardRows, emptyCells, markedCells, markOf, placed, winnerReturns } from './boards.js'
import { defineGame, type Game } from './game.js'

export interface HexOptions {
  /** From 1 to 26. Default 11. */
  readonly rows?: number
  /** From 1 to 26. Default 11. */
  readonly columns?: number
}

/** The cells row by row, each `x`, `o` or `.`. */
export interface HexPosition {
  readonly cells: string
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
 * is impossible.
 *
 * Errors   throws RangeError unless the options are whole numbers from 1 to 26.
 * Source   OpenSpiel's `hex` without the swap rule: action numbers and texts are the same.
 *
 * @example
 * hex({ rows: 2, columns: 2 }).returns(replayGame(hex({ rows: 2, columns: 2 }), [0, 1, 2])) // [1, -1]
 */
export const hex = (options: HexOptions = {}): Game<HexPosition> => {
  checkOptions('hex', options, { rows: aNumber, columns: aNumber })
  const { rows = 11, columns = 11 } = options
  for (const [option, size] of Object.entries({ rows, columns }))
    if (!Number.isInteger(size) || size < 1 || size > 26)
      throw new RangeError(`hex: ${option} must be a whole number from 1 to 26, got ${size}`)
  const neighbors = neighborsOf(rows, columns)
  const cellsAt = Array.from({ length: rows * columns }, (_, at) => at)
  const top = cellsAt.slice(0, columns)
  const left = cellsAt.filter((at) => at % columns === 0)
  const isBottom = (at: number): boolean => at >= (rows - 1) * columns
  const isRight = (at: number): boolean => at % columns === columns - 1
  /** Only who moved last can have a new chain, and it needs a stone in each row or column. */
  const winnerOf = (cells: string): number | undefined => {
    const stones = markedCells(cells)
    const last = (stones + 1) % 2
    if ((stones + 1 - last) / 2 < (last === 0 ? rows : columns)) return undefined
    const goal = last === 0 ? { from: top, isGoal: isBottom } : { from: left, isGoal: isRight }
    return connects(cells, { mark: markOf(last), neighbors }, goal) ? last : undefined
  }
  return defineGame<HexPosition>({
    name: 'hex',
    players: 2,
    utility: 'zeroSum',
    rules:
      `Two players place stones on a board of ${rows} rows and ${columns} columns of hexagons in turn. Each row is shifted ` +
      'half a cell to the right of the one above it. Player 0 plays x and wins with a chain from the top to the bottom ' +
      'row. Player 1 plays o and wins with a chain from the left to the right column. a2 is the first cell of the second row.',
    initial: { cells: '.'.repeat(rows * columns) },
    turn: ({ cells }) => (winnerOf(cells) === undefined ? markedCells(cells) % 2 : 'over'),
    legalActions: ({ cells }) => emptyCells(cells),
    next: ({ cells }, action) => ({ cells: placed(cells, action, markOf(markedCells(cells) % 2)) }),
    returns: ({ cells }) => winnerReturns(winnerOf(cells)),
    text: ({ cells }) =>
      boardRows(cells, columns)
        .map((row, i) => `${' '.repeat(i)}${[...row].map((cell) => `${cell} `).join('')}`)
        .join('\n'),
    actionText: (_position, _actor, action) =>
      `${String.fromCharCode(97 + (action % columns))}${Math.floor(action / columns) + 1}`,
    views: 'open',
  })
}
