/** One tool call, written as a JSON object with a name and arguments. */
import { isBlank, JSON_START, type JsonState, stepJson } from './json.js'
import { argumentsEvent, BROKEN, type CallEvent, done, item, more, type Part, type PartStep } from './part.js'

/** The keys of a call's object. Without `id`, the format has no ids. */
export interface CallKeys {
  readonly name: string
  readonly arguments: readonly string[]
  readonly id?: string
  /**
   * The names of tools, for formats without tags of their own: an object without arguments and with
   * another name is data. Default: every object with a name is a call.
   */
  readonly tools?: ReadonlySet<string>
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
  /** The id and arguments from before the name. */
  readonly early: { readonly id?: string; readonly arguments: string }
}

/** Returns the role of a top-level value, or undefined if a call cannot have it. */
const roleOf = ({ key, keys, name, arguments: args }: CallState, c: string): Role | undefined => {
  if (key === keys.name && name === null) return c === '"' ? 'name' : undefined
  if (keys.arguments.includes(key) && args === 'absent') return 'arguments'
  return key === keys.id && c === '"' ? 'id' : 'other'
}

const open = (state: CallState, events: readonly CallEvent[] = []): PartStep => more((c) => step(state, c), events)

const certaintyOf = ({ keys, arguments: args }: CallState, name: string): 'certain' | 'possible' =>
  keys.tools === undefined || args !== 'absent' || keys.tools.has(name) ? 'certain' : 'possible'

/** Handles the end of a key, a name or an id. */
const finished = (state: CallState): PartStep => {
  const text = String(JSON.parse(state.text))
  const next: CallState = { ...state, role: 'other', text: '' }
  if (state.role === 'key') return open({ ...next, key: text })
  if (state.role === 'id') {
    if (text === '') return open(next)
    return state.name === null
      ? open({ ...next, early: { ...state.early, id: text } })
      : open(next, [{ _tag: 'Id', id: text }])
  }
  if (text === '') return BROKEN
  const { id, arguments: args } = state.early
  return open({ ...next, name: text, early: NOTHING }, [
    { _tag: 'Call', name: text, certainty: certaintyOf(state, text) },
    ...(id === undefined ? [] : [{ _tag: 'Id', id } as const]),
    ...argumentsEvent(args),
  ])
}

/** Adds a character of the arguments, which may be any value. */
const growArguments = (state: CallState, c: string): PartStep => {
  const { name, json, early } = state
  const ends = json.stack === '{' && json.mode === 'next'
  const next: CallState = {
    ...state,
    arguments: ends ? 'complete' : 'open',
    role: ends ? 'other' : 'arguments',
    early: name === null ? { ...early, arguments: early.arguments + c } : early,
  }
  const isFirst = state.arguments === 'absent'
  if (name === null) return open(next)
  return open(next, [...(isFirst ? [{ _tag: 'Certain' } as const] : []), ...argumentsEvent(c)])
}

const grow = (state: CallState, c: string): PartStep => {
  const { role, json } = state
  if (role === 'other') return open(state)
  if (role === 'arguments') return growArguments(state, c)
  const next = { ...state, text: state.text + c }
  return json.mode === (role === 'key' ? 'colon' : 'next') ? finished(next) : open(next)
}

/** Handles the end of the object. A call without arguments gets an empty object. */
const close = (state: CallState): PartStep => {
  const { name, arguments: args } = state
  if (name === null || certaintyOf(state, name) === 'possible') return BROKEN
  return done('', args === 'absent' ? argumentsEvent('{}') : [])
}

/** Ends arguments that are a number or a word, which end before the character after them. */
const withoutScalar = (state: CallState, { json: before }: CallState): CallState =>
  state.role === 'arguments' && before.mode === 'scalar' && before.stack === '{' && state.json.mode !== 'scalar'
    ? { ...state, role: 'other', arguments: 'complete' }
    : state

const step = (before: CallState, c: string): PartStep => {
  const json = stepJson(before.json, c)
  if (json === undefined) return BROKEN
  const state = withoutScalar({ ...before, json }, before)
  if (json.mode === 'end') return close(state)
  if (before.json.stack !== '{') return grow(state, c)
  if (json.mode === 'keyString' && before.role !== 'key') return grow({ ...state, role: 'key' }, c)
  if (before.json.mode === 'value' && !isBlank(c)) {
    const role = roleOf(state, c)
    return role === undefined ? BROKEN : grow({ ...state, role }, c)
  }
  return grow(state, c)
}

const NOTHING: CallState['early'] = { arguments: '' }

const STATE: Omit<CallState, 'keys'> = {
  json: JSON_START,
  role: 'other',
  text: '',
  key: '',
  name: null,
  arguments: 'absent',
  early: NOTHING,
}

/** Reads `{"name": ..., "arguments": {...}}`, with its keys in any order and with other keys. */
export const callObject = (keys: CallKeys): Part => item((c) => (c === '{' ? step({ ...STATE, keys }, c) : BROKEN))

const argumentsFrom =
  (before: JsonState): Part =>
  (c) => {
    const json = stepJson(before, c)
    if (json === undefined) return BROKEN
    return json.mode === 'end' ? done('', argumentsEvent(c)) : more(argumentsFrom(json), argumentsEvent(c))
  }

/** Reads the JSON object of the arguments of a call. */
export const argumentsObject: Part = (c) => (c === '{' ? argumentsFrom(JSON_START)(c) : BROKEN)
