/**
 * JavaScript values as JSON, and back, exactly.
 *
 * JSON's own values stand for themselves, so that other programs can read them. What JSON does not have is a record with one marked
 * field, `$type`: numbers such as NaN and -0, bigints, undefined, dates, typed arrays, immutable Lists, History; and records that have a
 * field of that name themselves.
 */
import * as E from 'fp-ts/lib/Either.js'
import { List } from 'immutable'
import { z } from 'zod'
import { History, type Message } from '../history.js'

/** What JSON.stringify writes without loss. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json }

const MARK = '$type'

const TYPED_ARRAYS = {
  Float32Array,
  Float64Array,
  Int8Array,
  Int16Array,
  Int32Array,
  Uint8Array,
  Uint16Array,
  Uint32Array,
} as const

type TypedArrayName = keyof typeof TYPED_ARRAYS

/** A value that cannot be written, and where it is. */
export interface UnwritableValue {
  readonly path: readonly string[]
  readonly reason: string
}

/** Where the values that cannot be written are gathered. */
type Refuse = (path: readonly string[], reason: string) => null

const numberToJson = (value: number): Json =>
  Number.isFinite(value) && !Object.is(value, -0)
    ? value
    : { [MARK]: 'number', value: Object.is(value, -0) ? '-0' : String(value) }

const isPlainRecord = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

const isHistory = (value: object): value is History =>
  '_tag' in value &&
  value._tag === 'History' &&
  'messages' in value &&
  List.isList(value.messages) &&
  Object.keys(value).length === 2

const recordToJson = (value: object, convert: (value: unknown, key: string) => Json): Json => {
  const entries = Object.entries(value).map(([key, item]) => [key, convert(item, key)] as const)
  return Object.hasOwn(value, MARK) ? { [MARK]: 'record', entries } : Object.fromEntries(entries)
}

const objectToJson = (
  value: object,
  place: { readonly path: readonly string[]; readonly above: readonly object[] },
  refuse: Refuse,
): Json => {
  const { path, above } = place
  if (above.includes(value)) return refuse(path, 'a value that contains itself')
  const convert = (item: unknown, key: string | number): Json =>
    toJson(item, { path: [...path, String(key)], above: [...above, value] }, refuse)
  if (Array.isArray(value)) return Array.from(value, convert)
  if (List.isList(value)) return { [MARK]: 'List', items: value.toArray().map(convert) }
  if (isHistory(value)) return { [MARK]: 'History', messages: value.messages.toArray().map(convert) }
  if (value instanceof Date)
    return { [MARK]: 'Date', value: Number.isNaN(value.getTime()) ? null : value.toISOString() }
  const name = Object.keys(TYPED_ARRAYS).find((each) => value instanceof TYPED_ARRAYS[each as TypedArrayName]) // its own keys
  if (name !== undefined) return { [MARK]: name, values: Array.from(value as Float64Array, numberToJson) } // one of them, by `find`
  if (!isPlainRecord(value)) return refuse(path, `an object of class ${value.constructor?.name ?? 'unknown'}`)
  if (Object.getOwnPropertySymbols(value).length > 0) return refuse(path, 'a record with symbols as keys')
  return recordToJson(value, convert)
}

const toJson = (
  value: unknown,
  place: { readonly path: readonly string[]; readonly above: readonly object[] },
  refuse: Refuse,
): Json => {
  switch (typeof value) {
    case 'boolean':
    case 'string':
      return value
    case 'number':
      return numberToJson(value)
    case 'bigint':
      return { [MARK]: 'bigint', value: String(value) }
    case 'undefined':
      return { [MARK]: 'undefined' }
    case 'object':
      return value === null ? null : objectToJson(value, place, refuse)
    default:
      return refuse(place.path, `a ${typeof value}`)
  }
}

/**
 * A value as JSON.
 *
 * Errors   `Left` with every value inside that cannot be written: functions, symbols, objects of other classes, values that contain
 *          themselves.
 * Effects  none.
 *
 * @example
 * encodeValue({ a: [1, 2n] }) // right({ a: [1, { $type: 'bigint', value: '2' }] })
 */
