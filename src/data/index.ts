/** The values that everything else exchanges: TensorDict, History, tokenizers, tasks, specs, policies, files. */

export {
  type AudioPart,
  append as appendMessage,
  type ContentPart,
  continueLast,
  extend as extendHistory,
  type FilePart,
  History,
  hashHistory,
  type ImagePart,
  lastMessage,
  type MediaPart,
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
  type VideoPart,
  withSystem,
} from '../text/history/history.js'
export { historyFromJson, historyToJson } from '../text/history/historyJson.js'
export { historyFromOpenAi, historyToOpenAi, type OpenAiMessage } from '../text/history/openAiChat.js'
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
} from '../text/template/chatTemplate.js'
export type { ContentForm } from '../text/template/content.js'
export { fromText, inverseOf, type ParsedText } from '../text/template/fromText.js'
export type { GrammarOptions } from '../text/template/grammar.js'
export {
  type AssistantText,
  type AssistantTextOptions,
  assistantText,
  hasGenerationTags,
  tokenMask,
} from '../text/template/masks.js'
export { type TemplateChoice, type TemplateSource, templateSource } from '../text/template/named.js'
export type { TextRange } from '../text/textRange.js'
export {
  type BytePairEncodingOptions,
  type TokenizerJson,
  type TokenizerProgress,
  trainBytePairEncoding,
} from '../text/tokenizer/bytePairEncoding.js'
export {
  type Encoding,
  type PaddingOptions,
  padEncodings,
  type Side,
  type TruncationOptions,
  utf8Offsets,
  windows,
} from '../text/tokenizer/encoding.js'
export {
  type BatchTokenizer,
  batchTokenizer,
  type NativeTokenizerFailure,
  nativeTokenizer,
} from '../text/tokenizer/native.js'
export type { TextReading } from '../text/tokenizer/pipeline.js'
export type { TokenizerSettings, TokenRole } from '../text/tokenizer/settings.js'
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
} from '../text/tokenizer/textTokenizer.js'
export * from '../text/toolCalls/index.js'
export {
  type ApplyChatTemplateOptions,
  applyChatTemplate,
  type ChatPadding,
  type ChatTokens,
  type MaskedTokens,
  type MaskedTokensOptions,
  type PaddedChatTokens,
} from './applyChatTemplate.js'
export * from './arithmetic.js'
export type * from './batch.js'
export * from './buffers/index.js'
export { readCapture } from './capture/records.js'
export type { CapturedCall, CapturedCompletion, CapturedSession } from './capture/session.js'
export type { ChainSplit, SplitReason } from './capture/splits.js'
export { type CapturedTrajectory, type SessionTrajectories, sessionTrajectories } from './capture/trajectories.js'
export { collectJsonLines, type NumberedRow, type ReadJsonLinesOptions, readJsonLines } from './codecs/jsonl.js'
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
  rowList,
  shuffled,
  type Task,
  type TaskOf,
  type TaskSource,
  taskList,
} from './task.js'
export * from './tensorDict/index.js'
export { type MaskChoice, maskOfSpans, sampledTokens, tokensOfRoles } from './tokenMasks.js'
export type { NamedTensors, WeightFailure, WeightReceiver } from './weights.js'
