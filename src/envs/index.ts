export { ChatEnv, type ChatEnvOptions, type ChatState } from './chatEnv.js'
export { DatasetChatEnv, type DatasetChatEnvOptions, type DatasetChatState } from './datasetChatEnv.js'
export { type Env, type EnvFailure, type EnvSpecs, nextRequest, type Outcome, outcomeSpec } from './env.js'
export { GSM8K_SYSTEM_PROMPT, GSM8KEnv, type GSM8KEnvOptions, type GSM8KState } from './gsm8kEnv.js'
export { canonicalNumber, type GSM8KReward, type GSM8KRewardOptions, gsm8kReward } from './rewards/gsm8k.js'
export { type OverlongOptions, overlongReward } from './rewards/overlong.js'
export {
  type Tool,
  type ToolContext,
  type ToolFailure,
  type ToolOptions,
  type ToolReply,
  tool,
  toolFailure,
} from './tools/tool.js'
export { ToolRegistry, type ToolSpec, toolSpecs } from './tools/toolRegistry.js'
export {
  DataLoadingPrimer,
  type DataLoadingPrimerOptions,
  type SourcePosition,
  type TaskEntries,
} from './transforms/dataLoadingPrimer.js'
export { type GSM8KParts, GSM8KRewardParser, type GSM8KRewardParserOptions } from './transforms/gsm8kRewardParser.js'
export { type KLEntries, KLRewardTransform, type KLRewardTransformOptions } from './transforms/klRewardTransform.js'
export { ObservationLimit, type ObservationLimitOptions } from './transforms/observationLimit.js'
export { type LengthEntries, OverlongPenalty } from './transforms/overlongPenalty.js'
export { PolicyVersion, type VersionEntry } from './transforms/policyVersion.js'
export { type StepCount, StepCounter } from './transforms/stepCounter.js'
export { TemplateTransform, type TemplateTransformOptions, type TextEntries } from './transforms/templateTransform.js'
export { Tokenizer } from './transforms/tokenizer.js'
export {
  type Added,
  append,
  compose,
  identity,
  type StepContext,
  type Stepped,
  type Transform,
  type TransformParts,
  transform,
} from './transforms/transform.js'