export const encodeValue = (value: unknown): E.Either<readonly UnwritableValue[], Json> => {
  const problems: UnwritableValue[] = []
  const json = toJson(value, { path: [], above: [] }, (path, reason) => {
    problems.push({ path, reason })
    return null
  })
  return problems.length > 0 ? E.left(problems) : E.right(json)
}

const NUMBERS: Readonly<Record<string, number>> = {
  NaN: Number.NaN,
  Infinity: Number.POSITIVE_INFINITY,
  '-Infinity': Number.NEGATIVE_INFINITY,
  '-0': -0,
}

const messageSchema = z.looseObject({
  role: z.string(),
  content: z.array(z.looseObject({ type: z.string() })),
  toolCalls: z.array(z.looseObject({ name: z.string() })),
  isComplete: z.boolean(),
})

/** A place in JSON that does not say what it should. */
class ValueProblem extends Error {}

const fail = (path: readonly string[], problem: string): never => {
  throw new ValueProblem(`${path.length > 0 ? `${path.join('.')}: ` : ''}${problem}`)
}

const decodeMarked = (record: Readonly<Record<string, unknown>>, path: readonly string[]): unknown => {
  const { [MARK]: type, value } = record
  const list = (name: string): readonly unknown[] => {
    const found = record[name]
    return Array.isArray(found)
      ? found.map((item, i) => fromJson(item, [...path, String(i)]))
      : fail(path, `${String(type)} without a list of ${name}`)
  }
  switch (type) {
    case 'undefined':
      return undefined
    case 'number':
      return typeof value === 'string' && Object.hasOwn(NUMBERS, value)
        ? NUMBERS[value]
        : fail(path, 'number that is none')
    case 'bigint':
      return typeof value === 'string' && /^-?\d+$/.test(value) ? BigInt(value) : fail(path, 'bigint that is none')
    case 'Date':
      if (value === null) return new Date(Number.NaN)
      return typeof value === 'string' && !Number.isNaN(Date.parse(value))
        ? new Date(value)
        : fail(path, 'Date that is none')
    case 'List':
      return List(list('items'))
    case 'History': {
      const messages = list('messages')
      const parsed = z.array(messageSchema).safeParse(messages)
      return parsed.success
        ? History(messages as readonly Message[])
        : fail(path, `History: ${parsed.error.issues[0]?.message}`) // checked
    }
    case 'record': {
      const entries = list('entries')
      const pairs = entries.flatMap((entry) =>
        Array.isArray(entry) && entry.length === 2 && typeof entry[0] === 'string'
          ? [[entry[0], entry[1]] as const]
          : [],
      )
      return pairs.length === entries.length ? Object.fromEntries(pairs) : fail(path, 'record without pairs')
    }
    default: {
      if (typeof type !== 'string' || !Object.hasOwn(TYPED_ARRAYS, type))
        return fail(path, `unknown ${MARK} ${JSON.stringify(type)}`)
      const values = list('values')
      if (!values.every((item) => typeof item === 'number'))
        return fail(path, `${type} with values that are no numbers`)
      return TYPED_ARRAYS[type as TypedArrayName].from(values) // a key of the table, checked
    }
  }
}

const fromJson = (json: unknown, path: readonly string[]): unknown => {
  if (typeof json !== 'object' || json === null) return json
  if (Array.isArray(json)) return json.map((item, i) => fromJson(item, [...path, String(i)]))
  if (Object.hasOwn(json, MARK)) return decodeMarked(json as Readonly<Record<string, unknown>>, path) // an object, checked
  return Object.fromEntries(Object.entries(json).map(([key, item]) => [key, fromJson(item, [...path, key])]))
}

/**
 * The value that JSON from `encodeValue` stands for.
 *
 * Errors   `Left` with the place and what is wrong there. Never throws, also for JSON that somebody else wrote.
 * Effects  none.
 *
 * @example
 * decodeValue([1, { $type: 'number', value: '-0' }]) // right([1, -0])
 */
export const decodeValue = (json: unknown): E.Either<string, unknown> =>
  E.tryCatch(
    () => fromJson(json, []),
    (error) => (error instanceof ValueProblem ? error.message : `too deep: ${String(error)}`),
  )
