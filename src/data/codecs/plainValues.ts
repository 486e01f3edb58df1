/**
 * Lossless JSON for JavaScript values: values that JSON would drop or change are marked, or
 * refused.
 *
 * JSON's own values are written as they are, so that other programs can read them. Other values
 * become a record with a field `$type` and one more: numbers such as NaN and -0, bigints,
 * undefined, dates, typed arrays, immutable Lists, History; and records that have a field of that
 * name themselves. NaN is one value: the payload bits of NaNs in a typed array are not kept.
 */
import type { Json } from '@tandem-rl/base'
import { History, type Message } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { List } from 'immutable'
import { z } from 'zod'

/** Converts values of a custom type to plain values and back. */
export interface ValueCodec<T = unknown> {
  /** The name in the file. A file that was written with another codec is refused. */
  readonly name: string
  /** Converts a value to a plain one. `Left` is the reason why it cannot be written. */
  readonly encode: (value: T) => E.Either<string, unknown>
  /** Restores a value. `Left` is the reason why the plain value is not of this type. */
  readonly decode: (plain: unknown) => E.Either<string, T>
}

/** The codec name of files without a codec. */
export const PLAIN = 'plain'

const MARK = '$type'

/**
 * The maximum nesting of values, in both directions, because deeper ones could overflow the stack.
 */
const MAX_DEPTH = 500

/** The maximum number of digits of a bigint, because parsing them takes more than linear time. */
const MOST_DIGITS = 10_000
const BIGGEST = 10n ** BigInt(MOST_DIGITS - 1)

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

const NUMBERS: Readonly<Record<string, number>> = {
  NaN: Number.NaN,
  Infinity: Number.POSITIVE_INFINITY,
  '-Infinity': Number.NEGATIVE_INFINITY,
  '-0': -0,
}

const messagesSchema = z.array(
  z.looseObject({
    role: z.string(),
    content: z.array(z.looseObject({ type: z.string() })),
    toolCalls: z.array(z.looseObject({ name: z.string() })),
    isComplete: z.boolean(),
  }),
)

/** A value that cannot be written, and its path. */
export interface UnwritableValue {
  readonly path: readonly string[]
  readonly reason: string
}

/** The position of a value under a key of its holder. The root has no position. */
interface Place {
  readonly holder: object
  readonly key: string
  readonly depth: number
  readonly outer: At
}

type At = Place | undefined

const inside = (holder: object, key: string | number, outer: At): Place => ({
  holder,
  key: String(key),
  outer,
  depth: depthOf(outer) + 1,
})

const depthOf = (at: At): number => at?.depth ?? 0

const pathOf = (at: At): readonly string[] => {
  const path: string[] = []
  for (let place = at; place !== undefined; place = place.outer) path.push(place.key)
  return path.reverse()
}

const contains = (value: object, at: At): boolean => {
  for (let place = at; place !== undefined; place = place.outer) if (place.holder === value) return true
  return false
}

const isPlainRecord = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

/**
 * Returns true for a record that History would create. Any other record with this tag is written as
 * a record.
 */
const isHistory = (value: object): value is History =>
  '_tag' in value &&
  value._tag === 'History' &&
  'messages' in value &&
  List.isList(value.messages) &&
  Object.keys(value).length === 2 &&
  messagesSchema.safeParse(value.messages.toArray()).success

/** Reports a value that cannot be written. */
type Refuse = (at: At, reason: string) => null

const numberToJson = (value: number): Json =>
  Number.isFinite(value) && !Object.is(value, -0)
    ? value
    : { [MARK]: 'number', value: Object.is(value, -0) ? '-0' : String(value) }

const typedArrayToJson = (value: object): Json | undefined => {
  const [name] =
    Object.entries(TYPED_ARRAYS).find(([, { prototype }]) => Object.getPrototypeOf(value) === prototype) ?? []
  return name && { [MARK]: name, values: Array.from(value as Float64Array, numberToJson) } // one of them, by its prototype
}

const arrayToJson = (
  value: readonly unknown[],
  convert: (item: unknown, key: number) => Json,
): readonly Json[] | string =>
  Reflect.ownKeys(value).length === value.length + 1 // and `length` itself
    ? value.map(convert)
    : 'an array with holes or named properties'

