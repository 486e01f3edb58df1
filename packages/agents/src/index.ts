/**
 * For those who have agents: agents with tools and their backends, environments with several
 * agents, simulated users, and the rows and advantages that train them.
 *
 * @module
 */
export { Agent, type AgentOptions, type AgentRunOptions, type TrainedEnvOptions } from './agents/agent.js'
export type { AgentEnvOptions, AgentParts, AgentState } from './agents/agentEnv.js'
export {
  ActionAgent,
  type AgentFactory,
  AutoAgent,
  BashSWEAgent,
  CodeAgent,
  FunctionCallSWEAgent,
  HFAgent,
  type NamedAgentOptions,
  Qwen3CoderSWEAgent,
  ReactAgent,
  SearchR1Agent,
} from './agents/agents.js'
export { AsyncVerlBackend } from './agents/backends/asyncVerl.js'
export { AsyncVLLMBackend } from './agents/backends/asyncVLLM.js'
export type {
  BackendEvent,
  BackendReply,
  BackendSeat,
  BackendTools,
  GenerateRequest,
  GenerationConfig,
  LLMBackend,
  LLMBackendName,
} from './agents/backends/backend.js'
export { ClientBackend } from './agents/backends/client.js'
export {
  AsyncVerlConfig,
  type AsyncVerlOptions,
  AsyncVLLMConfig,
  type AsyncVLLMOptions,
  type BackendConfig,
  ClientConfig,
  type ClientOptions,
  type TrainerPolicy,
} from './agents/backends/configs.js'
export type { BackendModel } from './agents/backends/modelTexts.js'
export { type InputMessages, inputTasks, type MessagesRow, type PlainMessage } from './agents/conversations.js'
export type { ChainEvent, ChainHappening, ChainObserver, ChainPlace } from './agents/events.js'
export type { AgentKind, ReadReply, TextReader } from './agents/kinds/kind.js'
export { agentMetrics } from './agents/metrics.js'
export { type AgentMonitor, type AgentMonitorOptions, agentMonitor } from './agents/monitor.js'
export { type ChainProgress, consoleObserver, progressObserver } from './agents/observers.js'
export type {
  AgentRunResult,
  ChainCall,
  ChainFinish,
  ChainSegment,
  ChainTokens,
  ChainTrajectory,
  ChainTurn,
} from './agents/trajectory.js'
export { type AgentPolicyOptions, agentPolicy } from './multiAgent/agentPolicy.js'
export { agentRows } from './multiAgent/agentRows.js'
export { type AgentSpeech, type AgentTemplateOptions, agentTemplate } from './multiAgent/agentTemplate.js'
export type { AgentScene } from './multiAgent/agentView.js'
export {
  type AgentRewards,
  type AgentRole,
  type Discussion,
  MultiAgentEnv,
  type MultiAgentEnvOptions,
  type MultiAgentState,
  type Verdict,
} from './multiAgent/multiAgentEnv.js'
export { type RoleAdvantageOptions, roleAdvantage } from './multiAgent/roleAdvantage.js'
export { type ActionsByName, type NamedPolicies, type StateOfAll, sideBySide } from './multiAgent/sideBySide.js'
export {
  type AgentTurn,
  byMention,
  type NextTurn,
  type RoundsOptions,
  roundRobin,
  simultaneous,
  type TurnOrder,
} from './multiAgent/turnOrder.js'
export {
  type SimulatedUser,
  type UserScene,
  type UserSimulatorOptions,
  userSimulator,
  userView,
} from './multiAgent/userSimulator.js'
