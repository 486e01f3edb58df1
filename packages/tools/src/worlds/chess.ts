/** Chess puzzles as a text world, with the rules of the package `chess.js`. */
import { optionalPackage, type PackageFailure } from '@tandem-rl/base'
import { importPackage } from '@tandem-rl/base/host'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import type { TextWorld, WorldView } from './textWorld.js'

/** The part of chess.js that is used. @internal */
type Library = typeof import('chess.js')

/** A puzzle: a position, and the moves that solve it, those of the opponent between them. */
export interface ChessPuzzle {
  readonly fen: string
  /** Moves in UCI notation: `e2e4`, `e7e8q`. The policy plays the first, the third and so on. */
  readonly solution: readonly string[]
}

/** The state of a puzzle. */
export interface ChessState {
  readonly puzzle: ChessPuzzle
  readonly fen: string
  /** Moves of the solution that were played, those of the opponent included. */
  readonly played: number
  readonly end: 'open' | 'solved' | 'wrong'
}

const puzzleSchema = z.object({
  fen: z.string().max(100),
  solution: z.array(z.string().regex(/^[a-h][1-8][a-h][1-8][qrbn]?$/)).min(1),
})

/** The scores for the solution and for the right moves before it. */
const [SOLVED, MOVES] = [0.6, 0.4]

const ownMoves = (count: number): number => Math.ceil(count / 2)

/** The move of a UCI notation, as chess.js takes it. */
const moveOf = (uci: string) => ({ from: uci.slice(0, 2), to: uci.slice(2, 4), promotion: uci.slice(4) || 'q' })

const viewOf = ({ Chess }: Library, state: ChessState, observation: string): WorldView<ChessState> => {
  const share = ownMoves(state.played) / ownMoves(state.puzzle.solution.length)
  const done = state.end !== 'open'
  const score = (state.end === 'solved' ? SOLVED : 0) + MOVES * share
  const legal = done ? [] : new Chess(state.fen).moves({ verbose: true }).map(({ lan }) => `move ${lan}`)
  return { state, observation, actions: [...legal, ...(done ? [] : ['board', 'moves'])], score, done }
}

const described = ({ Chess }: Library, fen: string): string => `${new Chess(fen).ascii()}\n${fen}`

/** Plays a legal move, and the opponent's answer of the solution. */
const played = (lib: Library, state: ChessState, uci: string): WorldView<ChessState> => {
  const board = new lib.Chess(state.fen)
  const { solution } = state.puzzle
  board.move(moveOf(uci))
  const isRight = uci === solution[state.played] || board.isCheckmate()
  if (!isRight) return viewOf(lib, { ...state, fen: board.fen(), end: 'wrong' }, `${uci} is not the solution.`)
  const answer = solution[state.played + 1]
  if (answer === undefined || board.isCheckmate()) {
    return viewOf(lib, { ...state, fen: board.fen(), played: solution.length, end: 'solved' }, 'The puzzle is solved.')
  }
  board.move(moveOf(answer))
  const next = { ...state, fen: board.fen(), played: state.played + 2 }
  return viewOf(lib, next, `The opponent plays ${answer}.\n${described(lib, next.fen)}`)
}

const startOf = (lib: Library, args: unknown): E.Either<string, WorldView<ChessState>> => {
  const puzzle = puzzleSchema.safeParse(args)
  if (!puzzle.success) return E.left(z.prettifyError(puzzle.error))
  const { fen, solution } = puzzle.data
  return E.tryCatch(
    () => {
      const board = new lib.Chess(fen)
      for (const move of solution) board.move(moveOf(move))
      return viewOf(lib, { puzzle: puzzle.data, fen, played: 0, end: 'open' }, described(lib, fen))
    },
    (error) => `the puzzle is not legal: ${error instanceof Error ? error.message : String(error)}`,
  )
}

/**
 * Loads chess as a text world of puzzles. The actions are `move e2e4`, `board` and `moves`. A wrong
 * move ends the puzzle, an illegal one is named and changes nothing. The score is 0.6 for the
 * solution and 0.4 for the share of its moves.
 *
 * Errors   `Left(PackageFailure)` if `chess.js` is not installed.
 * Source   AgentFly's chess tools and `chess_puzzle_reward`, whose move quality asks an engine.
 *
 * @example
 * typeof chessWorld() // 'function'
 */
export const chessWorld = (
  load: () => Promise<unknown> = () => importPackage('chess.js', import.meta),
): TE.TaskEither<PackageFailure, TextWorld<ChessState>> =>
  pipe(
    optionalPackage('chess.js', 'chess', load as () => Promise<Library>), // cast: what the package exports
    TE.map((lib) => ({
      name: 'chess',
      description: 'Solves a chess puzzle. Actions: move e2e4 (UCI), board, moves.',
      start: (args) => startOf(lib, args),
      act: (state, action) => {
        const wanted = action.trim().toLowerCase()
        if (state.end !== 'open') return viewOf(lib, state, 'The puzzle is over.')
        const legal = new lib.Chess(state.fen).moves({ verbose: true }).map(({ lan }) => lan)
        if (wanted === 'board') return viewOf(lib, state, described(lib, state.fen))
        if (wanted === 'moves') return viewOf(lib, state, legal.join(' '))
        const uci = wanted.replace(/^move /, '')
        return legal.includes(uci) ? played(lib, state, uci) : viewOf(lib, state, 'That is no legal move.')
      },
    })),
  )