const recordToJson = (value: object, convert: (item: unknown, key: string) => Json): Json | string => {
  const keys = Object.keys(value)
  if (Reflect.ownKeys(value).length !== keys.length) return 'a record with keys that are symbols or hidden'
  const fields = Object.fromEntries(Object.entries(value).map(([key, item]) => [key, convert(item, key)] as const))
  return Object.hasOwn(value, MARK) ? { [MARK]: 'record', fields } : fields
}

/** Converts an object to JSON, or returns a description of it if it cannot be written. */
const objectToJson = (value: object, at: At, refuse: Refuse): Json | string => {
  if (contains(value, at)) return 'a value that contains itself'
  if (depthOf(at) >= MAX_DEPTH) return `a value more than ${MAX_DEPTH} levels deep`
  const convert = (item: unknown, key: string | number): Json => toJson(item, inside(value, key, at), refuse)
  if (Array.isArray(value)) return arrayToJson(value, convert)
  if (List.isList(value)) return { [MARK]: 'List', items: value.toArray().map(convert) }
  if (isPlainRecord(value)) {
    if (!isHistory(value)) return recordToJson(value, convert)
    const messages = inside(value, 'messages', at)
    return {
      [MARK]: 'History',
      messages: value.messages.toArray().map((item, i) => toJson(item, inside(value.messages, i, messages), refuse)),
    }
  }
  if (value instanceof Date && Object.getPrototypeOf(value) === Date.prototype)
    return { [MARK]: 'Date', value: Number.isNaN(value.getTime()) ? null : value.toISOString() }
  return typedArrayToJson(value) ?? `an object of class ${value.constructor?.name || 'unknown'}`
}

const toJson = (value: unknown, at: At, refuse: Refuse): Json => {
  switch (typeof value) {
    case 'boolean':
    case 'string':
      return value
    case 'number':
      return numberToJson(value)
    case 'bigint':
      return -BIGGEST < value && value < BIGGEST
        ? { [MARK]: 'bigint', value: String(value) }
        : refuse(at, `a bigint of ${MOST_DIGITS} digits or more`)
    case 'undefined':
      return { [MARK]: 'undefined' }
    case 'object': {
      const json = value === null ? null : objectToJson(value, at, refuse)
      return typeof json === 'string' ? refuse(at, json) : json
    }
    default:
      return refuse(at, `a ${typeof value}`)
  }
}

/**
 * Converts a value to JSON.
 *
 * Errors   `Left` with every value inside that cannot be written: functions, symbols, objects of
 *          other classes (including subclasses of arrays), values that contain themselves, more
 *          than 500 levels, bigints of 10,000 digits, keys that JSON would drop.
 * Effects  none.
 *
 * @example
 * encodeValue({ a: [1, 2n] }) // right({ a: [1, { $type: 'bigint', value: '2' }] })
 */
export const encodeValue = (value: unknown): E.Either<readonly UnwritableValue[], Json> => {
  const problems: UnwritableValue[] = []
  const json = toJson(value, undefined, (at, reason) => {
    problems.push({ path: pathOf(at), reason })
    return null
  })
  return problems.length > 0 ? E.left(problems) : E.right(json)
}

/** A malformed place in JSON. It never leaves this file. */
class ValueProblem extends Error {}

const fail = (at: At, problem: string): never => {
  const path = pathOf(at)
  throw new ValueProblem(`${path.length > 0 ? `${path.join('.')}: ` : ''}${problem}`)
}

/**
 * The content of a mark. `decode` returns its value, or undefined for content that does not fit.
 */
interface Mark {
  readonly field?: string
  readonly decode: (content: unknown, at: At) => { readonly value: unknown } | undefined
}

const listFromJson = (content: unknown, at: At): readonly unknown[] | undefined =>
  Array.isArray(content) ? content.map((item, i) => fromJson(item, inside(content, i, at))) : undefined

const typedArrayMark = (name: TypedArrayName): Mark => ({
  field: 'values',
  decode: (content, at) => {
    const values = listFromJson(content, at)
    if (!values?.every((item) => typeof item === 'number')) return undefined
    const value = TYPED_ARRAYS[name].from(values)
    const holds = name.startsWith('Float')
      ? (item: number, i: number) => Number.isFinite(item) === Number.isFinite(value[i]!)
      : (item: number, i: number) => Object.is(item, value[i])
    return values.every(holds) ? { value } : undefined
  },
})

