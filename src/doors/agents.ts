/**
 * For those who have several speakers or an agent of their own: environments with several agents,
 * simulated users, and the proxy that captures the sessions of an agent as training data.
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
export type { AgentAttempt, AgentModel, CapturedAgent, OpenAgent, PlayedAttempt } from '../data/capture/agent.js'
export { readCapture } from '../data/capture/records.js'
export type { CapturedCall, CapturedCompletion, CapturedSession } from '../data/capture/session.js'
export type { ChainSplit, SplitReason } from '../data/capture/splits.js'
export { type CapturedTrajectory, type SessionTrajectories, sessionTrajectories } from '../data/capture/trajectories.js'
export { type AgentSpeech, type AgentTemplateOptions, agentTemplate } from '../envs/agents/agentTemplate.js'
export { type AgentScene, agentView, type OthersAs } from '../envs/agents/agentView.js'
export {
  type AgentRewards,
  type AgentRole,
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
export { type AgentPolicyOptions, agentPolicy } from '../modules/agentPolicy.js'
export { clientEngine } from '../modules/remote/clientEngine.js'
export { type ActionsByName, type NamedPolicies, type StateOfAll, sideBySide } from '../modules/sideBySide.js'
export { type CaptureAgentOptions, type CommandAgent, capture, type RunAgent } from '../serve/capture/agent.js'
export { type CaptureApp, type CaptureOptions, captureApp } from '../serve/capture/app.js'
export { type CaptureJournal, openJournal } from '../serve/capture/journal.js'
export type { AgentContext } from '../serve/capture/program.js'
export { type RecordedCompletion, type RecordedGeneration, recordingEngine } from '../serve/capture/recording.js'
export type { CaptureLimits } from '../serve/capture/sessions.js'
