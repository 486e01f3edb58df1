/** Parts of the text that calls are written in, as machines over its characters that can be put one after another. */
import { isBlank } from './json.js'

/** What became certain of the calls in a part. */
export type CallEvent =
  /** What begins with this character may become a call. */
  | { readonly _tag: 'Begin' }
  | { readonly _tag: 'Call'; readonly name: string }
  | { readonly _tag: 'Id'; readonly id: string }
  | { readonly _tag: 'Arguments'; readonly text: string }
  /** With this character the call is complete, or the list of calls: what comes now is of no call that was told. */
  | { readonly _tag: 'End' }
  /** Something said beside the calls. */
  | { readonly _tag: 'Text'; readonly text: string }

/** What one more character makes of a part. `Done`: `again` is not of the part any more. `Broken`: no such part goes on so. */
export type PartStep =
  | { readonly _tag: 'More'; readonly part: Part; readonly events: readonly CallEvent[] }
  | { readonly _tag: 'Done'; readonly again: string; readonly events: readonly CallEvent[] }
  | { readonly _tag: 'Broken'; readonly events: readonly CallEvent[] }

/** A part of a text, as what its next character makes of it. */
export type Part = (c: string) => PartStep

export const more = (part: Part, events: readonly CallEvent[] = []): PartStep => ({ _tag: 'More', part, events })
export const done = (again = '', events: readonly CallEvent[] = []): PartStep => ({ _tag: 'Done', again, events })
export const BROKEN: PartStep = { _tag: 'Broken', events: [] }

/** More of the arguments of a call; nothing for no text. */
export const argumentsEvent = (text: string): readonly CallEvent[] => (text === '' ? [] : [{ _tag: 'Arguments', text }])

const after = (events: readonly CallEvent[], step: PartStep): PartStep =>
  events.length === 0 ? step : { ...step, events: [...events, ...step.events] }

/** Exactly this text. */
export const literal =
  (text: string): Part =>
  (c) =>
    c !== text[0] ? BROKEN : text.length === 1 ? done() : more(literal(text.slice(1)))

/** Any number of blanks. */
export const blanks: Part = (c) => (isBlank(c) ? more(blanks) : done(c))

/** A part that has read `text`, which is short. */
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

/** Parts one after another. */
export const sequence = (first: Part, ...rest: readonly Part[]): Part => {
  const [second, ...others] = rest
  return second === undefined ? first : (c) => followed(first(c), () => sequence(second, ...others))
}

/** The part, and what it tells when it is complete. */
export const telling =
  (part: Part, events: readonly CallEvent[]): Part =>
  (c) => {
    const step = part(c)
    if (step._tag === 'More') return more(telling(step.part, events), step.events)
    return step._tag === 'Done' ? { ...step, events: [...step.events, ...events] } : step
  }

/** What may become a call, which begins with the part's first character. */
export const item =
  (part: Part): Part =>
  (c) =>
    after([{ _tag: 'Begin' }], part(c))

/** The part that the next character, which it reads too, decides on; undefined for none. */
export const either =
  (choose: (c: string) => Part | undefined): Part =>
  (c) =>
    choose(c)?.(c) ?? BROKEN

/** The part, or nothing if another character than `first` follows. */
export const optional =
  (first: string, part: Part): Part =>
  (c) =>
    c === first ? part(c) : done(c)

const NAME_LENGTH = 256
const NAME_CHARACTER = /^[^<>[\]{}"\n\r]$/

/** Whether a name may stand between tags: others cannot be told from what is around them. */
export const isTagName = (name: string): boolean =>
  name.trim() !== '' && name.length <= NAME_LENGTH && name.split('').every((c) => NAME_CHARACTER.test(c))

/** A name up to one of the characters `stops`, and the part that goes on with that character. */
export const named =
  (stops: string, next: (name: string) => Part, before = ''): Part =>
  (c) => {
    if (stops.includes(c)) return before.trim() === '' ? BROKEN : next(before)(c)
    return before.length < NAME_LENGTH && NAME_CHARACTER.test(c) ? more(named(stops, next, before + c)) : BROKEN
  }

/** One of some tags, none of which begins with another, and the part that goes on from there: nothing for null. */
export const tagged =
  (choices: readonly (readonly [tag: string, next: Part | null])[], before = ''): Part =>
  (c) => {
    const text = before + c
    const choice = choices.find(([tag]) => tag === text)
    if (choice !== undefined) return choice[1] === null ? done() : more(choice[1])
    return choices.some(([tag]) => tag.startsWith(text)) ? more(tagged(choices, text)) : BROKEN
  }

/** The end of a list. */
export const listEnd: Part = telling(literal(']'), [{ _tag: 'End' }])

/** `[item, item, ...]`, not empty. */
export const list = (part: Part): Part => {
  const next: Part = either((c) => (c === ',' ? sequence(literal(','), blanks, part, blanks, next) : listEnd))
  return sequence(literal('['), blanks, part, blanks, next)
}
