/** Models in this process: loading, saving, sampling, scoring. */

export { type AgentPolicyOptions, agentPolicy } from './agentPolicy.js'
export type { WeightTransport } from './generation/engineMessages.js'
export { type FolderEngineOptions, folderEngine, folderEngineModule } from './generation/folderEngine.js'
export {
  collectEvents,
  type Generated,
  type GeneratedCompletion,
  generateAll,
} from './generation/generateAll.js'
export {
  type Completion,
  type CompletionGenerator,
  type CompletionRequest,
  completionKeys,
  type GenerationOptions,
  makeGenerator,
  type TokenChoice,
} from './generation/generator.js'
export {
  type EngineLimits,
  type LLMEngineOptions,
  type LocalLLMEngine,
  makeLLMEngine,
} from './generation/llmEngine.js'
export { type ModelEngineOptions, modelEngine } from './generation/modelEngine.js'
export { type EngineModule, LLMOnDevice, type OnDeviceOptions } from './generation/onDevice.js'
export type { MixedVersions } from './generation/policy/actionRows.js'
export {
  type EnginePolicy,
  type EnginePolicyLimits,
  type EnginePolicyOptions,
  type EngineSampling,
  enginePolicy,
  type PolicyEngine,
} from './generation/policy/enginePolicy.js'
export type { Truncation } from './generation/policy/requestPlan.js'
export { makeRunner, type Rounding, type RunnerOptions } from './generation/runner/runner.js'
export { addToken, countTokens, type OwnCounts, type TokenCounts } from './generation/sampling/counts.js'
export { type PromptLogProbOptions, promptLogProbs, tokenLogProbs } from './generation/sampling/logProbs.js'
export {
  checkSampling,
  DEFAULT_SAMPLING,
  type SamplingLimits,
  samplingParams,
} from './generation/sampling/params.js'
export { type SampledToken, type SampleState, sampleToken } from './generation/sampling/sampleToken.js'
export {
  bannedTokens,
  type Finish,
  readEnd,
  readTokens,
  type StopResult,
  type StopRules,
  type StopState,
  stopTracker,
} from './generation/sampling/stopTracker.js'
export { type HistoryPolicyOptions, type HistoryTokens, historyPolicy } from './historyPolicy.js'
export {
  type Adapter,
  initialLora,
  type LoraParams,
  loraScalings,
  mergeLora,
  withLora,
} from './lora/adapter.js'
export {
  DEFAULT_LORA,
  type LoraConfig,
  type LoraScaling,
  loraConfig,
} from './lora/config.js'
export { type AdapterFilesOptions, adapterFiles, type LoadedAdapter, loadAdapter } from './lora/peft.js'
export { adapterFromWeights, adapterWeights } from './lora/weights.js'
export {
  CHAT_ML,
  type ChatFormat,
  type ModelSizes,
  type NewModelOptions,
  type NewTokenizer,
  newModel,
} from './pretrained/newModel.js'
export {
  hostArrays,
  type LoadOptions,
  loadConfig,
  loadPretrained,
  loadText,
  loadWeights,
  type ModelText,
  makeParams,
  type Pretrained,
  type PretrainedFilesOptions,
  pretrainedFiles,
  type SaveOptions,
  saveModel,
  type TextFiles,
  type TextOptions,
  textFromFiles,
} from './pretrained/pretrained.js'
export { sharedParams } from './pretrained/sharedParams.js'
export { untieEmbeddings } from './pretrained/untie.js'
export {
  type AISDKConfig,
  AISDKWrapper,
  type AIWorld,
  type LanguageModel,
} from './remote/chat/aiSDKWrapper.js'
export type {
  Capture,
  CapturedAction,
  ChatAction,
  ChatAnswer,
  ChatFinish,
  ChatOutput,
  ChatUsage,
} from './remote/chat/chatAction.js'
export type { CallReading } from './remote/chat/chatReply.js'
export type { ChatDialect, ChatOptions, ChatTool, ClientConfig, ToolChoice } from './remote/chat/clientConfig.js'
export { type ChatPolicy, OpenAIWrapper } from './remote/chat/openAIWrapper.js'
export type { RegistryFailure } from './remote/chat/policyKeys.js'
export {
  type NamedPolicy,
  type RegistryOptions,
  type RegistryWorld,
  resolvePolicy,
} from './remote/chat/policyRegistry.js'
export type { ClientPolicy, WrapperOptions } from './remote/clientPolicy.js'
export {
  type EnginePool,
  type EnginePoolOptions,
  enginePool,
  type PoolMember,
  type Readmission,
} from './remote/enginePool.js'
export type { GenerateOptions } from './remote/generateOptions.js'
export { localClient } from './remote/localClient.js'
export { SGLangClient, type SGLangClientOptions, type SGLangLimits } from './remote/sglang/client.js'
export { SGLangWrapper, type SGLangWrapperOptions } from './remote/sglang/SGLangWrapper.js'
export { type VLLMClientOptions, vLLMClient } from './remote/vllm/client.js'
export { type VLLMWrapperOptions, vLLMWrapper } from './remote/vllm/vLLMWrapper.js'
export { type VLLMWeightTransfer, vLLMWeightTransfer } from './remote/vllm/weightTransfer.js'
export type { WorkerProblem } from './remote/vllmWorker/diagnosis.js'
export { type AsyncVLLMConfig, type EngineArgument, engineArguments } from './remote/vllmWorker/engineArguments.js'
export {
  makeVLLMWorker,
  type VLLMWorker,
  type VLLMWorkerOptions,
  type WorkerEnd,
  type WorkerFailure,
} from './remote/vllmWorker/vllmWorker.js'
export type {
  AttentionDescription,
  FeedForwardDescription,
  LayerKind,
  Norm,
  Projection,
  Residual,
  RopeScaling,
  RotaryDescription,
} from './transformer/config/description.js'
export {
  ARCHITECTURES,
  type Architecture,
  type DecoderConfig,
  formatConfig,
  parseConfig,
} from './transformer/config.js'
export {
  forwardSegment,
  type LayerCache,
  logitsOf,
  type Past,
  type Segment,
  type SegmentResult,
} from './transformer/forward.js'
export {
  completionBatch,
  groupPrompts,
  type PackedCompletions,
  type PromptGroups,
  packCompletions,
} from './transformer/pack.js'
export { initialParams, type Params, parameterCount, parameterShapes } from './transformer/params.js'
export { type RotaryTableOptions, type RotaryTables, rotaryTables } from './transformer/rotaryTables.js'
export { type CompletionBatch, completionLogits } from './transformer/score.js'
export { makeScorer, type Scorer } from './transformer/scorer.js'
export { type TransformersPolicy, TransformersWrapper, type TransformersWrapperOptions } from './transformersWrapper.js'
export {
  initialValueHead,
  loadValueHead,
  makeValuer,
  stateValues,
  type ValuedRows,
  type Valuer,
  valueHeadFiles,
  valueHeadShapes,
  withoutValueHead,
} from './valueHead.js'
