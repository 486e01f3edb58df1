/**
 * Parsing of rendered text back to a conversation. A result is proven: rendering the conversation
 * again gives the same text.
 */
import { isJsonObject, parseWrittenJson, type TemplateFailure, writeJson } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import { readArguments } from '../history/argumentText.js'
import { History, lastMessage, type Message, message, replaceLast, type ToolCall, textOf } from '../history/history.js'
import { type ChatTemplate, type RenderOptions, refuseTemplate, renderText } from './chatTemplate.js'
import { CALLING, type CallGrammar, type Grammar, type GrammarOptions, grammarOf, objectEnd } from './grammar.js'

/** A conversation and the `generationPrompt` with which `renderText` gives the text again. */
export interface ParsedText {
  readonly history: History
  /** `add`: with a generation prompt. `continue`: in the last message, which is incomplete. */
  readonly generationPrompt: RenderOptions['generationPrompt']
}

type Result<T> = E.Either<TemplateFailure, T>

/**
 * The end of a content: the next turn, the end of the text, or nothing because the text breaks off.
 */
interface Stop {
  readonly at: number
  readonly length: number
  readonly next: { readonly role: string } | 'add' | 'omit' | 'continue'
}

/**
 * Returns the first stop. At one position, an end of the text wins over a turn, and then the
 * longest stop.
 */
const earliest = (stops: readonly Stop[]): Stop | undefined =>
  stops.toSorted((a, b) => a.at - b.at || b.length - a.length || (typeof a.next === 'string' ? -1 : 1))[0]

/** Returns the stops after `from`, in or after the content of a role. */
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

/**
 * Reads the calls from `start` on, where the first object begins. Returns undefined without a call.
 */
const readCalls = (
  text: string,
  start: number,
  { fields: [name, args], between }: CallGrammar,
): ReadCalls | undefined => {
  const calls: ToolCall[] = []
  let at = start
  for (;;) {
    const end = text[at] === '{' ? objectEnd(text, at) : -1
    const object = end === -1 ? undefined : parseWrittenJson(text.slice(at, end))
    if (object === undefined || E.isLeft(object) || !isJsonObject(object.right)) return undefined
    const [called, given] = [object.right.get(name), object.right.get(args)]
    if (typeof called !== 'string' || !isJsonObject(given)) return undefined
    const read = readArguments(writeJson(given))
    if (E.isLeft(read)) return undefined
    calls.push({ name: called, ...read.right })
    if (between === undefined || !text.startsWith(between, end)) return { calls, end }
    at = end + between.length
  }
}

interface Turn {
  readonly message: Message
  readonly stop: Stop
}

/** Reads an assistant message that ends with calls, if there is one. */
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

/** Reads the message whose content begins at `from`. */
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
  if (first === undefined) return refuseTemplate('the text does not begin like the chat template')
  const messages: Message[] = []
  let place = { role: first[0], from: first[1].length }
  for (;;) {
    const { message: read, stop } = readTurn(grammar, text, place)
    messages.push(read)
    if (typeof stop.next === 'string') return E.right({ history: History(messages), generationPrompt: stop.next })
    place = { role: stop.next.role, from: stop.at + stop.length }
  }
}

/**
 * Refuses a parsed conversation whose content holds a marker of the template. The proof alone
 * cannot detect such an incomplete parse.
 */
const withoutMarkers = (grammar: Grammar, parsed: ParsedText): Result<ParsedText> => {
  const markers = [...grammar.markers]
  for (const [i, item] of parsed.history.messages.entries()) {
    const found = markers.find((marker) => textOf(item).includes(marker))
    if (found !== undefined)
      return refuseTemplate(`message ${i} would hold '${found}', which the chat template writes between contents`)
  }
  return E.right(parsed)
}

/**
 * Returns the readings of a text. The text before the last answer may belong to the template or to
 * the answer.
 */
const readings = ({ lastOpening }: Grammar, parsed: ParsedText): readonly [ParsedText, ...ParsedText[]] => {
  const last = lastMessage(parsed.history)
  if (last?.role !== 'assistant' || lastOpening === '' || !textOf(last).startsWith(lastOpening)) return [parsed]
  const content = [{ type: 'text', text: textOf(last).slice(lastOpening.length) } as const]
  return [{ ...parsed, history: replaceLast(parsed.history, { ...last, content }) }, parsed]
}

/** Returns the first reading that has a proof, or the failure of the last one. */
const firstProven = (
  [first, ...rest]: readonly [ParsedText, ...ParsedText[]],
  prove: (parsed: ParsedText) => Result<ParsedText>,
): Result<ParsedText> => rest.reduce((result, reading) => (E.isRight(result) ? result : prove(reading)), prove(first))

/**
 * Derives the inverse of a template, a function from text to conversation. Nothing is assumed about
 * the template's family: the text around contents is found by rendering.
 *
 * The conversation lacks what the text does not contain: ids of calls, the borders of parts, white
 * space that the template trims.
 *
 * Errors   `Left(TemplateFailure)` if the turns of the template cannot be separated. The function
 *          returns it for a text that the conversation, rendered again, does not reproduce exactly.
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
          reason: 'the conversation that was read from the text renders to a different text',
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
 * Parses the conversation of a text. If its last message has no end, the message is incomplete.
 *
 * Errors   `Left(TemplateFailure)` if the template has no inverse, or this text has none: see
 *          `inverseOf`.
 */
export const fromText = (template: ChatTemplate, text: string, options: GrammarOptions = {}): Result<ParsedText> =>
  pipe(
    inverseOf(template, options),
    E.chain((read) => read(text)),
  )
