/** Text back to a conversation, where the template allows it, with a proof: the conversation, rendered again, is the text. */
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import type { TemplateFailure } from '../../core/failure.js'
import { History, lastMessage, type Message, message, replaceLast, type ToolCall, textOf } from '../history/history.js'
import { type ChatTemplate, type RenderOptions, refuseTemplate, renderText } from './chatTemplate.js'
import {
  CALLING,
  type CallGrammar,
  type Grammar,
  type GrammarOptions,
  grammarOf,
  objectEnd,
  parseObject,
} from './grammar.js'

/** A conversation and the way its text ends: `renderText` with this `generationPrompt` gives the text again. */
export interface ParsedText {
  readonly history: History
  /** `add`: with a generation prompt. `continue`: in the last message, which is incomplete. */
  readonly generationPrompt: RenderOptions['generationPrompt']
}

type Result<T> = E.Either<TemplateFailure, T>

/** What follows a content: the next turn, the end of the text, or nothing because the text breaks off. */
interface Stop {
  readonly at: number
  readonly length: number
  readonly next: { readonly role: string } | 'add' | 'omit' | 'continue'
}

/** The stop that comes first; of those at one place, an ending of the text before a turn, and the longest. */
const earliest = (stops: readonly Stop[]): Stop | undefined =>
  stops.toSorted((a, b) => a.at - b.at || b.length - a.length || (typeof a.next === 'string' ? -1 : 1))[0]

/** The stops after `from`, in or after a content of a role. */
const stopsOf = (
  grammar: Grammar,
  text: string,
  place: { readonly role: string; readonly from: number },
): readonly Stop[] => {
  const { role, from } = place
  const turns = [...(grammar.between.get(role) ?? [])].map(
    ([next, mark]): Stop => ({ at: text.indexOf(mark, from), length: mark.length, next: { role: next } }),
  )
  const endings = (['add', 'omit'] as const).flatMap((next): readonly Stop[] => {
    const mark = (next === 'add' ? grammar.prompt : grammar.end).get(role)
    return mark !== undefined && text.endsWith(mark) && text.length - mark.length >= from
      ? [{ at: text.length - mark.length, length: mark.length, next }]
      : []
  })
  return [...endings, ...turns].filter(({ at }) => at !== -1)
}

interface ReadCalls {
  readonly calls: readonly ToolCall[]
  readonly end: number
}

/** The calls that are written from `start` on, where the first object begins; undefined if there is none. */
const readCalls = (
  text: string,
  start: number,
  { fields: [name, args], between }: CallGrammar,
): ReadCalls | undefined => {
  const calls: ToolCall[] = []
  let at = start
  for (;;) {
    const end = text[at] === '{' ? objectEnd(text, at) : -1
    const object = end === -1 ? undefined : parseObject(text.slice(at, end))
    const [called, given] = [object?.[name], object?.[args]]
    if (typeof called !== 'string' || typeof given !== 'object' || given === null || Array.isArray(given))
      return undefined
    calls.push({ name: called, arguments: given as ToolCall['arguments'] }) // an object of parsed JSON
    if (between === undefined || !text.startsWith(between, end)) return { calls, end }
    at = end + between.length
  }
}

interface Turn {
  readonly message: Message
  readonly stop: Stop
}

/** An assistant's message that ends with calls before `limit`, if there is one. */
const turnWithCalls = (grammar: Grammar, text: string, from: number): Turn | undefined => {
  const { calls: how } = grammar
  if (how === undefined) return undefined
  const isBare = text.startsWith(how.bareHead, from)
  const at = isBare ? from : text.indexOf(how.head, from)
  if (at === -1) return undefined
  const read = readCalls(text, at + (isBare ? how.bareHead : how.head).length, how)
  if (read === undefined) return undefined
  const stop = earliest(stopsOf(grammar, text, { role: CALLING, from: read.end }))
  if (stop === undefined || stop.at !== read.end) return undefined
  return { message: message('assistant', text.slice(from, at), { toolCalls: read.calls }), stop }
}

/** The message whose content begins at `from`. */
const readTurn = (
  grammar: Grammar,
  text: string,
  { role, from }: { readonly role: string; readonly from: number },
): Turn => {
  const stop = earliest(stopsOf(grammar, text, { role, from })) ?? { at: text.length, length: 0, next: 'continue' }
  const calling = role === 'assistant' ? turnWithCalls(grammar, text, from) : undefined
  if (calling !== undefined && calling.stop.at <= stop.at + stop.length) return calling
  const isComplete = stop.next !== 'continue'
  return { message: message(role, text.slice(from, stop.at), { isComplete }), stop }
}

