/**
 * For those who train in games and let players meet: games as environments, runs of self-play,
 * exact evaluation, players of many kinds, tournaments, and statistics with intervals. The rules of
 * games are in `@tandem-rl/games/rules`.
 *
 * @module
 */
export { gameNamed } from './arena/config/games.js'
export { applyOverrides } from './arena/config/overrides.js'
export { type ArenaConfig, arenaConfig, type ConfigProblem } from './arena/config/schema.js'
export { type ArenaSetup, type SetupWorld, setUpArena } from './arena/config/setup.js'
export { type LogContents, openTournamentLog, type TournamentLog } from './arena/matches/log.js'
export { type Pairing, planTournament, type TournamentOptions } from './arena/matches/plan.js'
export type { GamePlan } from './arena/matches/playGame.js'
export type { GameRecord, MoveRecord, PendingMove } from './arena/matches/records.js'
export {
  type FailedGame,
  type RunTournamentOptions,
  runTournament,
  type TournamentEvent,
  type TournamentResult,
} from './arena/matches/tournament.js'
export { type SolveOptions, solveGame } from './arena/players/cfr.js'
export { type LanguageModelPlayerOptions, languageModelPlayer } from './arena/players/languageModel.js'
export { type MctsOptions, mctsPlayer } from './arena/players/mcts.js'
export { type MinimaxOptions, minimaxPlayer } from './arena/players/minimax.js'
export {
  anyGame,
  type IllegalAttempt,
  type MoveContext,
  type MoveUsage,
  type OpenPosition,
  type Player,
  type PlayerFailure,
  type PlayerMove,
  playerFailure,
  type Scene,
} from './arena/players/player.js'
export { humanPlayer, type MixturePart, mixturePlayer, randomPlayer, tabularPlayer } from './arena/players/simple.js'
export {
  type Exploitability,
  type ExploitabilityOptions,
  measureExploitability,
} from './arena/statistics/exploitability.js'
export { binomialTest, type Trials, wilsonInterval } from './arena/statistics/intervals.js'
export type { PairScore } from './arena/statistics/outcomes.js'
export { type OutcomeShares, type RandomBaseline, randomBaseline } from './arena/statistics/randomPlay.js'
export { type Rating, ratingsOf } from './arena/statistics/ratings.js'
export { type ReasoningKind, type ReasoningProfile, reasoningProfiles } from './arena/statistics/reasoning.js'
export {
  type ArenaResults,
  arenaResults,
  type GameResult,
  type MoveTally,
  type PairResult,
  type PlayerResult,
  type RandomTest,
  type ResultsOptions,
  type Tally,
  type TokenPrice,
} from './arena/statistics/results.js'
export {
  type GameEntries,
  GameEnv,
  type GameEnvOptions,
  type GameEnvState,
  type GameText,
  type PlayedGame,
  type PromptScene,
} from './games/gameEnv.js'
export type { ActionReader, GameShaping, GameTransition } from './games/gameScene.js'
export { type GameTokenState, gameTokenEnv } from './games/gameTokenEnv.js'
export { type SoloGameOptions, seatTasks, soloGame } from './games/soloGame.js'
export { gameMetrics } from './run/gameMetrics.js'
export {
  type GamePlayOptions,
  type GameRunModels,
  type GameRunParts,
  type GameRunSettings,
  gameRun,
  gameSettings,
} from './run/gameRun.js'
export {
  type ModelDecision,
  type ModelDecisionsOptions,
  modelDecisions,
  type NashConvOptions,
  nashConvEvaluator,
} from './run/modelDecisions.js'
