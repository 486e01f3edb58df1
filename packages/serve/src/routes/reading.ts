/** Reads thoughts and calls of tools out of completions, whole or while they are streamed. */
import {
  type FinishReason,
  type ToolCallReader,
  type ToolDelta,
  toolCallReader,
  type WrittenCall,
  withMalformedCalls,
} from '@tandem-rl/text'
import type { ChatRequest } from '../requests/chat.js'
import type { Served } from '../requests/served.js'

/** Makes an id that templates of Mistral accept: nine letters and digits. */
export const mistralId = (id: string): string => id.padStart(9, '0').slice(-9)

/** Makes an id for a call of a tool: Mistral's, or one with the prefix of the endpoint. */
export const callId = ({ world, features }: Served, prefix: string): string =>
  features.toolCalls === 'mistral' ? mistralId(world.ids.fresh()) : `${prefix}${world.ids.fresh()}`

/** A part of a reply: text, thoughts, or a whole call. */
export type ReplyPart =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'thoughts'; readonly text: string }
  | { readonly kind: 'call'; readonly call: WrittenCall }

/** The tools of a request, and the thoughts of its answer. */
type Wanted = Pick<ChatRequest, 'tools' | 'thoughts'>

/** One choice, as far as it was read. */
export interface ChoiceProgress {
  readonly reader: ToolCallReader
  readonly calls: number
  readonly text: 'none' | 'some'
}

/** Starts reading a choice. */
export const firstProgress = ({ tools, thoughts }: Wanted): ChoiceProgress => ({
  reader: toolCallReader(tools?.format ?? 'none', { tools: tools?.tools ?? [], thoughts }),
  calls: 0,
  text: 'none',
})

/** The choice after more of its text or its end, and the parts that are new. */
interface ReadMore {
  readonly choice: ChoiceProgress
  readonly parts: readonly ReplyPart[]
}

/**
 * Turns deltas into the parts of a reply: a malformed call is text, and of calls that may not be
 * parallel only the first is a part.
 */
const withParts = ({ tools }: Wanted, before: ChoiceProgress, deltas: readonly ToolDelta[]): ReadMore => {
  const parts: ReplyPart[] = []
  let choice = before
  const add = (text: string): void => {
    parts.push({ kind: 'text', text })
    choice = { ...choice, text: 'some' }
  }
  for (const delta of deltas) {
    if (delta._tag === 'Text') add(delta.text)
    else if (delta._tag === 'Thoughts') parts.push({ kind: 'thoughts', text: delta.text })
    else if (delta.call.problem !== undefined) {
      add(`${choice.text === 'some' ? '\n' : ''}${withMalformedCalls('', [delta.call])}`)
    } else if (tools?.calls !== 'first' || choice.calls === 0) {
      parts.push({ kind: 'call', call: delta.call })
      choice = { ...choice, calls: choice.calls + 1 }
    }
  }
  return { choice, parts }
}

/** Adds new text to a choice. */
export const readMore = (request: Wanted, choice: ChoiceProgress, text: string): ReadMore => {
  const { reader, deltas } = choice.reader.push(text)
  return withParts(request, { ...choice, reader }, deltas)
}

/** Ends a choice. A call at the end of a completion that was cut off is malformed. */
export const endChoice = (request: Wanted, choice: ChoiceProgress, finish: FinishReason | null): ReadMore =>
  withParts(request, choice, choice.reader.end({ isComplete: finish === 'stop' }))

/** A whole reply: its thoughts, its text, and its calls. */
export interface WholeReading {
  readonly thoughts: string
  readonly text: string
  readonly calls: readonly WrittenCall[]
}

/** Reads a whole completion, as the parts of a stream. */
export const readReply = (request: Wanted, text: string, finish: FinishReason | null): WholeReading => {
  const { choice, parts } = readMore(request, firstProgress(request), text)
  const all = [...parts, ...endChoice(request, choice, finish).parts]
  const textOf = (kind: ReplyPart['kind']): string =>
    all.map((part) => (part.kind === kind && part.kind !== 'call' ? part.text : '')).join('')
  return {
    thoughts: textOf('thoughts'),
    text: textOf('text'),
    calls: all.flatMap((part) => (part.kind === 'call' ? [part.call] : [])),
  }
}
