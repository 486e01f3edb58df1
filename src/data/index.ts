/** The values that everything else exchanges: TensorDict, History, tokenizers, tasks, specs, policies, files. */

export * from './arithmetic.js'
export type * from './batch.js'
export * from './buffers/index.js'
export {
  type BytePairEncodingOptions,
  type TokenizerJson,
  type TokenizerProgress,
  trainBytePairEncoding,
} from './bytePairEncoding.js'
export { readCapture } from './capture/records.js'
export type { CapturedCall, CapturedCompletion, CapturedSession } from './capture/session.js'
export type { ChainSplit, SplitReason } from './capture/splits.js'
export { type CapturedTrajectory, type SessionTrajectories, sessionTrajectories } from './capture/trajectories.js'
export {
  type ChatTemplate,
  chatTemplate,
  type Rendered,
  type RenderOptions,
  render,
  renderSuffix,
  renderText,
  type TemplateVariables,
  type TextSpan,
} from './chatTemplate.js'
export type { PackageFailure } from './codecs/optionalPackage.js'
export {
  type ParquetFailure,
  type ParquetInfo,
  parquetInfo,
  type ReadParquetOptions,
  readParquet,
} from './codecs/parquet.js'
export type { ParquetType } from './codecs/parquetTypes.js'
export { type EncodeParquetOptions, encodeParquet, type ParquetColumn } from './codecs/parquetWrite.js'
export { decodeValue, encodeValue, type Json, type ValueCodec } from './codecs/plainValues.js'
export {
  decodeSafetensors,
  encodeSafetensors,
  type FileInParts,
  type HostArray,
  type SafetensorsFile,
  type SafetensorsOptions,
  safetensorsParts,
  type WritableArray,
} from './codecs/safetensors.js'
export {
  type OpenSafetensors,
  openSafetensors,
  readSafetensors,
  type SafetensorsReadFailure,
  writeSafetensors,
} from './codecs/safetensorsFile.js'
export type { SafetensorsEntry } from './codecs/safetensorsHeader.js'
export { openCheckpoint, type ShardOptions, shardedSafetensors } from './codecs/safetensorsShards.js'
export { asInt32, type HostNumbers, type MemoryUse, type StorageType, type StoredArray } from './codecs/storage.js'
export { type BoardEvent, encodeBoardEvent } from './codecs/tensorBoard.js'
export {
  readTensorDict,
  readTensorDictAt,
  type TensorDictOpenOptions,
  type TensorDictReadFailure,
  writeTensorDict,
} from './codecs/tensorDictFile.js'
export { decodeTensorDict, decodeTensorDictAt, type TensorDictReadOptions } from './codecs/tensorDictFileRead.js'
export { encodeTensorDict, type TensorDictFileOptions, tensorDictParts } from './codecs/tensorDictFileWrite.js'
export {
  decodeTrajectories,
  encodeTrajectories,
  readTrajectories,
  type SalvagedTrajectories,
  salvageTrajectories,
  type TrajectoryFailure,
} from './codecs/trajectories.js'
export { decodeTrajectoriesParquet, encodeTrajectoriesParquet } from './codecs/trajectoriesParquet.js'
export { appendTrajectories, cutTorn, openTrajectoryLog, type TrajectoryLog } from './codecs/trajectoryLog.js'
export { CONVERSATION_ROW, PREFERENCE_ROW, type PreferencePair } from './datasets/conversationRows.js'
export { finalAnswer, GSM8K, type Gsm8kRow, type Gsm8kTasksOptions, gsm8kTasks } from './datasets/gsm8k.js'
export { IFEVAL, type IfEvalRow, type Instruction } from './datasets/ifEval.js'
export { INSTRUCTION_ARGUMENTS, type InstructionArguments, type InstructionId } from './datasets/ifEvalInstructions.js'
export { collectJsonLines, type NumberedRow, type ReadJsonLinesOptions, readJsonLines } from './datasets/jsonl.js'
export { boxedAnswer, MATH, type MathRow } from './datasets/math.js'
export {
  type DatasetAccess,
  type DatasetFailure,
  fileDataset,
  type HubRows,
  hubDataset,
  hubName,
  openDataset,
  openRows,
  parseHubName,
} from './datasets/open.js'
export {
  type Columns,
  type DatasetFormat,
  type PlainRow,
  type QueryRow,
  ROWS,
  tasksOfRows,
  withColumns,
} from './datasets/rows.js'
export {
  type CompletionStyle,
  supervisedCompletion,
  workedSolution,
} from './datasets/wordProblems/supervisedCompletion.js'
export {
  type Split,
  WORD_PROBLEM_DEFAULTS,
  type WordProblemOptions,
  wordProblems,
} from './datasets/wordProblems/wordProblems.js'
export type { EngineAbilities, EngineClient, EngineFailure, EngineState, ServingWeights } from './engineClient.js'
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
} from './generation.js'
export { type Auxiliary, type GradientsOf, type GradSchema, gradientsOf } from './gradients.js'
export { historyFromJson, historyToJson } from './history/historyJson.js'
export { historyFromOpenAi, historyToOpenAi, type OpenAiMessage } from './history/openAiChat.js'
export {
  type AudioPart,
  append as appendMessage,
  type ContentPart,
  continueLast,
  extend as extendHistory,
  History,
  hashHistory,
  type ImagePart,
  lastMessage,
  type MediaSource,
  type Message,
  type MessageDetails,
  message,
  replaceLast,
  sameHistory,
  sameMessage,
  type TextPart,
  type ToolCall,
  textOf,
  toolCallProblems,
  toolResult,
  truncate as truncateHistory,
  withSystem,
} from './history.js'
export {
  type Arrays,
  type ArraysSchema,
  fromArrays,
  fromNested,
  type NestedFailure,
  type ZerosOptions,
  zeros,
} from './nested.js'
export type {
  HistoryAction,
  HistoryPrompt,
  LogProbModel,
  Policy,
  PolicyFailure,
  SamplingRecord,
  StopReason,
  TextAction,
  TextPrompt,
  TokenAction,
  TokenPrompt,
} from './policy.js'
export { decimalOf, type Rational, rational } from './rational.js'
export { REWARD_KL_FORMS, type RewardKLForm, rewardKL } from './rewardKL.js'
export {
  dataSpec,
  type Infer,
  type LeafSpec,
  mergeSpecs,
  metaSpec,
  type NodeSpec,
  nodeSpec,
  raggedSpec,
  refine,
  requireSpec,
  type Spec,
  type SpecMismatch,
  sameSpec,
  specOf,
  tensorSpec,
} from './spec.js'
export {
  endlessTasks,
  type IdentifiedRow,
  type PlainTask,
  type RowFailure,
  type RowProblem,
  type RowSource,
  type RowTask,
  rowFailure,
  rowList,
  shuffled,
  type Task,
  type TaskOf,
  type TaskSource,
  taskList,
} from './task.js'
export type { ContentForm } from './template/content.js'
export { fromText, inverseOf, type ParsedText } from './template/fromText.js'
export type { GrammarOptions } from './template/grammar.js'
export {
  type AssistantText,
  type AssistantTextOptions,
  assistantText,
  hasGenerationTags,
  tokenMask,
} from './template/masks.js'
export { type TemplateChoice, type TemplateSource, templateSource } from './template/named.js'
export * from './tensorDict/index.js'
export type { TextRange } from './textRange.js'
export {
  type AddedToken,
  type DecodeState,
  decodeEnd,
  decodeNext,
  type EncodedText,
  type EncodeOptions,
  type EncodingOptions,
  encodeRendered,
  type SpecialTokensInText,
  type TextTokenizer,
  type TokenSpan,
  textTokenizer,
} from './textTokenizer.js'
export {
  type Encoding,
  type PaddingOptions,
  padEncodings,
  type Side,
  type TruncationOptions,
  utf8Offsets,
  windows,
} from './tokenizer/encoding.js'
export {
  type BatchTokenizer,
  batchTokenizer,
  type NativeTokenizerFailure,
  nativeTokenizer,
} from './tokenizer/native.js'
export type { TextReading } from './tokenizer/pipeline.js'
export type { TokenizerSettings, TokenRole } from './tokenizer/settings.js'
export { type MaskChoice, maskOfSpans, sampledTokens, tokensOfRoles } from './tokenMasks.js'
export * from './toolCalls/index.js'
export type { NamedTensors, WeightFailure, WeightReceiver } from './weights.js'
