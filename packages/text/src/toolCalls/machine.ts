/** Automata that read tool calls character by character. */
import { isLeft } from 'fp-ts/lib/Either.js'
import { callArguments } from './callArguments.js'
import { isBlank } from './json.js'
import type { CallEvent, Part, PartStep } from './part.js'
import type { Thoughts } from './thoughts.js'

/** A call as a model wrote it. */
export interface WrittenCall {
  readonly id?: string
  /** Empty if it is not known. */
  readonly name: string
  /** The JSON text of an object; any text if the call is malformed. */
  readonly arguments: string
  /** The reason why the call is malformed, so that it must not be run. Default: it is not. */
  readonly problem?: string
}

/** An event of reading a text that may contain calls, emitted as soon as it is final. */
export type ToolDelta =
  | { readonly _tag: 'Text'; readonly text: string }
  | { readonly _tag: 'Thoughts'; readonly text: string }
  /** A call, whole or malformed. */
  | { readonly _tag: 'Call'; readonly call: WrittenCall }

/** A tag that announces calls, and the part that follows it. */
export interface Opener {
  readonly tag: string
  readonly block: Part
  /** The text with which a malformed call ends. Default: it ends with the text. */
  readonly close?: string
  /** `calls`: a value in the block is a call, or malformed. `data`: it may be anything. */
  readonly holds: 'calls' | 'data'
}

/** The state in text. */
interface InText {
  readonly mode: 'text'
  /** A call that has ended, until something follows it or the text ends. */
  readonly last: WrittenCall | null
  /** Blanks at the start or after calls are held, and dropped if calls follow. */
  readonly after: 'start' | 'text' | 'calls'
  readonly gap: string
  /** Text that may become a tag. */
  readonly held: string
}

/** A call of which the name is known. */
type OpenCall = WrittenCall & { readonly certainty: 'certain' | 'possible' }

/** The state in a block that a tag announced. */
interface InBlock {
  readonly mode: 'block'
  readonly last: WrittenCall | null
  readonly opener: Opener
  readonly part: Part
  /** The text since the last call ended, or the whole block. */
  readonly raw: string
  /** The length of the part of `raw` that announced the block; null after a call. */
  readonly opened: number | null
  /** The index in `raw` of the possible start of a call. */
  readonly begun: number | null
  readonly call: OpenCall | null
}

/** The state in the rest of a malformed call. */
interface InRest {
  readonly mode: 'rest'
  readonly opener: Opener
  readonly call: WrittenCall
  /** Text that may become a tag. */
  readonly held: string
}

/** The state in thoughts. */
interface InThoughts {
  readonly mode: 'thoughts'
  /** The state after them. */
  readonly next: MachineState
  /** Before the first character that is not blank, after it, or after the closing tag. */
  readonly place: 'start' | 'inside' | 'closed'
  /** Blanks that are dropped if the thoughts end with them. */
  readonly blanks: string
  /** Text that may become a tag. */
  readonly held: string
}

export type MachineState = InText | InBlock | InRest | InThoughts

/** One step of a machine. `again` is read once more before the rest. */
export interface MachineStep {
  readonly state: MachineState
  readonly deltas: readonly ToolDelta[]
  readonly again: string
}

/** A format of calls. Its start is that of the answer. */
export interface CallMachine {
  readonly start: MachineState
  readonly openers: readonly Opener[]
  /** Default: none. */
  readonly thoughts?: Thoughts
}

const textDelta = (text: string): readonly ToolDelta[] => (text === '' ? [] : [{ _tag: 'Text', text }])

const callDelta = (call: WrittenCall | null): readonly ToolDelta[] => (call === null ? [] : [{ _tag: 'Call', call }])

const UNFINISHED = 'the text ends before the call does'
const INVALID = 'it is not written in the format of the model'

const malformed = ({ id, name, arguments: args }: WrittenCall, problem: string): WrittenCall => ({
  ...(id !== undefined && { id }),
  name,
  arguments: args,
  problem,
})

