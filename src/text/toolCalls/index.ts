/** Calls of tools in the text of models: read while it is written, and written. */

export { type CallParser, JSONCallParser, XMLBlockParser } from './blockParsers.js'
export {
  type AnswerReading,
  callIds,
  callsInText,
  MALFORMED_CALL,
  messageOfCalls,
  type ReadCalls,
  type WrittenCall,
} from './callMessage.js'
export { hasSpecialTags, TOOL_CALL_FORMATS, type ToolCallFormat, toolCallFormatOf } from './format.js'
export type { ToolDelta } from './machine.js'
export {
  type FoundCall,
  type ReadText,
  readToolCalls,
  type ToolCallReader,
  type ToolCallReading,
  toolCallReader,
} from './reader.js'
export { writeToolCalls } from './write.js'
