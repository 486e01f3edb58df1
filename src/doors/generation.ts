/**
 * For those who generate with a model in this process: the engine with continuous batching, on this
 * thread or another, its requests, events, sampling and limits.
 *
 * @module
 */
import '@tandem-rl/tfjs-onnxruntime'

export type {
  AdapterWeights,
  EngineInfo,
  EngineMetrics,
  FinishReason,
  GeneratedToken,
  GenerationEvent,
  GenerationFailure,
  GenerationRequest,
  LLMEngine,
  LogProbsMode,
  PauseMode,
  PlainArray,
  PromptLogProbs,
  PromptTokenLogProb,
  SamplingParams,
  TokenLogProb,
  WeightSource,
} from '@tandem-rl/text'
export type { WeightTransport } from '../modules/generation/engineMessages.js'
export { type FolderEngineOptions, folderEngine, folderEngineModule } from '../modules/generation/folderEngine.js'
export { type Generated, type GeneratedCompletion, generateAll } from '../modules/generation/generateAll.js'
export {
  type Completion,
  type CompletionGenerator,
  type CompletionRequest,
  completionKeys,
  type GenerationOptions,
  makeGenerator,
  type TokenChoice,
} from '../modules/generation/generator.js'
export {
  type EngineLimits,
  type LLMEngineOptions,
  type LocalLLMEngine,
  makeLLMEngine,
} from '../modules/generation/llmEngine.js'
export { type ModelEngineOptions, modelEngine } from '../modules/generation/modelEngine.js'
export { type EngineModule, LLMOnDevice, type OnDeviceOptions } from '../modules/generation/onDevice.js'
export type { MixedVersions } from '../modules/generation/policy/actionRows.js'
export {
  type EnginePolicy,
  type EnginePolicyLimits,
  type EnginePolicyOptions,
  type EngineSampling,
  enginePolicy,
  type PolicyEngine,
} from '../modules/generation/policy/enginePolicy.js'
export type { Truncation } from '../modules/generation/policy/requestPlan.js'
export type { Rounding } from '../modules/generation/runner/modelRunner.js'
export { countTokens, type OwnCounts } from '../modules/generation/sampling/counts.js'
export { type PromptLogProbOptions, promptLogProbs, tokenLogProbs } from '../modules/generation/sampling/logProbs.js'
export {
  checkSampling,
  DEFAULT_SAMPLING,
  type SamplingLimits,
  samplingParams,
} from '../modules/generation/sampling/params.js'
export { type SampledToken, type SampleState, sampleToken } from '../modules/generation/sampling/sampleToken.js'
export {
  type Finish,
  readEnd,
  readTokens,
  type StopResult,
  type StopRules,
  type StopState,
  stopTracker,
} from '../modules/generation/sampling/stopTracker.js'