/** Returns a call that has ended. */
const endedCall = ({ id, name, arguments: args }: WrittenCall): WrittenCall => {
  const call = { ...(id !== undefined && { id }), name, arguments: args }
  const read = callArguments(args)
  return isLeft(read) ? malformed(call, read.left) : call
}

const inText = (after: InText['after'], last: WrittenCall | null = null): InText => ({
  mode: 'text',
  last,
  after,
  gap: '',
  held: '',
})

const inBlock = (opener: Opener, raw: string, last: WrittenCall | null): InBlock => ({
  mode: 'block',
  last,
  opener,
  part: opener.block,
  raw,
  opened: raw.length,
  begun: null,
  call: null,
})

const inThoughts = (next: MachineState): InThoughts => ({
  mode: 'thoughts',
  next,
  place: 'start',
  blanks: '',
  held: '',
})

/**
 * Returns the tag that opens thoughts. Thoughts come first, except that no calls are read in later
 * ones either where they are text anyway.
 */
const openTag = ({ after }: InText, { thoughts }: CallMachine): string | undefined =>
  after === 'start' || thoughts?.as === 'text' ? thoughts?.tags[0] : undefined

const stepText = (state: InText, c: string, machine: CallMachine): MachineStep => {
  const { openers, thoughts } = machine
  const { last, gap } = state
  const held = state.held + c
  const opener = openers.find(({ tag }) => tag === held)
  if (opener !== undefined) return { state: inBlock(opener, gap + held, last), deltas: [], again: '' }
  const open = openTag(state, machine)
  if (open === held) {
    const next = state.after === 'start' ? machine.start : inText('text')
    const deltas = [...callDelta(last), ...textDelta(thoughts?.as === 'text' ? gap + held : '')]
    return { state: inThoughts(next), deltas, again: '' }
  }
  if ([open, ...openers.map(({ tag }) => tag)].some((tag) => tag?.startsWith(held))) {
    return { state: { ...state, held }, deltas: [], again: '' }
  }
  if (state.after !== 'text' && held.length === 1 && isBlank(c)) {
    return { state: { ...state, gap: gap + c }, deltas: [], again: '' }
  }
  return { state: inText('text'), deltas: [...callDelta(last), ...textDelta(gap + held[0]!)], again: held.slice(1) }
}

/** Returns the block after an event of the last character of `raw`, and the final deltas. */
const afterEvent = (state: InBlock, event: CallEvent): readonly [InBlock, readonly ToolDelta[]] => {
  const { call, raw, last } = state
  const add = (more: Partial<OpenCall>): InBlock => (call === null ? state : { ...state, call: { ...call, ...more } })
  switch (event._tag) {
    case 'Begin':
      return [{ ...state, last: null, begun: Math.max(0, raw.length - 1) }, callDelta(last)]
    case 'Call': {
      const { name, certainty } = event
      return [{ ...state, last: null, call: { name, certainty, arguments: '' } }, callDelta(last)]
    }
    case 'Certain':
      return [add({ certainty: 'certain' }), []]
    case 'Id':
      return [add({ id: event.id }), []]
    case 'Arguments':
      return [add({ arguments: `${call?.arguments}${event.text}` }), []]
    case 'Text':
      return [{ ...state, last: null }, [...callDelta(last), event]]
    case 'End': {
      const next = { ...state, raw: '', opened: null, begun: null, call: null }
      return call === null ? [next, []] : [{ ...next, last: endedCall(call) }, callDelta(last)]
    }
  }
}

/** Returns the unfinished call of a block, or undefined if there is no call. */
const unfinished = (
  { opener, raw, opened, begun, call }: InBlock,
  why: 'broken' | 'complete' | 'cut',
): WrittenCall | undefined => {
  if (call !== null && (why !== 'broken' || call.certainty === 'certain')) return call
  const isBegun = begun !== null && (opener.holds === 'calls' || why === 'cut')
  const isOpen = why === 'cut' && opened !== null && opened > 0
  return isBegun || isOpen ? { name: '', arguments: raw.slice(opened ?? begun ?? 0) } : undefined
}