const readMessages = (grammar: Grammar, text: string): Result<ParsedText> => {
  const [first] = [...grammar.begin]
    .filter(([, mark]) => text.startsWith(mark))
    .sort(([, a], [, b]) => b.length - a.length)
  if (first === undefined) return refuseTemplate('the text does not begin as the chat template begins it')
  const messages: Message[] = []
  let place = { role: first[0], from: first[1].length }
  for (;;) {
    const { message: read, stop } = readTurn(grammar, text, place)
    messages.push(read)
    if (typeof stop.next === 'string') return E.right({ history: History(messages), generationPrompt: stop.next })
    place = { role: stop.next.role, from: stop.at + stop.length }
  }
}

/** The parsed conversation, unless a content holds a marker of the template: the proof alone would not see that it was not read to its end. */
const withoutMarkers = (grammar: Grammar, parsed: ParsedText): Result<ParsedText> => {
  const markers = [...grammar.markers]
  for (const [i, item] of parsed.history.messages.entries()) {
    const found = markers.find((marker) => textOf(item).includes(marker))
    if (found !== undefined)
      return refuseTemplate(`message ${i} would hold '${found}', which the chat template writes between contents`)
  }
  return E.right(parsed)
}

/** The readings of a text: what stands before the last answer may be the template's, or the answer's own. */
const readings = ({ lastOpening }: Grammar, parsed: ParsedText): readonly [ParsedText, ...ParsedText[]] => {
  const last = lastMessage(parsed.history)
  if (last?.role !== 'assistant' || lastOpening === '' || !textOf(last).startsWith(lastOpening)) return [parsed]
  const content = [{ type: 'text', text: textOf(last).slice(lastOpening.length) } as const]
  return [{ ...parsed, history: replaceLast(parsed.history, { ...last, content }) }, parsed]
}

/** The first reading that has a proof, or the reason why the last one has none. */
const firstProven = (
  [first, ...rest]: readonly [ParsedText, ...ParsedText[]],
  prove: (parsed: ParsedText) => Result<ParsedText>,
): Result<ParsedText> => rest.reduce((result, reading) => (E.isRight(result) ? result : prove(reading)), prove(first))

/**
 * The inverse of a template, if it has one: a function from texts to conversations. Nothing is known of the family of the template: what it
 * writes around contents is told by rendering.
 *
 * What a text does not say is not in the conversation: ids of calls, the borders of parts, white space that the template trims.
 *
 * Errors   `Left(TemplateFailure)` if the turns of the template cannot be told apart; from the function, for a text that the conversation, rendered
 *          again, does not give exactly.
 * Cost     about fifteen short renderings, then one rendering for each text.
 */
export const inverseOf = (
  template: ChatTemplate,
  options: GrammarOptions = {},
): Result<(text: string) => Result<ParsedText>> => {
  const proven = (grammar: Grammar, text: string, parsed: ParsedText): Result<ParsedText> =>
    pipe(
      withoutMarkers(grammar, parsed),
      E.chain(({ history, generationPrompt }) => renderText(template, history, { ...options, generationPrompt })),
      E.filterOrElse(
        (again) => again === text,
        (): TemplateFailure => ({
          _tag: 'TemplateFailure',
          reason: 'the conversation that was read from the text does not give the text again',
        }),
      ),
      E.map(() => parsed),
    )
  return pipe(
    grammarOf(template, options),
    E.map(
      (grammar) => (text: string) =>
        pipe(
          readMessages(grammar, text),
          E.chain((parsed) => firstProven(readings(grammar, parsed), (reading) => proven(grammar, text, reading))),
        ),
    ),
  )
}

/**
 * The conversation whose text this is. A last message that is not ended is incomplete.
 *
 * Errors   `Left(TemplateFailure)` if the template has no inverse, or none for this text: see `inverseOf`.
 */
export const fromText = (template: ChatTemplate, text: string, options: GrammarOptions = {}): Result<ParsedText> =>
  pipe(
    inverseOf(template, options),
    E.chain((read) => read(text)),
  )
