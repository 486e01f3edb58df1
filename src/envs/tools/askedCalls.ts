/** The calls that a message of the policy asks for. */
import { type Message, type ToolCall, textOf } from '../../text/history/history.js'
import { MALFORMED_CALL, messageOfCalls } from '../../text/toolCalls/callMessage.js'
import type { ToolCallFormat } from '../../text/toolCalls/format.js'
import { readToolCalls, type ToolCallReading } from '../../text/toolCalls/reader.js'

/** What a message asks for. */
export interface AskedCalls {
  readonly calls: readonly ToolCall[]
  /** What could not be read as a call: why, one for each. */
  readonly malformed: readonly string[]
}

/**
 * Finds the calls of a message. `malformedCalls` is what the policy said of it, if it reads its
 * calls by itself.
 */
export type CallFinder = (reply: Message, malformedCalls: readonly string[] | undefined) => AskedCalls

/** How often a text holds another. */
const countOf = (text: string, part: string): number => text.split(part).length - 1

/**
 * Reads the calls that stand in `toolCalls`, of a policy that speaks messages. A policy that read
 * them out of text says which of them are malformed, or leaves `MALFORMED_CALL` in the text.
 */
export const callsOfMessage: CallFinder = (reply, malformedCalls) => ({
  calls: reply.toolCalls,
  malformed:
    malformedCalls ??
    Array.from({ length: countOf(textOf(reply), MALFORMED_CALL) }, () => 'the arguments are no JSON object'),
})

/**
 * Reads the calls that stand in the text of a message, as a policy of tokens or text writes them;
 * those of `toolCalls` where there are some. A call has the id that the text gives it, if any.
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
