/** The tool calls of one message. */
import {
  CUT_OFF,
  MALFORMED_CALL,
  type Message,
  messageOfText,
  THINK_TAGS,
  type Thoughts,
  type ThoughtTags,
  type ToolCall,
  type ToolCallFormat,
  type ToolCallReading,
  textOf,
  thoughtsAfter,
} from '@tandem-rl/text'

/** The tool calls of a message. */
export interface RequestedCalls {
  readonly calls: readonly ToolCall[]
  /** One reason for each part of the message that could not be parsed as a call. */
  readonly malformed: readonly string[]
}

/**
 * Finds the calls of a message. `malformedCalls` has the parse errors of a policy that parses its
 * own calls, and is undefined for other policies. `prompt` is the text that the policy continued,
 * if it is known.
 */
export type CallFinder = (
  reply: Message,
  malformedCalls: readonly string[] | undefined,
  prompt?: string | undefined,
) => RequestedCalls

/** Counts the occurrences of `part` in a text. */
const countOf = (text: string, part: string): number => text.split(part).length - 1

/**
 * Returns the calls in `toolCalls`, for policies that return messages. A policy that parses calls
 * from text lists the malformed ones in `malformedCalls`, or leaves `MALFORMED_CALL` in the text.
 * The last call of an incomplete message of any other policy was cut off, and is malformed.
 */
export const callsOfMessage: CallFinder = (reply, malformedCalls) => {
  const { toolCalls, isComplete } = reply
  const marked = countOf(textOf(reply), MALFORMED_CALL)
  if (malformedCalls !== undefined || marked > 0 || isComplete) {
    const malformed = malformedCalls ?? Array.from({ length: marked }, () => 'it is cut off, or not written as a call')
    return { calls: toolCalls, malformed }
  }
  const cut = toolCalls.slice(-1).map(({ name }) => `the call of '${name}': ${CUT_OFF}`)
  return { calls: toolCalls.slice(0, -1), malformed: cut }
}

/** Options for finding the calls in the text of messages. */
export interface TextCalls extends Pick<ToolCallReading, 'tools'> {
  /**
   * Tags around the model's thoughts, in which no calls are read. `searched`: calls in thoughts
   * count. Default: those of the model's template if it is known, or `<think>` and `</think>`.
   */
  readonly thoughts?: ThoughtTags | 'searched'
}

/** Returns how thoughts are read whose closing tag ends them, wherever they were opened. */
const thoughtsOf = (tags: ThoughtTags | 'searched', prompt: string | undefined): Thoughts | 'searched' => {
  const known = thoughtsAfter(prompt ?? '', tags)
  if (known === 'searched') return known
  return { ...known, place: known.place === 'inside' ? 'inside' : 'unknown', as: 'text' }
}

/**
 * Parses the calls in the text of a message, for policies of tokens or text. Without a format, or
 * if the message has `toolCalls`, those are returned instead. A call has the id that the text gives
 * it, if any. Formats that write all arguments as text need the schemas of the tools.
 */
export const callsOfText =
  (format: ToolCallFormat | undefined, { thoughts = THINK_TAGS, ...reading }: TextCalls = {}): CallFinder =>
  (reply, malformedCalls, prompt) => {
    const known = callsOfMessage(reply, malformedCalls)
    if (format === undefined || reply.toolCalls.length > 0 || malformedCalls !== undefined) return known
    const { isComplete } = reply
    const own = { ...reading, format, thoughts: thoughtsOf(thoughts, prompt) }
    const read = messageOfText(textOf(reply), own, { isComplete })
    return { calls: read.message.toolCalls, malformed: [...known.malformed, ...read.malformedCalls] }
  }
