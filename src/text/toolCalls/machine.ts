/** Automata that read tool calls character by character. */
import { isBlank } from './json.js'
import type { CallEvent, Part, PartStep } from './part.js'

/** An event of reading a text that may contain calls, emitted as soon as it is final. */
export type ToolDelta =
  | { readonly _tag: 'Text'; readonly text: string }
  /** A call begins. */
  | { readonly _tag: 'Call'; readonly index: number; readonly name: string }
  /** The id of a call, if the text contains one. */
  | { readonly _tag: 'Id'; readonly index: number; readonly id: string }
  /** The next part of the JSON text of a call's arguments. */
  | { readonly _tag: 'Arguments'; readonly index: number; readonly text: string }

/** A tag that announces calls, and the part that follows it. */
export interface Opener {
  readonly tag: string
  readonly block: Part
}

/** The state in text, after `calls` calls. */
interface InText {
  readonly mode: 'text'
  readonly calls: number
  /** Blanks after calls, which are dropped if more calls follow. Null elsewhere. */
  readonly gap: string | null
  /** Text that may become a tag. */
  readonly held: string
}

/** The state in a block that a tag announced. */
interface InBlock {
  readonly mode: 'block'
  readonly calls: number
  readonly part: Part
  /** Text that was read and is not part of an emitted call. */
  readonly raw: string
  /** The length of the part of `raw` that announced the block. */
  readonly opened: number
  /** The index in `raw` of the possible start of a call. */
  readonly begun: number | null
  /** `before` all calls, `in` an emitted call, or `after` one. */
  readonly place: 'before' | 'in' | 'after'
}

export type MachineState = InText | InBlock

/** One step of a machine. `again` is read once more before the rest. */
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

/** Returns the block after an event of the last character of `raw`. */
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

/**
 * Leaves a malformed block. Emitted events stay emitted; the rest becomes text and is read again
 * for other calls.
 */
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

/**
 * Returns the first position in a text, from `at` on, where a machine does more than pass the text
 * on. All tags of a format begin with one character.
 */
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

/** Reads one more character. */
export const stepMachine = (state: MachineState, c: string, { openers }: CallMachine): MachineStep =>
  state.mode === 'text' ? stepText(state, c, openers) : stepBlock(state, c)

/**
 * Returns the events at the end of the text. Blanks after calls, and a missing end of a block, are
 * ignored.
 */
export const endMachine = (state: MachineState): readonly ToolDelta[] => {
  if (state.mode === 'text') return state.held === '' ? [] : textDelta((state.gap ?? '') + state.held)
  const { place, raw, begun } = state
  return place === 'before' ? textDelta(raw) : textDelta(begun === null ? '' : raw.slice(begun))
}

/** Creates a machine for calls anywhere in a text, after one of some tags. */
export const markedCalls = (openers: readonly Opener[]): CallMachine => ({
  openers,
  start: { mode: 'text', calls: 0, gap: null, held: '' },
})

/**
 * Creates a machine for formats in which the whole answer is calls. An answer with another
 * beginning has no calls.
 */
export const wholeAnswer = (block: Part): CallMachine => ({
  openers: [],
  start: { mode: 'block', calls: 0, part: block, raw: '', opened: 0, begun: null, place: 'before' },
})
