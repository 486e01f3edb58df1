/** Parsers of the parts of tool calls, as composable machines over characters. */
import { isBlank } from './json.js'

/** An event of reading the calls in a part. */
export type CallEvent =
  /** A call may begin with this character. */
  | { readonly _tag: 'Begin' }
  /**
   * The name of a call is known. `possible`: it is a call if `Certain` follows, or if the text ends
   * before the part does; otherwise it is data.
   */
  | { readonly _tag: 'Call'; readonly name: string; readonly certainty: 'certain' | 'possible' }
  | { readonly _tag: 'Certain' }
  | { readonly _tag: 'Id'; readonly id: string }
  | { readonly _tag: 'Arguments'; readonly text: string }
  /** The call, or the list of calls, ends with this character: only now does the call count. */
  | { readonly _tag: 'End' }
  /** Text beside the calls. */
  | { readonly _tag: 'Text'; readonly text: string }

/**
 * The result of one more character. `Done`: the part ended, and `again` does not belong to it.
 * `Broken`: the text is not such a part.
 */
export type PartStep =
  | { readonly _tag: 'More'; readonly part: Part; readonly events: readonly CallEvent[] }
  | { readonly _tag: 'Done'; readonly again: string; readonly events: readonly CallEvent[] }
  | { readonly _tag: 'Broken'; readonly events: readonly CallEvent[] }

/** A part of a text, as a function of its next character. */
export type Part = (c: string) => PartStep

export const more = (part: Part, events: readonly CallEvent[] = []): PartStep => ({ _tag: 'More', part, events })
export const done = (again = '', events: readonly CallEvent[] = []): PartStep => ({ _tag: 'Done', again, events })
export const BROKEN: PartStep = { _tag: 'Broken', events: [] }

/** Emits more of the arguments of a call, or nothing for an empty text. */
export const argumentsEvent = (text: string): readonly CallEvent[] => (text === '' ? [] : [{ _tag: 'Arguments', text }])

const after = (events: readonly CallEvent[], step: PartStep): PartStep =>
  events.length === 0 ? step : { ...step, events: [...events, ...step.events] }

/** Reads exactly this text. */
export const literal =
  (text: string): Part =>
  (c) =>
    c !== text[0] ? BROKEN : text.length === 1 ? done() : more(literal(text.slice(1)))

/** Reads any number of blanks. */
export const blanks: Part = (c) => (isBlank(c) ? more(blanks) : done(c))

/** Feeds a short text to a part. */
const fed = (part: Part, text: string): PartStep => {
  if (text === '') return more(part)
  const step = part(text[0]!)
  const rest = text.slice(1)
  if (step._tag === 'More') return after(step.events, fed(step.part, rest))
  return step._tag === 'Done' ? { ...step, again: step.again + rest } : step
}

const followed = (step: PartStep, next: () => Part): PartStep => {
  if (step._tag === 'More') return more((c) => followed(step.part(c), next), step.events)
  return step._tag === 'Done' ? after(step.events, fed(next(), step.again)) : step
}

/** Reads parts one after another. */
export const sequence = (first: Part, ...rest: readonly Part[]): Part => {
  const [second, ...others] = rest
  return second === undefined ? first : (c) => followed(first(c), () => sequence(second, ...others))
}

/** Reads a part and emits events when it is complete. */
export const emitting =
  (part: Part, events: readonly CallEvent[]): Part =>
  (c) => {
    const step = part(c)
    if (step._tag === 'More') return more(emitting(step.part, events), step.events)
    return step._tag === 'Done' ? { ...step, events: [...step.events, ...events] } : step
  }

export const END: readonly CallEvent[] = [{ _tag: 'End' }]

/** Reads a part with which a call ends. */
export const endsCall = (part: Part): Part => emitting(part, END)

/** Reads a part that may become a call, which begins with the part's first character. */
export const item =
  (part: Part): Part =>
  (c) => {
    const step = part(c)
    return step._tag === 'Broken' ? step : after([{ _tag: 'Begin' }], step)
  }

/** Chooses the part by its first character; undefined means no part. */
export const either =
  (choose: (c: string) => Part | undefined): Part =>
  (c) =>
    choose(c)?.(c) ?? BROKEN

/** Reads the part if the next character is `first`, and otherwise nothing. */
export const optional =
  (first: string, part: Part): Part =>
  (c) =>
    c === first ? part(c) : done(c)

const NAME_LENGTH = 256
const NAME_CHARACTER = /^[^<>[\]{}"\n\r]$/

/**
 * Returns true if a name is safe between tags. Other names cannot be separated from the text around
 * them.
 */
export const isTagName = (name: string): boolean =>
  name.trim() !== '' && name.length <= NAME_LENGTH && name.split('').every((c) => NAME_CHARACTER.test(c))

/**
 * Reads a name up to one of the characters `stops`, and then the part that begins with that
 * character.
 */
export const named =
  (stops: string, next: (name: string) => Part, before = ''): Part =>
  (c) => {
    if (stops.includes(c)) return before.trim() === '' ? BROKEN : next(before)(c)
    return before.length < NAME_LENGTH && NAME_CHARACTER.test(c) ? more(named(stops, next, before + c)) : BROKEN
  }

/** A tag, the part after it (`null`: nothing), and the events that the tag emits. */
export type Choice = readonly [tag: string, next: Part | null, events?: readonly CallEvent[]]

/** Reads one of several tags, none of which is a prefix of another, and then the part after it. */
export const tagged =
  (choices: readonly Choice[], before = ''): Part =>
  (c) => {
    const text = before + c
    const choice = choices.find(([tag]) => tag === text)
    if (choice === undefined)
      return choices.some(([tag]) => tag.startsWith(text)) ? more(tagged(choices, text)) : BROKEN
    const [, next, events] = choice
    return next === null ? done('', events) : more(next, events)
  }

/** Reads the end of a list, with which its last call ends. */
export const listEnd: Part = endsCall(literal(']'))

/**
 * Reads `[item, item, ...]`, not empty. An item ends with the comma after it, the last one with
 * `close`.
 */
export const list = (part: Part, close: Part = listEnd): Part => {
  const next: Part = either((c) => (c === ',' ? sequence(endsCall(literal(',')), blanks, part, blanks, next) : close))
  return sequence(literal('['), blanks, part, blanks, next)
}
