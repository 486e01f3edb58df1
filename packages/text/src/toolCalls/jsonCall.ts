/**
 * TorchRL's JSON answers: the whole answer is `{"message": ..., "tools": [{"tool": ..., "args":
 * {...}, "tag": ...}]}`.
 */
import { callObject } from './callObject.js'
import { isBlank, JSON_START, type JsonState, stepJson } from './json.js'
import { type CallMachine, wholeAnswer } from './machine.js'
import { BROKEN, blanks, type CallEvent, done, END, more, type Part, type PartStep, sequence } from './part.js'

interface State {
  readonly json: JsonState
  readonly key: string
  /** The text so far of the key or the message that is being read; null elsewhere. */
  readonly text: string | null
  /** Message text that is not emitted yet. */
  readonly message: string
  /** The call that is being read. */
  readonly call: Part | null
  readonly known: 'nothing' | 'something'
}

const open = (state: State, events: readonly CallEvent[] = []): PartStep => more((c) => step(state, c), events)

const textEvent = (text: string): readonly CallEvent[] => (text === '' ? [] : [{ _tag: 'Text', text }])

/** Continues a call. The message is emitted before it. */
const inCall = (state: State, call: Part, c: string): PartStep => {
  const next = call(c)
  const isKnown = next.events.some(({ _tag }) => _tag === 'Call')
  const events = isKnown ? [...textEvent(state.message), ...next.events] : next.events
  const rest = isKnown ? { ...state, message: '' } : state
  if (next._tag === 'Broken') return { _tag: 'Broken', events }
  return open({ ...rest, call: next._tag === 'More' ? next.part : null }, events)
}

const CALL = callObject({ name: 'tool', arguments: ['args'], id: 'tag' })

/** Begins a top-level value: the message is text, the tools are a list. */
const beginValue = (state: State, c: string): PartStep => {
  if (state.key === 'message')
    return c === '"' ? open({ ...state, text: c, known: 'something' }, [{ _tag: 'Begin' }]) : BROKEN
  if (state.key === 'tools') return c === '[' ? open({ ...state, known: 'something' }) : BROKEN
  return open(state)
}

const step = (before: State, c: string): PartStep => {
  const json = stepJson(before.json, c)
  if (json === undefined) return BROKEN
  const state: State = { ...before, json }
  if (before.call !== null) return inCall(state, before.call, c)
  if (json.mode === 'end') return state.known === 'nothing' ? BROKEN : done('', [...textEvent(state.message), ...END])
  if (before.json.stack === '{[' && state.key === 'tools') {
    if (before.json.mode !== 'value' && before.json.mode !== 'firstItem') return open(state, c === ',' ? END : [])
    return c === '{' ? inCall(state, CALL, c) : isBlank(c) || c === ']' ? open(state) : BROKEN
  }
  if (before.json.stack !== '{') return open(state)
  if (before.text !== null) {
    const text = before.text + c
    if (json.mode === 'colon') return open({ ...state, text: null, key: String(JSON.parse(text)) })
    if (json.mode === 'next') return open({ ...state, text: null, message: state.message + String(JSON.parse(text)) })
    return open({ ...state, text })
  }
  if (json.mode === 'keyString') return open({ ...state, text: c })
  return before.json.mode === 'value' && !isBlank(c) ? beginValue(state, c) : open(state)
}

const START: State = { json: JSON_START, key: '', text: null, message: '', call: null, known: 'nothing' }

/** The machine of the `json_call` format. */
export const jsonCall: CallMachine = wholeAnswer(sequence(blanks, (c) => (c === '{' ? step(START, c) : BROKEN)))
