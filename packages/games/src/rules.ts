/**
 * For those who play and train in games: the rules of board, card, dice and matrix games as pure
 * values. `defineGame` makes a game of your own rules.
 *
 * @module
 */

export { type BreakthroughOptions, type BreakthroughPosition, breakthrough } from './games/breakthrough.js'
export {
  type ChessBoard,
  type ChessLibrary,
  type ChessMove,
  type ChessOptions,
  type ChessPosition,
  chess,
} from './games/chess.js'
export { type ConnectFourOptions, type ConnectFourPosition, connectFour } from './games/connectFour.js'
export {
  type BestResponse,
  bestResponse,
  expectedReturns,
  type GameDecision,
  type GamePolicy,
  nashConv,
  uniformGamePolicy,
} from './games/exactValues.js'
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
} from './games/game.js'
export { type ActionFailure, type GamePromptOptions, gamePrompt, parseAction } from './games/gameText.js'
export { type HexOptions, type HexPosition, hex } from './games/hex.js'
export type { IllegalMoveRule } from './games/illegalMove.js'
export { type KuhnPokerOptions, type KuhnPokerPosition, kuhnPoker } from './games/kuhnPoker.js'
export { type LeducPokerOptions, type LeducPokerPosition, leducPoker } from './games/leducPoker.js'
export { type LiarsDiceOptions, type LiarsDicePosition, liarsDice } from './games/liarsDice.js'
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
} from './games/matrixGames.js'
export { misere } from './games/misere.js'
export {
  type NegotiationDeal,
  type NegotiationOptions,
  type NegotiationPosition,
  negotiation,
} from './games/negotiation.js'
export { type NimOptions, type NimPosition, nim } from './games/nim.js'
export { type PhantomTicTacToePosition, phantomTicTacToe } from './games/phantomTicTacToe.js'
export { type PigOptions, type PigPosition, pig } from './games/pig.js'
export { type RepeatedGameOptions, type RepeatedPosition, repeatedGame } from './games/repeatedGame.js'
export {
  type SecretPosition,
  type SecretThing,
  type TwentyQuestionsOptions,
  twentyQuestions,
  type WordGuessOptions,
  wordGuess,
} from './games/secretGames.js'
export {
  type GameStrategy,
  minimaxStrategy,
  policyStrategy,
  type StrategyScene,
} from './games/strategies.js'
export { type TextArenaGame, type TextArenaOptions, textArenaGame, textArenaRead } from './games/textArena.js'
export { type TicTacToePosition, ticTacToe } from './games/ticTacToe.js'
