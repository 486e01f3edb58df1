/** Chess, with the rules of the package `chess.js`. */
import { checkOptions } from '@tandem-rl/base'
import { CHESS_OPTIONS } from '../optionKinds.js'
import { winnerReturns } from './boards.js'
import { defineGame, type Game, type GameTurn } from './game.js'

/** A legal move, as chess.js describes it. */
export interface ChessMove {
  readonly color: 'w' | 'b'
  readonly from: string
  readonly to: string
  readonly promotion?: string | undefined
  readonly san: string
  readonly after: string
  readonly isKingsideCastle: () => boolean
  readonly isQueensideCastle: () => boolean
}

/** A board of chess.js, as far as it is used. */
export interface ChessBoard {
  readonly fen: () => string
  readonly moves: (options: { readonly verbose: true }) => readonly ChessMove[]
  readonly inCheck: () => boolean
  readonly isInsufficientMaterial: () => boolean
}

/** The package: `await import('chess.js')`. Its types are not imported, because it is optional. */
export interface ChessLibrary {
  readonly Chess: new (fen?: string) => ChessBoard
}

export interface ChessOptions {
  readonly library: ChessLibrary
  /** The first position as FEN. Default: that of chess. */
  readonly start?: string
}

/** A position, and those since the last capture or move of a pawn. */
export interface ChessPosition {
  readonly fen: string
  /** Earlier positions without their counters, for repetitions. */
  readonly earlier: readonly string[]
}

const START = 'rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1'
const SIDE = 8
const MOVES_FROM_CELL = 73
const UNDER_PROMOTIONS = 9
const [LONG_CASTLING, SHORT_CASTLING] = [4672, 4673] as const
const MOST_REVERSIBLE = 100
const MOST_REPETITIONS = 3
const KNIGHT_STEPS = ['-2,-1', '-2,1', '-1,-2', '-1,2', '2,-1', '2,1', '1,-2', '1,2']
const FILES = 'abcdefgh'

/** The index of a distance from -7 to 7, without 0. */
const distanceIndex = (steps: number): number => steps + SIDE - 1 - (steps > 0 ? 1 : 0)

const stepIndex = (right: number, up: number): number => {
  const knight = KNIGHT_STEPS.indexOf(`${right},${up}`)
  if (knight >= 0) return 4 * 2 * (SIDE - 1) + knight
  const kind = right === 0 ? 0 : up === 0 ? 1 : right === up ? 2 : 3
  return kind * 2 * (SIDE - 1) + distanceIndex(right === 0 ? up : right)
}

/** The number of a move, seen from the side of the player who moves. */
const actionOf = (move: ChessMove): number => {
  if (move.isQueensideCastle()) return LONG_CASTLING
  if (move.isKingsideCastle()) return SHORT_CASTLING
  const { color, from, to, promotion } = move
  const rank = (cell: string): number => (color === 'w' ? Number(cell[1]) - 1 : SIDE - Number(cell[1]))
  const [x, y] = [FILES.indexOf(from[0]!), rank(from)]
  const [right, up] = [FILES.indexOf(to[0]!) - x, rank(to) - y]
  const start = (x * SIDE + y) * MOVES_FROM_CELL
  const piece = promotion === undefined ? -1 : ['r', 'b', 'n'].indexOf(promotion)
  return piece >= 0 ? start + 3 * piece + [0, 1, -1].indexOf(right) : start + UNDER_PROMOTIONS + stepIndex(right, up)
}

/** A position without the counters of moves. */
const placesOf = (fen: string): string => fen.split(' ').slice(0, 4).join(' ')

const playerOf = (fen: string): number => (fen.split(' ')[1] === 'w' ? 1 : 0)

/** The legal moves of a position by number, and its end. */
interface Analysis {
  readonly moves: ReadonlyMap<number, ChessMove>
  readonly end: 'none' | 'mate' | 'draw'
}

const analyse = ({ Chess }: ChessLibrary, { fen, earlier }: ChessPosition): Analysis => {
  const board = new Chess(fen)
  const moves = new Map(board.moves({ verbose: true }).map((move) => [actionOf(move), move] as const))
  const places = placesOf(fen)
  const repetitions = 1 + earlier.filter((each) => each === places).length
  if (board.isInsufficientMaterial() || repetitions >= MOST_REPETITIONS) return { moves, end: 'draw' }
  if (moves.size === 0) return { moves, end: board.inCheck() ? 'mate' : 'draw' }
  return { moves, end: Number(fen.split(' ')[4]) >= MOST_REVERSIBLE ? 'draw' : 'none' }
}

/**
 * Chess. Player 1 has white and begins, player 0 has black. The winner gets 1 from the other.
 * Stalemate, too little material, three equal positions and 50 moves without capture or pawn are
 * draws.
 *
 * The rules are those of the package chess.js: `chess({ library: await import('chess.js') })`.
 *
 * Errors   throws the error of chess.js for a `start` that is not a FEN.
 * Cost     some milliseconds for each position.
 * Source   OpenSpiel's `chess`: action numbers and texts are the same.
 */
export const chess = (options: ChessOptions): Game<ChessPosition> => {
  checkOptions('chess', options, CHESS_OPTIONS)
  const { library, start = START } = options
  const known = new WeakMap<ChessPosition, Analysis>()
  const analysed = (position: ChessPosition): Analysis => {
    const found = known.get(position) ?? analyse(library, position)
    known.set(position, found)
    return found
  }
  return defineGame<ChessPosition>({
    name: 'chess',
    players: 2,
    utility: 'zeroSum',
    rules:
      'You play chess. Player 1 has the white pieces (capital letters in the FEN) and begins, player 0 has the black ones. ' +
      'Write moves in standard algebraic notation, such as [Nf3], [exd5], [O-O] or [e8=Q].',
    initial: { fen: new library.Chess(start).fen(), earlier: [] },
    turn: (position): GameTurn => (analysed(position).end === 'none' ? playerOf(position.fen) : 'over'),
    legalActions: (position) => [...analysed(position).moves.keys()].sort((a, b) => a - b),
    next: (position, action) => {
      const fen = analysed(position).moves.get(action)!.after
      const isReversible = fen.split(' ')[4] !== '0'
      return { fen, earlier: isReversible ? [...position.earlier, placesOf(position.fen)] : [] }
    },
    returns: (position) => {
      if (analysed(position).end !== 'mate') return winnerReturns(undefined)
      return winnerReturns(1 - playerOf(position.fen))
    },
    text: ({ fen }) => fen,
    actionText: (position, _actor, action) => analysed(position).moves.get(action)?.san ?? String(action),
    views: 'open',
  })
}
