/** TorchRL's two parsers of tool calls. */
import { type ReadText, readToolCalls } from './reader.js'

/** Splits a text into its calls and the text around them. */
export type CallParser = (text: string) => ReadText

/**
 * Reads `<tool name="..." tag="...">{...}</tool>` blocks. A tag is the id of its call.
 *
 * Source   TorchRL 0.14 `XMLBlockParser`, which hands a body that is not JSON to the tool as
 *          `{"raw": body}`. Here the body stays the call's arguments, and `messageOfCalls` reports
 *          it as malformed. A closing tag in a string of the JSON does not end the block.
 *
 * @example
 * XMLBlockParser()('<tool name="now">{}</tool>').calls // [{ name: 'now', arguments: '{}' }]
 */
export const XMLBlockParser = (): CallParser => (text) => readToolCalls(text, 'xml_block')

/**
 * Reads an answer that is `{"message": ..., "tools": [{"tool": ..., "args": {...}, "tag": ...}]}`:
 * its text is the message. Any other answer is text.
 *
 * Source   TorchRL 0.14 `JSONCallParser`, which fails on a call without `args` and loses the text
 *          of other JSON.
 *
 * @example
 * JSONCallParser()('{"message": "Hm.", "tools": []}').text // 'Hm.'
 */
export const JSONCallParser = (): CallParser => (text) => readToolCalls(text, 'json_call')
