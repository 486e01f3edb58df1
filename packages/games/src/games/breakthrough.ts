/** Breakthrough: pawns that race to the other side. */
import { checkOptions } from '@tandem-rl/base'
import { BREAKTHROUGH_OPTIONS } from '../optionKinds.js'
import { boardRows, placed, winnerReturns } from './boards.js'
import { defineGame, type Game } from './game.js'

export interface BreakthroughOptions {
  /** From 2 to 9. Default 8. */
  readonly rows?: number
  /** From 2 to 26. Default 8. */
  readonly columns?: number
}

/** The cells row by row from the top, each `b`, `w` or `.`, and who moves. */
export interface BreakthroughPosition {
  readonly cells: string
  readonly player: number
}

const PIECES = ['b', 'w'] as const
/** With fewer rows, each player has one row of pieces instead of two. */
const FULL_ROWS = 6

/** An action, taken apart. Direction 0 to 2 goes down, 3 to 5 up; left, straight and right. */
interface Step {
  readonly from: number
  readonly to: number
  readonly isCapture: boolean
}

const stepOf = (action: number, columns: number): Step => {
  const [capture, direction, from] = [action % 2, Math.floor(action / 2) % 6, Math.floor(action / 12)]
  const to = from + (direction < 3 ? columns : -columns) + (direction % 3) - 1
  return { from, to, isCapture: capture === 1 }
}

const legalOf = ({ cells }: BreakthroughPosition, player: number, columns: number): readonly number[] => {
  const [own, other] = [PIECES[player === 0 ? 0 : 1], PIECES[player === 0 ? 1 : 0]]
  const forward = player === 0 ? columns : -columns
  const legal: number[] = []
  for (let from = cells.indexOf(own); from !== -1; from = cells.indexOf(own, from + 1)) {
    const column = from % columns
    for (let side = -1; side <= 1; side++) {
      if (column + side < 0 || column + side >= columns) continue
      const action = (from * 6 + 3 * player + side + 1) * 2
      const target = cells[from + forward + side]
      if (target === '.') legal.push(action)
      else if (side !== 0 && target === other) legal.push(action + 1)
    }
  }
  return legal
}

const winnerOf = ({ cells }: BreakthroughPosition, columns: number): number | undefined => {
  if (cells.slice(-columns).includes('b') || !cells.includes('w')) return 0
  return cells.slice(0, columns).includes('w') || !cells.includes('b') ? 1 : undefined
}

const initialCells = (rows: number, columns: number): string => {
  const depth = (rows >= FULL_ROWS ? 2 : 1) * columns
  return 'b'.repeat(depth) + '.'.repeat(rows * columns - 2 * depth) + 'w'.repeat(depth)
}

const requireSize = (option: string, size: number, most: number): void => {
  if (!Number.isInteger(size) || size < 2 || size > most)
    throw new RangeError(`breakthrough: ${option} must be a whole number from 2 to ${most}, got ${size}`)
}

/**
 * Breakthrough. Pieces move one cell forward, straight or diagonally, and capture diagonally.
 * Player 0 has `b` and moves down. The first on the last row, or without opponents, wins 1 from the
 * other. Action `((row * columns + column) * 6 + direction) * 2 + capture` moves the piece of a
 * cell.
 *
 * Errors   throws RangeError unless `rows` is a whole number from 2 to 9 and `columns` one from 2
 *          to 26.
 * Source   OpenSpiel's `breakthrough`: action numbers and texts are the same.
 *
 * @example
 * breakthrough({ rows: 2, columns: 2 }).legalActions(breakthrough({ rows: 2, columns: 2 }).initial, 0) // [5, 13]
 */
export const breakthrough = (options: BreakthroughOptions = {}): Game<BreakthroughPosition> => {
  checkOptions('breakthrough', options, BREAKTHROUGH_OPTIONS)
  const { rows = 8, columns = 8 } = options
  requireSize('rows', rows, 9)
  requireSize('columns', columns, 26)
  const letters = Array.from({ length: columns }, (_, column) => String.fromCharCode(97 + column)).join('')
  const cellName = (at: number): string => `${letters[at % columns]}${rows - Math.floor(at / columns)}`
  return defineGame<BreakthroughPosition>({
    name: 'breakthrough',
    players: 2,
    utility: 'zeroSum',
    rules:
      `Two players move pieces on a board of ${rows} rows and ${columns} columns in turn. Player 0 has the pieces b and ` +
      'moves down, player 1 has w and moves up. A piece moves one cell forward, straight or diagonally, to an empty ' +
      'cell, or captures a piece of the other player diagonally forward. The first with a piece on the last row, or ' +
      'who has captured all pieces, wins. a7b6 moves from a7 to b6, and a7b6* captures there.',
    initial: { cells: initialCells(rows, columns), player: 0 },
    turn: (position) => (winnerOf(position, columns) === undefined ? position.player : 'over'),
    legalActions: (position, player) => legalOf(position, player, columns),
    next: ({ cells, player }, action) => {
      const { from, to } = stepOf(action, columns)
      return { cells: placed(placed(cells, from, '.'), to, PIECES[player === 0 ? 0 : 1]), player: 1 - player }
    },
    returns: (position) => winnerReturns(winnerOf(position, columns)),
    text: ({ cells }) =>
      `${boardRows(cells, columns)
        .map((row, i) => `${rows - i}${row}\n`)
        .join('')} ${letters}\n`,
    actionText: (_position, _actor, action) => {
      const { from, to, isCapture } = stepOf(action, columns)
      return `${cellName(from)}${cellName(to)}${isCapture ? '*' : ''}`
    },
    views: 'open',
  })
}
