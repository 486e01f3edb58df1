/** Automata that read calls of tools character by character. */
import { isBlank } from './json.js'
import type { CallEvent, Part, PartStep } from './part.js'

/** What became certain of a text that may contain calls. */
export type ToolDelta =
  | { readonly _tag: 'Text'; readonly text: string }
  /** A call begins. */
  | { readonly _tag: 'Call'; readonly index: number; readonly name: string }
  /** The id that the text gives a call, if it does. */
  | { readonly _tag: 'Id'; readonly index: number; readonly id: string }
  /** More of the JSON text of a call's arguments. */
  | { readonly _tag: 'Arguments'; readonly index: number; readonly text: string }

/** What announces calls, and what follows it. */
export interface Opener {
  readonly tag: string
  readonly block: Part
}

/** In text, after `calls` calls. */
interface InText {
  readonly mode: 'text'
  readonly calls: number
  /** Blanks after calls, which belong to nobody if calls follow. Null elsewhere. */
  readonly gap: string | null
  /** What may become a tag. */
  readonly held: string
}

/** In what a tag announced. */
interface InBlock {
  readonly mode: 'block'
  readonly calls: number
  readonly part: Part
  /** What was read and is not part of a call that is told. */
  readonly raw: string
  /** Up to here, `raw` is what announced the block. */
  readonly opened: number
  /** Where in `raw` what may become a call begins. */
  readonly begun: number | null
  /** `before` all calls, `in` one that is told, `after` one. */
  readonly place: 'before' | 'in' | 'after'
}

export type MachineState = InText | InBlock

/** One step of a machine over characters. `again` is read before what follows. */
export interface MachineStep {
  readonly state: MachineState
  readonly deltas: readonly ToolDelta[]
  readonly again: string
}

/** A format of calls. */
export interface CallMachine {
  readonly start: MachineState
  readonly openers: readonly Opener[]
}

const textDelta = (text: string): readonly ToolDelta[] => (text === '' ? [] : [{ _tag: 'Text', text }])

const stepText = (state: InText, c: string, openers: readonly Opener[]): MachineStep => {
  const { calls, gap } = state
  const held = state.held + c
  const opener = openers.find(({ tag }) => tag === held)
  if (opener !== undefined) {
    const raw = (gap ?? '') + held
    const block = { part: opener.block, raw, opened: raw.length, begun: null, place: 'before' } as const
    return { state: { mode: 'block', calls, ...block }, deltas: [], again: '' }
  }
  if (openers.some(({ tag }) => tag.startsWith(held))) return { state: { ...state, held }, deltas: [], again: '' }
  if (gap !== null && held.length === 1 && isBlank(c)) {
    return { state: { ...state, gap: gap + c }, deltas: [], again: '' }
  }
  return {
    state: { mode: 'text', calls, gap: null, held: '' },
    deltas: textDelta((gap ?? '') + held[0]!),
    again: held.slice(1),
  }
}

/** The block after an event, which happened with the last character of `raw`. */
const afterEvent = (state: InBlock, event: CallEvent): InBlock => {
  switch (event._tag) {
    case 'Begin':
      return { ...state, begun: state.raw.length - 1 }
    case 'Call':
      return { ...state, calls: state.calls + 1, raw: '', begun: null, place: 'in' }
    case 'End':
      return { ...state, raw: '', begun: null, place: 'after' }
    default:
      return state
  }
}

const deltaOf = (event: CallEvent, index: number): readonly ToolDelta[] => {
  switch (event._tag) {
    case 'Call':
    case 'Id':
    case 'Arguments':
      return [{ ...event, index }]
    case 'Text':
      return [event]
    default:
      return []
  }
}

/** No block goes on so: what was told stays told, what was not is text, and read again for other calls. */
const broken = (
  { place, calls, raw, opened }: InBlock,
  c: string,
): Omit<MachineStep, 'deltas'> & { readonly text: string } => {
  const state = { mode: 'text', calls, gap: place === 'after' ? '' : null, held: '' } as const
  if (place === 'in') return { state, text: '', again: c }
  return place === 'after'
    ? { state, text: '', again: raw }
    : { state, text: raw.slice(0, opened), again: raw.slice(opened) }
}

const stepBlock = (before: InBlock, c: string): MachineStep => {
  const step: PartStep = before.part(c)
  let state: InBlock = before.place === 'in' ? before : { ...before, raw: before.raw + c }
  const deltas: ToolDelta[] = []
  for (const event of step.events) {
    state = afterEvent(state, event)
    deltas.push(...deltaOf(event, state.calls - 1))
  }
  if (step._tag === 'More') return { state: { ...state, part: step.part }, deltas, again: '' }
  if (step._tag === 'Done') {
    return { state: { mode: 'text', calls: state.calls, gap: '', held: '' }, deltas, again: step.again }
  }
  const { text, ...rest } = broken(state, c)
  return { ...rest, deltas: [...deltas, ...textDelta(text)] }
}

/** Where in a text, from `at` on, a machine does more than to pass the text on. All tags of a format begin with one character. */
export const plainUntil = (
  state: MachineState,
  text: string,
  { at, machine }: { readonly at: number; readonly machine: CallMachine },
): number => {
  if (state.mode !== 'text' || state.held !== '' || state.gap !== null) return at
  const mark = machine.openers[0]?.tag[0]
  const next = mark === undefined ? -1 : text.indexOf(mark, at)
  return next === -1 ? text.length : next
}

/** The machine with one more character. */
export const stepMachine = (state: MachineState, c: string, { openers }: CallMachine): MachineStep =>
  state.mode === 'text' ? stepText(state, c, openers) : stepBlock(state, c)

/** What is left when the text ends. Blanks after calls, and what is missing of the end of a block, are nothing. */
export const endMachine = (state: MachineState): readonly ToolDelta[] => {
  if (state.mode === 'text') return state.held === '' ? [] : textDelta((state.gap ?? '') + state.held)
  const { place, raw, begun } = state
  return place === 'before' ? textDelta(raw) : textDelta(begun === null ? '' : raw.slice(begun))
}

/** Calls anywhere in a text, after one of some tags. */
export const markedCalls = (openers: readonly Opener[]): CallMachine => ({
  openers,
  start: { mode: 'text', calls: 0, gap: null, held: '' },
})

/** Calls that the whole answer is written as: what does not begin so has none. */
export const wholeAnswer = (block: Part): CallMachine => ({
  openers: [],
  start: { mode: 'block', calls: 0, part: block, raw: '', opened: 0, begun: null, place: 'before' },
})
