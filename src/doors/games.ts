/**
 * For those who play and train in games: the rules of board, card, dice and matrix games as pure
 * values. `defineGame` makes a game of your own rules.
 *
 * @module
 */

export { type BreakthroughOptions, type BreakthroughPosition, breakthrough } from '../envs/games/breakthrough.js'
export {
  type ChessBoard,
  type ChessLibrary,
  type ChessMove,
  type ChessOptions,
  type ChessPosition,
  chess,
} from '../envs/games/chess.js'
export { type ConnectFourOptions, type ConnectFourPosition, connectFour } from '../envs/games/connectFour.js'
export {
  type BestResponse,
  bestResponse,
  expectedReturns,
  type GameDecision,
  type GamePolicy,
  nashConv,
  uniformGamePolicy,
} from '../envs/games/exactValues.js'
export {
  type ChanceOutcome,
  defineGame,
  drawChance,
  equalOutcomes,
  type Game,
  type GameActor,
  type GameMove,
  type GameRules,
  type GameState,
  type GameTurn,
  type GameViews,
  playersOf,
  replayGame,
} from '../envs/games/game.js'
export { type ActionFailure, type GamePromptOptions, gamePrompt, parseAction } from '../envs/games/gameText.js'
export { type HexOptions, type HexPosition, hex } from '../envs/games/hex.js'
export type { IllegalMoveRule } from '../envs/games/illegalMove.js'
export { type KuhnPokerOptions, type KuhnPokerPosition, kuhnPoker } from '../envs/games/kuhnPoker.js'
export { type LeducPokerOptions, type LeducPokerPosition, leducPoker } from '../envs/games/leducPoker.js'
export { type LiarsDiceOptions, type LiarsDicePosition, liarsDice } from '../envs/games/liarsDice.js'
export {
  battleOfTheSexes,
  biasedRockPaperScissors,
  chicken,
  coordination,
  type MatrixGameOptions,
  type MatrixPosition,
  matchingPennies,
  matchingPennies3,
  matrixGame,
  prisonersDilemma,
  rockPaperScissors,
  rockPaperScissorsWater,
  shapleysGame,
  stagHunt,
} from '../envs/games/matrixGames.js'
export { misere } from '../envs/games/misere.js'
export {
  type NegotiationDeal,
  type NegotiationOptions,
  type NegotiationPosition,
  negotiation,
} from '../envs/games/negotiation.js'
export { type NimOptions, type NimPosition, nim } from '../envs/games/nim.js'
export { type PhantomTicTacToePosition, phantomTicTacToe } from '../envs/games/phantomTicTacToe.js'
export { type PigOptions, type PigPosition, pig } from '../envs/games/pig.js'
export { type RepeatedGameOptions, type RepeatedPosition, repeatedGame } from '../envs/games/repeatedGame.js'
export {
  type SecretPosition,
  type SecretThing,
  type TwentyQuestionsOptions,
  twentyQuestions,
  type WordGuessOptions,
  wordGuess,
} from '../envs/games/secretGames.js'
export {
  type GameStrategy,
  minimaxStrategy,
  policyStrategy,
  type StrategyScene,
} from '../envs/games/strategies.js'
export { type TextArenaGame, type TextArenaOptions, textArenaGame, textArenaRead } from '../envs/games/textArena.js'
export { type TicTacToePosition, ticTacToe } from '../envs/games/ticTacToe.js'
