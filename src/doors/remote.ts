/**
 * For those whose models run on servers: wrappers and clients for vLLM, chat APIs and the AI SDK,
 * pools of engines, policies by name, and updaters that send new weights to running engines.
 *
 * @module
 */
import '@tandem-rl/tfjs-onnxruntime'

export {
  type HttpEvents,
  type HttpFailure,
  type HttpFailureKind,
  type HttpReply,
  type HttpRequest,
  type Limiter,
  limiter,
  type Repeat,
  type Transport,
  type TransportState,
} from '@tandem-rl/base'
export { liveTransport, type TransportOptions } from '@tandem-rl/host'
export { type DecoderForms, type DecoderFormsOptions, decoderForms } from '../collectors/updaters/decoderForms.js'
export { type EngineUpdater, engineUpdater, type UpdaterState } from '../collectors/updaters/engineUpdater.js'
export type { ServerStatus } from '../collectors/updaters/member.js'
export type { RecoveredServer } from '../collectors/updaters/recovery.js'
export type { ProbeGap, PushFailure, PushPhase, PushReport, ServerReport } from '../collectors/updaters/report.js'
export type { ProbeTolerance } from '../collectors/updaters/serverRun.js'
export type {
  EngineUpdaterOptions,
  PlacedWeights,
  SyncSettings,
  VerifyOptions,
  WeightForms,
} from '../collectors/updaters/settings.js'
export type { OnLost } from '../collectors/updaters/transaction.js'
export { type VLLMUpdaterOptions, vLLMUpdater } from '../collectors/updaters/vLLMUpdater.js'
export type { EngineAbilities, EngineClient, EngineFailure, EngineState, ServingWeights } from '../data/engineClient.js'
export {
  type AISDKConfig,
  type AIWorld,
  aiSDKWrapper,
  type LanguageModel,
} from '../modules/remote/chat/aiSDKWrapper.js'
export type {
  Capture,
  CapturedAction,
  ChatAction,
  ChatAnswer,
  ChatFinish,
  ChatOutput,
  ChatUsage,
} from '../modules/remote/chat/chatAction.js'
export type { CallReading } from '../modules/remote/chat/chatReply.js'
export type {
  ChatDialect,
  ChatOptions,
  ChatTool,
  OpenAIWrapperOptions,
  ToolChoice,
} from '../modules/remote/chat/clientConfig.js'
export { type ChatPolicy, OpenAIWrapper } from '../modules/remote/chat/openAIWrapper.js'
export type { RegistryFailure } from '../modules/remote/chat/policyKeys.js'
export type {
  LanguageModelRegistry,
  NamedPolicy,
  RegistryOptions,
  RegistryWorld,
  ReplyScorer,
} from '../modules/remote/chat/policyLookup.js'
export { resolvePolicy } from '../modules/remote/chat/policyRegistry.js'
export { clientEngine } from '../modules/remote/clientEngine.js'
export { type EnginePool, type EnginePoolOptions, enginePool } from '../modules/remote/enginePool.js'
export type { GenerateOptions } from '../modules/remote/generateOptions.js'
export { localClient } from '../modules/remote/localClient.js'
export type { PoolMember, Readmission } from '../modules/remote/poolMembers.js'
export { type VLLMClientOptions, vLLMClient } from '../modules/remote/vllm/client.js'
export { type ClientPolicy, type VLLMWrapperOptions, vLLMWrapper } from '../modules/remote/vllm/vLLMWrapper.js'
export type { WorkerProblem } from '../modules/remote/vllmWorker/diagnosis.js'
export {
  type EngineArgument,
  engineArguments,
  type VLLMEngineArguments,
} from '../modules/remote/vllmWorker/engineArguments.js'
export {
  makeVLLMWorker,
  type VLLMWorker,
  type VLLMWorkerOptions,
  type WorkerEnd,
  type WorkerFailure,
} from '../modules/remote/vllmWorker/vllmWorker.js'