/** The tags that end the rest of a malformed call. */
const tagsAfter = ({ close }: Opener, openers: readonly Opener[]): readonly string[] => [
  ...(close === undefined ? [] : [close]),
  ...openers.map(({ tag }) => tag),
]

/** Returns the end of a text that may be the start of a tag, or its last character. */
const tagStart = (text: string, tags: readonly string[]): string => {
  const longest = Math.min(text.length, Math.max(1, ...tags.map((tag) => tag.length)))
  const lengths = Array.from({ length: longest - 1 }, (_, i) => longest - i)
  const length = lengths.find((each) => tags.some((tag) => tag.startsWith(text.slice(-each)))) ?? 1
  return text.slice(-length)
}

/**
 * Leaves a broken block. A call is malformed, and its rest belongs to it. Anything else becomes
 * text, and is read again for other calls.
 */
const broken = (state: InBlock, openers: readonly Opener[]): MachineStep => {
  const { opener, raw, opened, last } = state
  const again = tagStart(raw, tagsAfter(opener, openers))
  const call = unfinished({ ...state, raw: raw.slice(0, -again.length) }, 'broken')
  if (call !== undefined) return { state: { mode: 'rest', opener, call, held: '' }, deltas: callDelta(last), again }
  if (opened === null) return { state: inText('calls', last), deltas: [], again: raw }
  if (opened === 0) return { state: inText('start'), deltas: [], again: raw }
  const deltas = [...callDelta(last), ...textDelta(raw.slice(0, opened))]
  return { state: inText('text'), deltas, again: raw.slice(opened) }
}

const stepBlock = (before: InBlock, c: string, openers: readonly Opener[]): MachineStep => {
  const step: PartStep = before.part(c)
  let state: InBlock = { ...before, raw: before.raw + c }
  const deltas: ToolDelta[] = []
  for (const event of step.events) {
    const [next, more] = afterEvent(state, event)
    state = next
    deltas.push(...more)
  }
  if (step._tag === 'More') return { state: { ...state, part: step.part }, deltas, again: '' }
  if (step._tag === 'Done') return { state: inText('calls', state.last), deltas, again: step.again }
  const rest = broken(state, openers)
  return { ...rest, deltas: [...deltas, ...rest.deltas] }
}

const thoughtsDelta = (text: string): readonly ToolDelta[] => (text === '' ? [] : [{ _tag: 'Thoughts', text }])

/** Adds text to thoughts, of which blanks at both ends are dropped. */
const withText = (state: InThoughts, text: string): readonly [InThoughts, readonly ToolDelta[]] => {
  const inked = text.trimEnd().length
  if (inked === 0) return [state.place === 'start' ? state : { ...state, blanks: state.blanks + text }, []]
  const added = text.slice(0, inked)
  const shown = state.place === 'start' ? added.trimStart() : state.blanks + added
  return [{ ...state, place: 'inside', blanks: text.slice(inked) }, thoughtsDelta(shown)]
}

const stepThoughts = (state: InThoughts, c: string, { tags, as }: Thoughts): MachineStep => {
  if (state.place === 'closed') {
    return isBlank(c) ? { state, deltas: [], again: '' } : { state: state.next, deltas: [], again: c }
  }
  const [open, close] = tags
  const known = state.place === 'start' && as === 'reasoning' ? tags : [close] // some models repeat the prompt's tag
  let held = state.held + c
  let passed = ''
  while (held !== '' && !known.some((tag) => tag.startsWith(held))) {
    passed += held[0]!
    held = held.slice(1)
  }
  if (as === 'text') {
    if (held === close) return { state: state.next, deltas: textDelta(passed + held), again: '' }
    return { state: { ...state, held }, deltas: textDelta(passed), again: '' }
  }
  const [next, deltas] = withText(state, passed)
  if (held === close) return { state: { ...next, place: 'closed', held: '' }, deltas, again: '' }
  return { state: { ...next, held: held === open ? '' : held }, deltas, again: '' }
}

