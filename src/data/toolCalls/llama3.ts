/** Calls as Llama 3 models write them: the whole answer is `{"name": ..., "parameters": {...}}`, or several with `;` between. */
import { type CallState, callStart, stepCall, type ToolDelta } from './callObject.js'
import { isBlank } from './json.js'
import type { CallMachine, MachineStep } from './machine.js'

const TAG = '<|python_tag|>'

type State =
  /** Before an object: at the beginning, or after `calls` of them. `held` is all since then. */
  | { readonly mode: 'before'; readonly calls: number; readonly held: string }
  | { readonly mode: 'call'; readonly call: CallState }
  /** No call comes any more. */
  | { readonly mode: 'text' }

type Step = MachineStep<State>

const textDelta = (text: string): readonly ToolDelta[] => (text === '' ? [] : [{ _tag: 'Text', text }])

const isSeparator = (text: string, calls: number): boolean =>
  calls === 0 ? TAG.startsWith(text.trim()) : /^\s*;?\s*$/.test(text)

const before = ({ calls, held }: Extract<State, { readonly mode: 'before' }>, c: string): Step => {
  const announced = held.trim() === '' || held.trim() === TAG || calls > 0
  if (c === '{' && announced) return { state: { mode: 'call', call: callStart(calls, held) }, deltas: [], again: c }
  const text = held + c
  return isSeparator(text, calls) && !(isBlank(c) && !announced)
    ? { state: { mode: 'before', calls, held: text }, deltas: [] }
    : { state: { mode: 'text' }, deltas: textDelta(text) }
}

const inCall = ({ call }: Extract<State, { readonly mode: 'call' }>, c: string): Step => {
  const step = stepCall(call, c)
  if (step._tag === 'Open') return { state: { mode: 'call', call: step.state }, deltas: step.deltas }
  if (step._tag === 'Closed') {
    return { state: { mode: 'before', calls: call.index + 1, held: '' }, deltas: step.deltas }
  }
  return { state: { mode: 'text' }, deltas: textDelta(call.name === null ? call.raw + c : c) }
}

const end = (state: State): readonly ToolDelta[] => {
  switch (state.mode) {
    case 'before':
      return state.calls === 0 ? textDelta(state.held) : textDelta(state.held.trim())
    case 'call':
      return state.call.name === null ? textDelta(state.call.raw) : []
    case 'text':
      return []
  }
}

/** The automaton. */
export const llama3: CallMachine<State> = {
  start: { mode: 'before', calls: 0, held: '' },
  step: (state, c) => {
    switch (state.mode) {
      case 'before':
        return before(state, c)
      case 'call':
        return inCall(state, c)
      case 'text':
        return { state, deltas: textDelta(c) }
    }
  },
  end,
}