const MARKS: Readonly<Record<string, Mark>> = {
  undefined: { decode: () => ({ value: undefined }) },
  number: {
    field: 'value',
    decode: (content) =>
      typeof content === 'string' && Object.hasOwn(NUMBERS, content) ? { value: NUMBERS[content] } : undefined,
  },
  bigint: {
    field: 'value',
    decode: (content) =>
      typeof content === 'string' && content.length <= MOST_DIGITS && /^(?:0|-?[1-9]\d*)$/.test(content)
        ? { value: BigInt(content) }
        : undefined,
  },
  Date: {
    field: 'value',
    decode: (content) => {
      if (content !== null && typeof content !== 'string') return undefined
      const value = new Date(content ?? Number.NaN)
      return content === null || value.toJSON() === content ? { value } : undefined
    },
  },
  List: {
    field: 'items',
    decode: (content, at) => {
      const items = listFromJson(content, at)
      return items && { value: List(items) }
    },
  },
  History: {
    field: 'messages',
    decode: (content, at) => {
      const messages = listFromJson(content, inside({}, 'messages', at))
      return messagesSchema.safeParse(messages).success
        ? { value: History(messages as readonly Message[]) } // checked
        : undefined
    },
  },
  record: {
    field: 'fields',
    decode: (content, at) =>
      typeof content === 'object' && content !== null && isPlainRecord(content)
        ? { value: recordFromJson(content, at) }
        : undefined,
  },
  ...Object.fromEntries(
    Object.keys(TYPED_ARRAYS).map((name) => [name, typedArrayMark(name as TypedArrayName)]), // its own keys
  ),
}

/** Marks that are not objects and do not count as levels. */
const SCALARS: readonly unknown[] = ['undefined', 'number', 'bigint']

const decodeMarked = (record: Readonly<Record<string, unknown>>, at: At): unknown => {
  const { [MARK]: type, ...rest } = record
  const mark = typeof type === 'string' && Object.hasOwn(MARKS, type) ? MARKS[type] : undefined
  if (mark === undefined) return fail(at, `unknown ${MARK} ${JSON.stringify(type)}`)
  const { field, decode } = mark
  const fields = Object.keys(rest)
  const isRight = field === undefined ? fields.length === 0 : fields.length === 1 && fields[0] === field
  const found = isRight ? decode(field && rest[field], at) : undefined
  return found === undefined ? fail(at, `a ${MARK} ${JSON.stringify(type)} with invalid content`) : found.value
}

const recordFromJson = (record: object, at: At): unknown =>
  Object.fromEntries(Object.entries(record).map(([key, item]) => [key, fromJson(item, inside(record, key, at))]))

const fromJson = (json: unknown, at: At): unknown => {
  if (json === null || typeof json === 'boolean' || typeof json === 'string' || Number.isFinite(json)) return json
  if (typeof json !== 'object' || !(Array.isArray(json) || isPlainRecord(json)))
    return fail(at, `${typeof json === 'number' ? `the number ${json}` : `a ${typeof json}`}, which is not JSON`)
  const type: unknown = Object.hasOwn(json, MARK) ? Object.getOwnPropertyDescriptor(json, MARK)?.value : undefined
  if (depthOf(at) >= MAX_DEPTH && !SCALARS.includes(type ?? null)) return fail(at, `more than ${MAX_DEPTH} levels`)
  if (Array.isArray(json)) return listFromJson(json, at)
  return Object.hasOwn(json, MARK)
    ? decodeMarked(json as Readonly<Record<string, unknown>>, at) // an object, checked
    : recordFromJson(json, at)
}

/**
 * Restores a value from the JSON of `encodeValue`.
 *
 * Errors   `Left` with the path and the problem. Never throws, also for JSON from other sources.
 * Effects  none.
 *
 * @example
 * decodeValue([1, { $type: 'number', value: '-0' }]) // right([1, -0])
 */
export const decodeValue = (json: unknown): E.Either<string, unknown> => {
  try {
    return E.right(fromJson(json, undefined))
  } catch (error) {
    if (error instanceof ValueProblem) return E.left(error.message)
    throw error
  }
}
