/** Boards of two players, as strings of one character for each cell, row by row. */
import type { GameActor } from './game.js'

/** The size of a board, and how many marks in a line win. */
export interface LineBoard {
  readonly rows: number
  readonly columns: number
  readonly inARow: number
}

/** Returns the mark of a player: `x` for player 0, `o` for player 1. */
export const markOf = (player: GameActor): 'x' | 'o' => (player === 1 ? 'o' : 'x')

/** Returns the board with a mark in one cell. */
export const placed = (cells: string, at: number, mark: string): string =>
  cells.slice(0, at) + mark + cells.slice(at + 1)

/** The code of an empty cell. */
const EMPTY = '.'.charCodeAt(0)

/** Counts the marked cells. */
export const markedCells = (cells: string): number => {
  let count = 0
  for (let at = 0; at < cells.length; at++) if (cells.charCodeAt(at) !== EMPTY) count++
  return count
}

/** Returns the empty cells in ascending order. */
export const emptyCells = (cells: string): readonly number[] => {
  const empty: number[] = []
  for (let at = 0; at < cells.length; at++) if (cells.charCodeAt(at) === EMPTY) empty.push(at)
  return empty
}

/** Returns the rows of a board from the first. */
export const boardRows = (cells: string, columns: number): readonly string[] =>
  Array.from({ length: cells.length / columns }, (_, row) => cells.slice(row * columns, (row + 1) * columns))

/** Row and column steps of the four directions of a line. */
const DIRECTIONS = [
  [0, 1],
  [1, 0],
  [1, 1],
  [1, -1],
] as const

/** Returns the lines of a board: the cells of each row, column or diagonal of `inARow` cells. */
export const boardLines = ({ rows, columns, inARow }: LineBoard): readonly (readonly number[])[] =>
  Array.from({ length: rows * columns }, (_, at) => [Math.floor(at / columns), at % columns] as const).flatMap(
    ([row, column]) =>
      DIRECTIONS.filter(([down, right]) => {
        const [lastRow, lastColumn] = [row + (inARow - 1) * down, column + (inARow - 1) * right]
        return lastRow < rows && lastColumn >= 0 && lastColumn < columns
      }).map(([down, right]) =>
        Array.from({ length: inARow }, (_, i) => (row + i * down) * columns + column + i * right),
      ),
  )

/** Returns, for each cell, the lines through it. */
export const linesThrough = (
  cells: number,
  lines: readonly (readonly number[])[],
): readonly (readonly (readonly number[])[])[] =>
  Array.from({ length: cells }, (_, at) => lines.filter((line) => line.includes(at)))

/** Returns `true` if a line consists of one mark. */
export const hasLine = (cells: string, lines: readonly (readonly number[])[], mark: string): boolean => {
  const own = mark.charCodeAt(0)
  search: for (const line of lines) {
    for (let i = 0; i < line.length; i++) if (cells.charCodeAt(line[i]!) !== own) continue search
    return true
  }
  return false
}

/**
 * Returns the player who moved last, who alone can have a new line, if the player fills one of
 * them.
 */
export const lineWinner = (cells: string, lines: readonly (readonly number[])[]): number | undefined => {
  const marked = markedCells(cells)
  const last = (marked + 1) % 2
  const inARow = lines[0]?.length ?? 0
  if ((marked + 1 - last) / 2 < inARow) return undefined // fewer marks than a line has
  return hasLine(cells, lines, markOf(last)) ? last : undefined
}

/**
 * Returns the results of two players: 1 for the winner, -1 for the other, and 0 for both in a draw.
 */
export const winnerReturns = (winner: number | undefined): readonly number[] =>
  winner === undefined ? [0, 0] : winner === 0 ? [1, -1] : [-1, 1]

/** Throws RangeError unless each size is a whole number of at least 1. */
export const requireWhole = (name: string, sizes: Readonly<Record<string, number>>): void => {
  for (const [option, size] of Object.entries(sizes))
    if (!Number.isInteger(size) || size < 1)
      throw new RangeError(`${name}: ${option} must be a whole number of at least 1, got ${size}`)
}
