/** Reads the calls of tools out of completions, whole or while they are streamed. */
import type { ToolDelta } from '../../text/toolCalls/machine.js'
import { type ReadText, readToolCalls, type ToolCallReader, toolCallReader } from '../../text/toolCalls/reader.js'
import type { ChatRequest } from '../requests/chat.js'
import type { Served } from '../requests/served.js'

/** Returns the deltas to emit: those of all calls, or only of the first. */
const toldDeltas = (deltas: readonly ToolDelta[], { tools }: ChatRequest): readonly ToolDelta[] =>
  tools?.calls === 'first' ? deltas.filter((delta) => delta._tag === 'Text' || delta.index === 0) : deltas

/** Reads the text and the calls of tools out of a whole completion. */
export const readReply = (asked: ChatRequest, text: string): ReadText => {
  if (asked.tools === null) return { text, calls: [] }
  const read = readToolCalls(text, asked.tools.format, asked.tools)
  return asked.tools.calls === 'first' ? { ...read, calls: read.calls.slice(0, 1) } : read
}

/**
 * Makes an id for a call of a tool. Templates of Mistral refuse ids that are not nine letters and
 * digits; others get the prefix of the endpoint's protocol.
 */
export const callId = ({ world, features }: Served, prefix: string): string =>
  features.toolCalls === 'mistral' ? world.ids.fresh().padStart(9, '0').slice(-9) : `${prefix}${world.ids.fresh()}`

/** One choice of a stream: what was read of it so far. */
export interface ChoiceProgress {
  readonly reader: ToolCallReader | null
  readonly calls: number
  readonly tokens: number
}

/** Starts reading a choice. */
export const firstProgress = ({ tools }: ChatRequest): ChoiceProgress => ({
  reader: tools === null ? null : toolCallReader(tools.format, tools),
  calls: 0,
  tokens: 0,
})

/** Adds new text to a choice, or ends it if the text is null. */
export const readMore = (
  asked: ChatRequest,
  choice: ChoiceProgress,
  text: string | null,
): { readonly choice: ChoiceProgress; readonly deltas: readonly ToolDelta[] } => {
  if (choice.reader === null) return { choice, deltas: text === null || text === '' ? [] : [{ _tag: 'Text', text }] }
  const { reader, deltas } =
    text === null ? { reader: choice.reader, deltas: choice.reader.end() } : choice.reader.push(text)
  const told = toldDeltas(deltas, asked)
  const calls = choice.calls + told.filter(({ _tag }) => _tag === 'Call').length
  return { choice: { ...choice, reader, calls }, deltas: told }
}
