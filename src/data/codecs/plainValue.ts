/**
 * Values as JSON that loses nothing: what `JSON.stringify` would drop or change is written in a way of its own, or refused.
 *
 * Plain values are null, booleans, numbers, texts, undefined, and arrays, records and immutable Lists of plain values: histories, tasks and
 * tool calls are plain. Everything but JSON itself is a record with one key that begins with `$`; so is a record that has such a key.
 */
import * as E from 'fp-ts/lib/Either.js'
import { List } from 'immutable'

/** How values of a kind of one's own become plain ones, and back. */
export interface ValueCodec<T = unknown> {
  /** Stands in the file: a file that was written with another codec is refused. */
  readonly name: string
  /** `Left` says why a value cannot be written. */
  readonly encode: (value: T) => E.Either<string, unknown>
  /** `Left` says why a plain value is none of this kind. */
  readonly decode: (plain: unknown) => E.Either<string, T>
}

/** The name of the codec of plain values. */
export const PLAIN = 'plain'

/** Deeper values are refused: reading them could overflow the stack. */
const MAX_DEPTH = 500

const NUMBERS: Readonly<Record<string, number>> = {
  NaN: Number.NaN,
  Infinity: Number.POSITIVE_INFINITY,
  '-Infinity': Number.NEGATIVE_INFINITY,
  '-0': -0,
}

const MARK = '$'

/** Why a value cannot be written: where in it, and what is there. */
export interface ValueProblem {
  readonly path: readonly string[]
  readonly reason: string
}

interface Writing {
  readonly problems: ValueProblem[]
  readonly path: string[]
}

const isRecord = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

const refuse = ({ problems, path }: Writing, reason: string): null => {
  problems.push({ path: [...path], reason })
  return null
}

const within = (writing: Writing, key: string, value: unknown): unknown => {
  writing.path.push(key)
  const result = toJson(value, writing)
  writing.path.pop()
  return result
}

const listToJson = (items: readonly unknown[], writing: Writing): readonly unknown[] =>
  Array.from(items, (item, i) => within(writing, String(i), item))

const recordToJson = (value: object, writing: Writing): unknown => {
  if (Object.getOwnPropertySymbols(value).length > 0) return refuse(writing, 'a record with a key that is a symbol')
  const pairs = Object.entries(value).map(([key, item]) => [key, within(writing, key, item)] as const)
  const record = Object.fromEntries(pairs)
  return pairs.some(([key]) => key.startsWith(MARK)) ? { $record: record } : record
}

const objectToJson = (value: object, writing: Writing): unknown => {
  if (writing.path.length >= MAX_DEPTH) return refuse(writing, `more than ${MAX_DEPTH} levels deep, or a circle`)
  if (Array.isArray(value)) return listToJson(value, writing)
  if (List.isList(value)) return { $list: listToJson(value.toArray(), writing) }
  if (isRecord(value)) return recordToJson(value, writing)
  const kind: unknown = value.constructor?.name
  return refuse(
    writing,
    `${typeof kind === 'string' && kind !== '' ? `a ${kind}` : 'an object of a class'}, which is no plain value`,
  )
}

const toJson = (value: unknown, writing: Writing): unknown => {
  switch (typeof value) {
    case 'boolean':
    case 'string':
      return value
    case 'number':
      return Number.isFinite(value) && !Object.is(value, -0)
        ? value
        : { $number: Object.is(value, -0) ? '-0' : String(value) }
    case 'undefined':
      return { $undefined: true }
    case 'object':
      return value === null ? null : objectToJson(value, writing)
    default:
      return refuse(writing, `a ${typeof value}, which is no plain value`)
  }
}

/** A plain value as JSON text. Errors: `Left` with everything in it that is not plain. */
export const writePlain = (value: unknown): E.Either<readonly ValueProblem[], string> => {
  const writing: Writing = { problems: [], path: [] }
  const json = toJson(value, writing)
  return writing.problems.length > 0 ? E.left(writing.problems) : E.right(JSON.stringify(json))
}

/** What fails while a text is read; it never leaves this file. */
class NotPlain extends Error {}

const marked = (key: string, content: unknown, depth: number): unknown => {
  const number =
    key === '$number' && typeof content === 'string' && Object.hasOwn(NUMBERS, content) ? NUMBERS[content] : undefined
  if (number !== undefined) return number
  if (key === '$undefined' && content === true) return undefined
  if (key === '$list' && Array.isArray(content)) return List(content.map((item) => fromJson(item, depth + 1)))
  if (key === '$record' && typeof content === 'object' && content !== null && !Array.isArray(content)) {
    return recordFromJson(content, depth)
  }
  throw new NotPlain(`${JSON.stringify(key)} is no mark of a value`)
}

const recordFromJson = (record: object, depth: number): unknown =>
  Object.fromEntries(Object.entries(record).map(([key, item]) => [key, fromJson(item, depth + 1)]))

const fromJson = (json: unknown, depth: number): unknown => {
  if (typeof json !== 'object' || json === null) return json
  if (depth > 2 * MAX_DEPTH) throw new NotPlain('the value is too deep') // a mark is a level of its own
  if (Array.isArray(json)) return json.map((item) => fromJson(item, depth + 1))
  const [first, ...others] = Object.entries(json)
  return first?.[0].startsWith(MARK) && others.length === 0 ? marked(...first, depth) : recordFromJson(json, depth)
}

/** The plain value of a JSON text. Errors: `Left` for text that `writePlain` does not write. */
export const readPlain = (text: string): E.Either<string, unknown> => {
  try {
    return E.right(fromJson(JSON.parse(text), 0))
  } catch (error) {
    if (error instanceof NotPlain || error instanceof SyntaxError) return E.left(error.message)
    throw error
  }
}
