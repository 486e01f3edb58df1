/**
 * For those who work with conversations and tokens: `History` and messages, chat templates,
 * tokenizers, and the formats of tool calls. Importing it loads neither onnxruntime nor tfjs.
 *
 * @module
 */
export {
  type AudioPart,
  appendMessage,
  type ContentPart,
  continueLast,
  extendHistory,
  type FilePart,
  History,
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
export { type AssistantText, type AssistantTextOptions, assistantText, tokenMask } from '../text/template/masks.js'
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
export { type CallParser, JSONCallParser, XMLBlockParser } from '../text/toolCalls/blockParsers.js'
export { MALFORMED_CALL } from '../text/toolCalls/callMessage.js'
export { TOOL_CALL_FORMATS, type ToolCallFormat, toolCallFormatOf } from '../text/toolCalls/format.js'
export type { ToolDelta, WrittenCall } from '../text/toolCalls/machine.js'
export {
  type ReadText,
  readToolCalls,
  type ToolCallReader,
  type ToolCallReading,
  toolCallReader,
} from '../text/toolCalls/reader.js'
export { type ThoughtSetting, type Thoughts, type ThoughtTags, withoutThoughts } from '../text/toolCalls/thoughts.js'
export { writeToolCalls } from '../text/toolCalls/write.js'
