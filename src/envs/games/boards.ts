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

/** Counts the marked cells. */
export const markedCells = (cells: string): number => {
  let count = 0
  for (const cell of cells) if (cell !== '.') count++
  return count
}

/** Returns the empty cells in ascending order. */
export const emptyCells = (cells: string): readonly number[] =>
  [...cells].flatMap((cell, at) => (cell === '.' ? [at] : []))

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

/** Returns `true` if the mark fills a line: a row, column or diagonal of `inARow` cells. */
export const hasLine = (cells: string, mark: string, { rows, columns, inARow }: LineBoard): boolean => {
  const isAt = (row: number, column: number): boolean =>
    row < rows && column >= 0 && column < columns && cells[row * columns + column] === mark
  const isLine = (at: number, [down, right]: readonly [number, number]): boolean => {
    for (let i = 0; i < inARow; i++)
      if (!isAt(Math.floor(at / columns) + i * down, (at % columns) + i * right)) return false
    return true
  }
  for (let at = 0; at < cells.length; at++)
    if (cells[at] === mark && DIRECTIONS.some((direction) => isLine(at, direction))) return true
  return false
}

/** Returns the results of two players: the winner gets 1 from the other. Nobody does without one. */
export const winnerReturns = (winner: number | undefined): readonly number[] =>
  winner === undefined ? [0, 0] : winner === 0 ? [1, -1] : [-1, 1]

/** Throws RangeError unless each size is a whole number of at least 1. */
export const requireWhole = (name: string, sizes: Readonly<Record<string, number>>): void => {
  for (const [option, size] of Object.entries(sizes))
    if (!Number.isInteger(size) || size < 1)
      throw new RangeError(`${name}: ${option} must be a whole number of at least 1, got ${size}`)
}
