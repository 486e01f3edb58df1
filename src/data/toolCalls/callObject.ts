/** One call of a tool, written as a JSON object with a name and arguments, while it arrives. */
import { isBlank, JSON_START, type JsonState, stepJson } from './json.js'

/** What became certain of a text that may contain calls. */
export type ToolDelta =
  | { readonly _tag: 'Text'; readonly text: string }
  /** A call begins. */
  | { readonly _tag: 'Call'; readonly index: number; readonly name: string }
  /** More of the JSON text of a call's arguments. */
  | { readonly _tag: 'Arguments'; readonly index: number; readonly text: string }

type Part = 'key' | 'name' | 'arguments' | 'other'

/** Where the reading of a call is. */
export interface CallState {
  readonly index: number
  readonly json: JsonState
  /** Everything read, for when it turns out to be no call. */
  readonly raw: string
  readonly part: Part
  /** Of the key or the name that is being read. */
  readonly partText: string
  readonly key: string
  /** Null until it is read: before that, nothing of the call is told. */
  readonly name: string | null
  readonly arguments: 'absent' | 'open' | 'complete'
  /** Arguments that came before the name. */
  readonly early: string
}

/** Before the opening brace of the `index`-th call. `raw` is what announced it. */
export const callStart = (index: number, raw: string): CallState => ({
  index,
  json: JSON_START,
  raw,
  part: 'other',
  partText: '',
  key: '',
  name: null,
  arguments: 'absent',
  early: '',
})

/** What one more character makes of a call. `Broken`: no call goes on so; what was told of it stays told. */
export type CallStep =
  | { readonly _tag: 'Open' | 'Closed'; readonly state: CallState; readonly deltas: readonly ToolDelta[] }
  | { readonly _tag: 'Broken' }

const BROKEN: CallStep = { _tag: 'Broken' }

const ARGUMENT_KEYS: readonly string[] = ['arguments', 'parameters']

const argumentsDelta = (index: number, text: string): readonly ToolDelta[] =>
  text === '' ? [] : [{ _tag: 'Arguments', index, text }]

/** The part of the top level that a value belongs to; undefined if a call cannot have such a value. */
const partOf = (state: CallState, c: string): Part | undefined => {
  if (state.key === 'name' && state.name === null) return c === '"' ? 'name' : undefined
  if (ARGUMENT_KEYS.includes(state.key) && state.arguments === 'absent') return c === '{' ? 'arguments' : undefined
  return 'other'
}

/** The name is complete: the call is told, with the arguments that waited for it. */
const named = (state: CallState): CallStep => {
  const name: unknown = JSON.parse(state.partText)
  if (typeof name !== 'string' || name === '') return BROKEN
  return {
    _tag: 'Open',
    state: { ...state, name, part: 'other', early: '' },
    deltas: [{ _tag: 'Call', index: state.index, name }, ...argumentsDelta(state.index, state.early)],
  }
}

const grow = (state: CallState, c: string): CallStep => {
  const ends = state.json.stack === '{' && state.json.mode === 'next'
  switch (state.part) {
    case 'key': {
      const partText = state.partText + c
      const key = state.json.mode === 'colon' ? String(JSON.parse(partText)) : state.key
      return {
        _tag: 'Open',
        state: { ...state, partText, key, part: state.json.mode === 'colon' ? 'other' : 'key' },
        deltas: [],
      }
    }
    case 'name': {
      const next = { ...state, partText: state.partText + c }
      return ends ? named(next) : { _tag: 'Open', state: next, deltas: [] }
    }
    case 'arguments': {
      const told = state.name !== null
      const next: CallState = {
        ...state,
        arguments: ends ? 'complete' : 'open',
        part: ends ? 'other' : 'arguments',
        early: told ? '' : state.early + c,
      }
      return { _tag: 'Open', state: next, deltas: told ? argumentsDelta(state.index, c) : [] }
    }
    case 'other':
      return { _tag: 'Open', state, deltas: [] }
  }
}

/** The object is complete. A call without arguments has an empty object of them. */
const close = (state: CallState): CallStep => {
  if (state.name === null) return BROKEN
  const deltas = state.arguments === 'absent' ? argumentsDelta(state.index, '{}') : []
  return { _tag: 'Closed', state, deltas }
}

/** The call with one more character. */
export const stepCall = (before: CallState, c: string): CallStep => {
  const json = stepJson(before.json, c)
  if (json === undefined || (before.json.stack === '' && !isBlank(c) && c !== '{')) return BROKEN
  const state = { ...before, json, raw: before.raw + c }
  const isTop = before.json.stack === '{'
  if (isTop && json.mode === 'keyString' && before.part !== 'key')
    return grow({ ...state, part: 'key', partText: '' }, c)
  if (isTop && before.json.mode === 'value' && !isBlank(c)) {
    const part = partOf(state, c)
    return part === undefined ? BROKEN : grow({ ...state, part, partText: '' }, c)
  }
  return json.mode === 'end' ? close(state) : grow(state, c)
}