const stepRest = (state: InRest, c: string, openers: readonly Opener[]): MachineStep => {
  const { opener } = state
  const tags = tagsAfter(opener, openers)
  let held = state.held + c
  let passed = ''
  while (held !== '' && !tags.some((tag) => tag.startsWith(held))) {
    passed += held[0]!
    held = held.slice(1)
  }
  const call = { ...state.call, arguments: state.call.arguments + passed }
  if (!tags.includes(held)) return { state: { ...state, call, held }, deltas: [], again: '' }
  const deltas = callDelta(malformed(call, INVALID))
  const next = openers.find(({ tag }) => tag === held && tag !== opener.close)
  return { state: next === undefined ? inText('calls') : inBlock(next, held, null), deltas, again: '' }
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
  if (state.mode !== 'text' || state.held !== '' || state.after !== 'text') return at
  if (machine.openers.length === 0) return text.length
  const marks = [machine.openers[0]!.tag[0], openTag(state, machine)?.[0]]
  let end = at
  while (end < text.length && !marks.includes(text[end])) end += 1
  return end
}

/** Reads one more character. */
export const stepMachine = (state: MachineState, c: string, machine: CallMachine): MachineStep => {
  switch (state.mode) {
    case 'text':
      return stepText(state, c, machine)
    case 'block':
      return stepBlock(state, c, machine.openers)
    case 'rest':
      return stepRest(state, c, machine.openers)
    case 'thoughts':
      return stepThoughts(state, c, machine.thoughts!) // set in this state
  }
}

/** Returns a call that nothing follows. In a reply that was cut off, it may not have ended. */
const lastDelta = (last: WrittenCall | null, how: 'complete' | 'cut'): readonly ToolDelta[] =>
  last === null ? [] : callDelta(how === 'cut' ? malformed(last, CUT_OFF) : last)

/** The reason why the last call of an unfinished reply is not run. */
export const CUT_OFF = 'the reply was cut off here'

/**
 * Returns the events at the end of the text. `cut`: the text is not whole, so that a call at its
 * end is malformed. Blanks after calls are ignored.
 */
export const endMachine = (
  state: MachineState,
  how: 'complete' | 'cut',
  { thoughts }: CallMachine,
): readonly ToolDelta[] => {
  if (state.mode === 'thoughts') {
    return thoughts?.as === 'text' ? textDelta(state.held) : withText(state, state.held)[1]
  }
  if (state.mode === 'rest') {
    const { call, held } = state
    return callDelta(malformed({ ...call, arguments: call.arguments + held }, INVALID))
  }
  const { last } = state
  if (state.mode === 'text') {
    const { gap, held, after } = state
    if (held !== '') return [...callDelta(last), ...textDelta(gap + held)]
    return [...textDelta(after === 'start' ? gap : ''), ...lastDelta(last, how)]
  }
  const { opened, raw, begun } = state
  const call = unfinished(state, how)
  if (call !== undefined) return [...callDelta(last), ...callDelta(malformed(call, UNFINISHED))]
  const text = opened === null ? raw.slice(begun ?? raw.length) : raw
  return text === '' ? lastDelta(last, how) : [...callDelta(last), ...textDelta(text)]
}

/** Creates a machine for calls anywhere in a text, after one of some tags. */
export const markedCalls = (openers: readonly Opener[]): CallMachine => ({ openers, start: inText('start') })

/**
 * Creates a machine for formats in which the whole answer is calls. An answer with another
 * beginning has no calls.
 */
export const wholeAnswer = (block: Part): CallMachine => ({
  openers: [],
  start: inBlock({ tag: '', block, holds: 'data' }, '', null),
})

/** Makes a machine read no calls in thoughts. */
export const withThoughts = (machine: CallMachine, thoughts: Thoughts): CallMachine => ({ ...machine, thoughts })

/** Returns the state before a text that may begin in thoughts. */
export const startOf = ({ start, thoughts }: CallMachine): MachineState =>
  thoughts?.place === 'inside' ? inThoughts(start) : start

/** Returns true in a call that has begun. */
export const isInCall = (state: MachineState): boolean =>
  state.mode === 'block' && (state.begun !== null || state.call !== null)
