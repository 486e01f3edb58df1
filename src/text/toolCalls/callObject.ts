/** One tool call, written as a JSON object with a name and arguments. */
import { isBlank, JSON_START, type JsonState, stepJson } from './json.js'
import { argumentsEvent, BROKEN, type CallEvent, done, item, more, type Part, type PartStep } from './part.js'

/** The keys of a call's object. Without `id`, the format has no ids. */
export interface CallKeys {
  readonly name: string
  readonly arguments: readonly string[]
  readonly id?: string
}

type Role = 'key' | 'name' | 'arguments' | 'id' | 'other'

/** The state of reading a call. */
interface CallState {
  readonly keys: CallKeys
  readonly json: JsonState
  readonly role: Role
  /** The text so far of the key, name or id that is being read. */
  readonly text: string
  readonly key: string
  /** Null until it is read. No event of the call is emitted before that. */
  readonly name: string | null
  readonly arguments: 'absent' | 'open' | 'complete'
  /** Events from before the name. */
  readonly early: readonly CallEvent[]
  readonly earlyText: string
}

/** Returns the role of a top-level value, or undefined if a call cannot have it. */
const roleOf = ({ key, keys, name, arguments: args }: CallState, c: string): Role | undefined => {
  if (key === keys.name && name === null) return c === '"' ? 'name' : undefined
  if (keys.arguments.includes(key) && args === 'absent') return c === '{' ? 'arguments' : undefined
  return key === keys.id && c === '"' ? 'id' : 'other'
}

const open = (state: CallState, events: readonly CallEvent[] = []): PartStep => more((c) => step(state, c), events)

/** Emits an event, or buffers it until the name is known. */
const tell = (state: CallState, event: CallEvent): PartStep =>
  state.name === null ? open({ ...state, early: [...state.early, event] }) : open(state, [event])

/** Handles the end of a key, a name or an id. */
const said = (state: CallState): PartStep => {
  const text = String(JSON.parse(state.text))
  const next: CallState = { ...state, role: 'other', text: '' }
  if (state.role === 'key') return open({ ...next, key: text })
  if (state.role === 'id') return text === '' ? open(next) : tell(next, { _tag: 'Id', id: text })
  if (text === '') return BROKEN
  const { early, earlyText } = state
  return open({ ...next, name: text, early: [], earlyText: '' }, [
    { _tag: 'Call', name: text },
    ...early,
    ...argumentsEvent(earlyText),
  ])
}

const grow = (state: CallState, c: string): PartStep => {
  const { role, json, name } = state
  if (role === 'other') return open(state)
  const isTop = json.stack === '{'
  if (role === 'arguments') {
    const ends = isTop && json.mode === 'next'
    const next: CallState = {
      ...state,
      arguments: ends ? 'complete' : 'open',
      role: ends ? 'other' : 'arguments',
      earlyText: name === null ? state.earlyText + c : '',
    }
    return open(next, name === null ? [] : argumentsEvent(c))
  }
  const next = { ...state, text: state.text + c }
  return json.mode === (role === 'key' ? 'colon' : 'next') ? said(next) : open(next)
}

/** Handles the end of the object. A call without arguments gets an empty object. */
const close = (state: CallState): PartStep =>
  state.name === null
    ? BROKEN
    : done('', [...(state.arguments === 'absent' ? argumentsEvent('{}') : []), { _tag: 'End' }])

const step = (before: CallState, c: string): PartStep => {
  const json = stepJson(before.json, c)
  if (json === undefined) return BROKEN
  const state = { ...before, json }
  if (json.mode === 'end') return close(state)
  if (before.json.stack !== '{') return grow(state, c)
  if (json.mode === 'keyString' && before.role !== 'key') return grow({ ...state, role: 'key' }, c)
  if (before.json.mode === 'value' && !isBlank(c)) {
    const role = roleOf(state, c)
    return role === undefined ? BROKEN : grow({ ...state, role }, c)
  }
  return grow(state, c)
}

const STATE: Omit<CallState, 'keys'> = {
  json: JSON_START,
  role: 'other',
  text: '',
  key: '',
  name: null,
  arguments: 'absent',
  early: [],
  earlyText: '',
}

/** Reads `{"name": ..., "arguments": {...}}`, with its keys in any order and with other keys. */
export const callObject = (keys: CallKeys): Part => item((c) => (c === '{' ? step({ ...STATE, keys }, c) : BROKEN))

const argumentsFrom =
  (before: JsonState): Part =>
  (c) => {
    const json = stepJson(before, c)
    if (json === undefined) return BROKEN
    const events = argumentsEvent(c)
    return json.mode === 'end' ? done('', [...events, { _tag: 'End' }]) : more(argumentsFrom(json), events)
  }

/** Reads the JSON object of the arguments of an emitted call, and its end. */
export const argumentsObject: Part = (c) => (c === '{' ? argumentsFrom(JSON_START)(c) : BROKEN)
