/** Games by the names that configurations use. */
import { errorMessage, optionalPackage, unknownName } from '@tandem-rl/base'
import { importPackage } from '@tandem-rl/base/host'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { PackageFailure } from 'tandem-rl/files'
import { breakthrough } from '../../games/breakthrough.js'
import { type ChessLibrary, chess } from '../../games/chess.js'
import { connectFour } from '../../games/connectFour.js'
import type { Game } from '../../games/game.js'
import { hex } from '../../games/hex.js'
import { kuhnPoker } from '../../games/kuhnPoker.js'
import { leducPoker } from '../../games/leducPoker.js'
import { liarsDice } from '../../games/liarsDice.js'
import {
  battleOfTheSexes,
  biasedRockPaperScissors,
  chicken,
  coordination,
  type MatrixPosition,
  matchingPennies,
  matchingPennies3,
  prisonersDilemma,
  rockPaperScissors,
  rockPaperScissorsWater,
  shapleysGame,
  stagHunt,
} from '../../games/matrixGames.js'
import { negotiation } from '../../games/negotiation.js'
import { nim } from '../../games/nim.js'
import { phantomTicTacToe } from '../../games/phantomTicTacToe.js'
import { pig } from '../../games/pig.js'
import { repeatedGame } from '../../games/repeatedGame.js'
import { twentyQuestions, wordGuess } from '../../games/secretGames.js'
import { ticTacToe } from '../../games/ticTacToe.js'
import { anyGame } from '../players/player.js'

type GameOptions = Readonly<Record<string, unknown>>

/** Makes a game of its options. The factories check the options themselves. */
type MakeGame = (options: GameOptions) => Game

const fixed =
  (game: Game): MakeGame =>
  (options) => {
    const [option] = Object.keys(options)
    if (option !== undefined) throw new RangeError(`unknown option '${option}' (the game has no options)`)
    return game
  }

/** The matrix games, which can be the stage of a repeated game. Some have two names. */
const MATRIX_GAMES: Readonly<Record<string, Game<MatrixPosition>>> = {
  matrix_pd: prisonersDilemma,
  prisoners_dilemma: prisonersDilemma,
  matrix_mp: matchingPennies,
  matching_pennies: matchingPennies,
  matching_pennies_3p: matchingPennies3,
  matrix_rps: rockPaperScissors,
  rock_paper_scissors: rockPaperScissors,
  matrix_sh: stagHunt,
  stag_hunt: stagHunt,
  matrix_bos: battleOfTheSexes,
  matrix_brps: biasedRockPaperScissors,
  matrix_cd: chicken,
  matrix_coordination: coordination,
  matrix_rpsw: rockPaperScissorsWater,
  matrix_shapleys_game: shapleysGame,
}

const stageNamed = (name: unknown): Game<MatrixPosition> => {
  const stage = Object.hasOwn(MATRIX_GAMES, String(name)) ? MATRIX_GAMES[String(name)] : undefined
  if (stage === undefined) throw new RangeError(unknownName('stage', String(name), Object.keys(MATRIX_GAMES)))
  return stage
}

/** Games by name. */
const GAMES: Readonly<Record<string, MakeGame>> = {
  tic_tac_toe: fixed(anyGame(ticTacToe)),
  connect_four: (options) => anyGame(connectFour(options)),
  kuhn_poker: (options) => anyGame(kuhnPoker(options)),
  leduc_poker: (options) => anyGame(leducPoker(options)),
  liars_dice: (options) => anyGame(liarsDice(options)),
  ...Object.fromEntries(Object.entries(MATRIX_GAMES).map(([name, game]) => [name, fixed(anyGame(game))])),
  repeated_game: ({ stage = 'matrix_pd', rounds = 10, ...options }) =>
    anyGame(repeatedGame({ game: stageNamed(stage), rounds: rounds as number, ...options })), // it checks them itself
  hex: (options) => anyGame(hex(options)),
  breakthrough: (options) => anyGame(breakthrough(options)),
  nim: (options) => anyGame(nim(options)),
  pig: (options) => anyGame(pig(options)),
  negotiation: (options) => anyGame(negotiation(options)),
  phantom_ttt: fixed(anyGame(phantomTicTacToe)),
  word_guess: (options) => anyGame(wordGuess(options)),
  twenty_questions: (options) => anyGame(twentyQuestions(options)),
}

/** The names of all games. */
export const GAME_NAMES: readonly string[] = Object.keys(GAMES)

const CHESS = 'chess'

/** The names of the games that `loadGame` makes. */
const LOADED_GAME_NAMES: readonly string[] = [...GAME_NAMES, CHESS]

/** Returns the game with the given name, followed by the options in parentheses. */
const renamed = (name: string, options: GameOptions, make: MakeGame): Game => {
  const given = Object.entries(options).map(([option, value]) => `${option}=${JSON.stringify(value)}`)
  try {
    return { ...make(options), name: given.length === 0 ? name : `${name}(${given.join(',')})` }
  } catch (error) {
    throw new RangeError(`${name}: ${errorMessage(error)}`)
  }
}

/**
 * Makes the game of a name. Its own name is the given one, with the options in parentheses.
 *
 * Errors   throws RangeError for an unknown name, with the nearest known one, and for wrong
 *          options. Chess needs a package that is loaded asynchronously: use `loadGame`.
 *
 * @example
 * gameNamed('kuhn_poker', { players: 3 }).name // 'kuhn_poker(players=3)'
 */
export const gameNamed = (name: string, options: GameOptions = {}): Game => {
  const make = Object.hasOwn(GAMES, name) ? GAMES[name] : undefined
  if (name === CHESS) throw new RangeError('chess needs a package that is loaded asynchronously: use loadGame')
  if (make === undefined)
    throw new RangeError(
      `${unknownName('game', name, LOADED_GAME_NAMES)} (the games are ${LOADED_GAME_NAMES.join(', ')})`,
    )
  return renamed(name, options, make)
}

/**
 * Makes the game of a name as `gameNamed` does, or chess, for which it loads `chess.js`.
 *
 * Errors   `Left(PackageFailure)` if the package is not installed; throws as `gameNamed`.
 */
export const loadGame = (name: string, options: GameOptions = {}): TE.TaskEither<PackageFailure, Game> => {
  if (name !== CHESS) return TE.right(gameNamed(name, options))
  return pipe(
    optionalPackage('chess.js', CHESS, () => importPackage<ChessLibrary>('chess.js', import.meta)),
    TE.map((library) => renamed(CHESS, options, (given) => anyGame(chess({ ...given, library })))),
  )
}
