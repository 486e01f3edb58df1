/**
 * For those who work with conversations and tokens: `History` and messages, chat templates,
 * tokenizers, and the formats of tool calls. Importing it loads no tensors.
 *
 * @module
 */
export { boundedList, naturalList, numberList, table } from './boundedSchema.js'
export type { AgentAttempt, AgentModel, CapturedAgent, OpenAgent, PlayedAttempt } from './capture/agent.js'
export { callHistory } from './capture/history.js'
export { type CallForest, linkCalls } from './capture/linking.js'
export { type CaptureRecord, callJson, type ReadCapture, readCapture, recordLine } from './capture/records.js'
export {
  type CapturedAnswer,
  type CapturedCall,
  type CapturedCompletion,
  type CapturedReward,
  type CapturedSampling,
  type CapturedSession,
  completionStatus,
  type SessionEnd,
} from './capture/session.js'
export type { ChainSplit, SplitReason } from './capture/splits.js'
export {
  type CapturedTrajectory,
  type SessionTrajectories,
  sessionTrajectories,
  type TrajectoryOptions,
  type TrajectoryTurn,
} from './capture/trajectories.js'
export { codeFences } from './codeFences.js'
export type {
  AdapterWeights,
  EngineInfo,
  EngineMetrics,
  FinishReason,
  GeneratedToken,
  GenerationEvent,
  GenerationFailure,
  GenerationRequest,
  Histogram,
  LLMEngine,
  LogProbsMode,
  PauseMode,
  PlainArray,
  PromptLogProbs,
  PromptTokenLogProb,
  SamplingParams,
  TokenLogProb,
  WeightFailure,
  WeightSource,
} from './generation.js'
export { argumentsText } from './history/argumentText.js'
export {
  type AudioPart,
  appendMessage,
  type ContentPart,
  continueLast,
  extendHistory,
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
  type TextPart,
  type ToolCall,
  textOf,
  toolCallProblems,
  toolResult,
  truncateHistory,
  type VideoPart,
  withSystem,
} from './history/history.js'
export { historyFromJson, historyToJson, problemsOf } from './history/historyJson.js'
export { historyFromOpenAi, historyToOpenAi, type OpenAiMessage } from './history/openAiChat.js'
export { thinkingPart, thoughtsOf } from './history/thinkingParts.js'
export { writtenArguments } from './history/writtenArguments.js'
export type { Task } from './task.js'
export {
  type ChatTemplate,
  chatTemplate,
  type Rendered,
  type RenderOptions,
  render,
  renderSuffix,
  renderText,
  runTemplate,
  type TemplateVariables,
  type TextSpan,
  withToolPrompt,
} from './template/chatTemplate.js'
export type { ContentForm } from './template/content.js'
export { fromText, inverseOf, type ParsedText } from './template/fromText.js'
export type { GrammarOptions } from './template/grammar.js'
export { type AssistantText, type AssistantTextOptions, assistantText, tokenMask } from './template/masks.js'
export { type TemplateChoice, type TemplateSource, templateSource } from './template/named.js'
export { turnEndOf } from './template/turnEnd.js'
export { appendRanges, cutRanges, joinRanges, type TextRange } from './textRange.js'
export { tokenized } from './tokenizer/budget.js'
export {
  type BytePairEncodingOptions,
  type TokenizerJson,
  type TokenizerProgress,
  trainBytePairEncoding,
} from './tokenizer/bytePairEncoding.js'
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
} from './tokenizer/textTokenizer.js'
export { excess, farBeyond, SLICE, tokensBySlice } from './tokenizer/tokenLimit.js'
export { type CallParser, JSONCallParser, XMLBlockParser } from './toolCalls/blockParsers.js'
export { callIds, MALFORMED_CALL, messageOfCalls, messageOfText, withMalformedCalls } from './toolCalls/callMessage.js'
export { hasSpecialTags, TOOL_CALL_FORMATS, type ToolCallFormat, toolCallFormatOf } from './toolCalls/format.js'
export { CUT_OFF, type ToolDelta, type WrittenCall } from './toolCalls/machine.js'
export {
  type ReadText,
  readToolCalls,
  type ToolCallReader,
  type ToolCallReading,
  toolCallReader,
} from './toolCalls/reader.js'
export {
  answerRanges,
  endsInThoughts,
  THINK_TAGS,
  type ThoughtSetting,
  type Thoughts,
  type ThoughtTags,
  thoughtsAfter,
  thoughtTagsOf,
  withoutThoughts,
} from './toolCalls/thoughts.js'
export { writeToolCalls } from './toolCalls/write.js'
