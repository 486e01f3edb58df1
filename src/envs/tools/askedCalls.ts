/** The tool calls of one message. */
import { type Message, type ToolCall, textOf } from '../../text/history/history.js'
import { MALFORMED_CALL, messageOfCalls } from '../../text/toolCalls/callMessage.js'
import type { ToolCallFormat } from '../../text/toolCalls/format.js'
import { readToolCalls, type ToolCallReading } from '../../text/toolCalls/reader.js'

/** The tool calls of a message. */
export interface AskedCalls {
  readonly calls: readonly ToolCall[]
  /** One reason for each part of the message that could not be parsed as a call. */
  readonly malformed: readonly string[]
}

/**
 * Finds the calls of a message. `malformedCalls` has the parse errors of a policy that parses its
 * own calls, and is undefined for other policies.
 */
export type CallFinder = (reply: Message, malformedCalls: readonly string[] | undefined) => AskedCalls

/** Counts the occurrences of `part` in a text. */
const countOf = (text: string, part: string): number => text.split(part).length - 1

/**
 * Returns the calls in `toolCalls`, for policies that return messages. A policy that parses calls
 * from text lists the malformed ones in `malformedCalls`, or leaves `MALFORMED_CALL` in the text.
 */
export const callsOfMessage: CallFinder = (reply, malformedCalls) => ({
  calls: reply.toolCalls,
  malformed:
    malformedCalls ??
    Array.from({ length: countOf(textOf(reply), MALFORMED_CALL) }, () => 'the arguments are not a JSON object'),
})

/**
 * Parses the calls in the text of a message, for policies of tokens or text. If the message has
 * `toolCalls`, those are returned instead. A call has the id that the text gives it, if any.
 * Formats that write all arguments as text need the schemas of the tools.
 */
export const callsOfText =
  (format: ToolCallFormat, reading: ToolCallReading = {}): CallFinder =>
  (reply, malformedCalls) => {
    if (reply.toolCalls.length > 0 || malformedCalls !== undefined) return callsOfMessage(reply, malformedCalls)
    const { text, calls } = readToolCalls(textOf(reply), format, reading)
    const read = messageOfCalls(text, calls, { isComplete: reply.isComplete })
    return { calls: read.message.toolCalls, malformed: read.malformedCalls }
  }
