/**
 * For those who have several speakers or an agent of their own: environments with several agents,
 * games and self-play, simulated users, and the proxy that captures the sessions of an agent as training data.
 */
import '../engine/defaultBackend.js'

export { agentRows } from '../collectors/agentRows.js'
export {
  type CapturedBatch,
  type CapturedBatchFailure,
  type CapturedBatchOptions,
  type CapturedEntries,
  capturedBatch,
  type OmittedSession,
} from '../collectors/captured.js'
export { type RoleAdvantageOptions, roleAdvantage } from '../collectors/roleAdvantage.js'
export { readCapture } from '../data/capture/records.js'
export type { CapturedCall, CapturedCompletion, CapturedSession } from '../data/capture/session.js'
export type { ChainSplit, SplitReason } from '../data/capture/splits.js'
export { type CapturedTrajectory, type SessionTrajectories, sessionTrajectories } from '../data/capture/trajectories.js'
export { type AgentSpeech, type AgentTemplateOptions, agentTemplate } from '../envs/agents/agentTemplate.js'
export { type AgentScene, agentView, type OthersAs } from '../envs/agents/agentView.js'
export {
  type Agent,
  type AgentRewards,
  type Discussion,
  MultiAgentEnv,
  type MultiAgentEnvOptions,
  type MultiAgentState,
  type Verdict,
} from '../envs/agents/multiAgentEnv.js'
export {
  type AgentTurn,
  byMention,
  type NextTurn,
  type RoundsOptions,
  roundRobin,
  simultaneous,
  type TurnOrder,
} from '../envs/agents/turnOrder.js'
export {
  type SimulatedUser,
  type UserScene,
  type UserSimulatorOptions,
  userSimulator,
  userView,
} from '../envs/agents/userSimulator.js'
export {
  defaultGamePrompt,
  type GameEntries,
  GameEnv,
  type GameEnvOptions,
  type GameEnvState,
  type GameText,
  type PlayedGame,
  type PromptScene,
  seatName,
} from '../envs/games/gameEnv.js'
export type { ActionReader, GameShaping, GameTransition } from '../envs/games/gameScene.js'
export { type GameTokenState, gameTokenEnv } from '../envs/games/gameTokenEnv.js'
export { type AgentPolicyOptions, agentPolicy } from '../modules/agentPolicy.js'
export { type ActionsByName, type NamedPolicies, type StateOfAll, sideBySide } from '../modules/sideBySide.js'
export { gameMetrics, playedGames } from '../run/games/gameMetrics.js'
export {
  type GameRunModels,
  type GameRunParts,
  type GameRunSettings,
  gameRun,
  gameSettings,
  type PlayOptions,
} from '../run/games/gameRun.js'
export {
  decisionPolicy,
  type ModelDecision,
  type ModelDecisionsOptions,
  modelDecisions,
  type NashConvOptions,
  nashConvEvaluator,
} from '../run/games/modelDecisions.js'
export { type CaptureApp, type CaptureOptions, captureApp } from '../serve/capture/app.js'
export { clientEngine } from '../serve/capture/clientEngine.js'
export { type CaptureJournal, openJournal } from '../serve/capture/journal.js'
export { type RecordedCompletion, type RecordedGeneration, recordingEngine } from '../serve/capture/recording.js'
export type { CaptureLimits } from '../serve/capture/sessions.js'
