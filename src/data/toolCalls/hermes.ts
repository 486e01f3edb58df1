/** Calls as Hermes and Qwen models write them: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, any number, with text around. */
import { type CallState, callStart, stepCall, type ToolDelta } from './callObject.js'
import { isBlank } from './json.js'
import type { CallMachine, MachineStep } from './machine.js'

const OPEN = '<tool_call>'
const CLOSE = '</tool_call>'

type State =
  /** `held` is what may become a tag, after blanks that belong to nobody if one follows. */
  | { readonly mode: 'text'; readonly calls: number; readonly held: string; readonly isGap: boolean }
  | { readonly mode: 'call'; readonly call: CallState }
  /** After a call's object, before its closing tag. */
  | { readonly mode: 'closing'; readonly calls: number; readonly held: string }

type Step = MachineStep<State>

const textDelta = (text: string): readonly ToolDelta[] => (text === '' ? [] : [{ _tag: 'Text', text }])

/** In text. The tag has no second `<`, so that what cannot become one is text but for a last `<`. */
const inText = (state: Extract<State, { readonly mode: 'text' }>, c: string): Step => {
  const held = state.held + c
  const tag = state.isGap ? held.trimStart() : held
  if (tag === OPEN) return { state: { mode: 'call', call: callStart(state.calls, OPEN) }, deltas: [] }
  if (OPEN.startsWith(tag) && (state.isGap || tag !== '')) return { state: { ...state, held }, deltas: [] }
  const rest = c === '<' ? '<' : ''
  return {
    state: { ...state, held: rest, isGap: false },
    deltas: textDelta(rest === '' ? held : held.slice(0, -1)),
  }
}

const inCall = ({ call }: Extract<State, { readonly mode: 'call' }>, c: string): Step => {
  const step = stepCall(call, c)
  if (step._tag === 'Open') return { state: { mode: 'call', call: step.state }, deltas: step.deltas }
  if (step._tag === 'Closed') {
    return { state: { mode: 'closing', calls: call.index + 1, held: '' }, deltas: step.deltas }
  }
  if (call.name !== null) {
    return { state: { mode: 'text', calls: call.index + 1, held: '', isGap: false }, deltas: [], again: c }
  }
  return {
    state: { mode: 'text', calls: call.index, held: '', isGap: false },
    deltas: textDelta(OPEN),
    again: call.raw.slice(OPEN.length) + c,
  }
}

const inClosing = (state: Extract<State, { readonly mode: 'closing' }>, c: string): Step => {
  const held = state.held + c
  const tag = held.trimStart()
  const gap: State = { mode: 'text', calls: state.calls, held: '', isGap: true }
  if (tag === CLOSE) return { state: gap, deltas: [] }
  if (CLOSE.startsWith(tag)) return { state: { ...state, held }, deltas: [] }
  return { state: gap, deltas: [], again: held }
}

const end = (state: State): readonly ToolDelta[] => {
  switch (state.mode) {
    case 'text':
      return textDelta(state.isGap ? state.held.trimStart() : state.held)
    case 'call':
      return state.call.name === null ? textDelta(state.call.raw) : []
    case 'closing': // half a tag of a call that is complete
      return []
  }
}

/** The automaton. Blanks between calls belong to nobody. */
export const hermes: CallMachine<State> = {
  start: { mode: 'text', calls: 0, held: '', isGap: false },
  step: (state, c) => {
    switch (state.mode) {
      case 'text':
        return inText(state, c)
      case 'call':
        return isBlank(c) && state.call.json.stack === ''
          ? { state: { mode: 'call', call: { ...state.call, raw: state.call.raw + c } }, deltas: [] }
          : inCall(state, c)
      case 'closing':
        return inClosing(state, c)
    }
  },
  end,
}
