/**
 * A lossless JSON parser. In contrast, `JSON.parse` keeps only the last of two equal keys, moves
 * keys that look like numbers to the front, and does not distinguish 1.0 from 1.
 */
import * as E from 'fp-ts/lib/Either.js'

/** A number as it is written. */
export interface JsonNumber {
  readonly _tag: 'JsonNumber'
  readonly source: string
}

/** A parsed value: objects keep the order of their keys, numbers their text. */
export type StrictJson = null | boolean | string | JsonNumber | readonly StrictJson[] | ReadonlyMap<string, StrictJson>

export const isJsonNumber = (value: StrictJson | undefined): value is JsonNumber =>
  typeof value === 'object' && value !== null && '_tag' in value

export const isJsonArray = (value: StrictJson | undefined): value is readonly StrictJson[] => Array.isArray(value)

export const isJsonObject = (value: StrictJson | undefined): value is ReadonlyMap<string, StrictJson> =>
  value instanceof Map

/** The maximum nesting, as in the reference implementation of safetensors. */
const MAX_DEPTH = 127

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y
const WORDS = [
  ['null', null],
  ['true', true],
  ['false', false],
] as const

/** An internal error of the parser; it never leaves this file. */
class Malformed extends Error {}

interface Cursor {
  readonly text: string
  place: number
}

const fail = (problem: string, { place }: Cursor): never => {
  throw new Malformed(`${problem} at character ${place}`)
}

const skipBlanks = (cursor: Cursor): void => {
  for (;;) {
    const code = cursor.text.charCodeAt(cursor.place)
    if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return
    cursor.place++
  }
}

const take = (cursor: Cursor, character: string): boolean => {
  skipBlanks(cursor)
  if (cursor.text[cursor.place] !== character) return false
  cursor.place++
  return true
}

const parseString = (cursor: Cursor): string => {
  const { text, place } = cursor
  let end = place + 1
  while (end < text.length && text[end] !== '"') end += text[end] === '\\' ? 2 : 1
  if (end >= text.length) return fail('a string without an end', cursor)
  const source = text.slice(place, end + 1)
  let value: string
  try {
    value = String(JSON.parse(source))
  } catch {
    return fail('a string with a raw control character or an unknown escape', cursor)
  }
  if (/\p{Surrogate}/u.test(value)) return fail('half of a surrogate pair', cursor)
  cursor.place = end + 1
  return value
}

const parseNumber = (cursor: Cursor): JsonNumber => {
  NUMBER.lastIndex = cursor.place
  const source = NUMBER.exec(cursor.text)?.[0]
  if (source === undefined) return fail('no JSON value', cursor)
  if (!Number.isFinite(Number(source))) return fail('a number out of range', cursor)
  cursor.place += source.length
  return { _tag: 'JsonNumber', source }
}

const parseObject = (cursor: Cursor, depth: number): ReadonlyMap<string, StrictJson> => {
  const result = new Map<string, StrictJson>()
  if (take(cursor, '}')) return result
  do {
    skipBlanks(cursor)
    if (cursor.text[cursor.place] !== '"') return fail('no key', cursor)
    const key = parseString(cursor)
    if (result.has(key)) return fail(`duplicate key ${JSON.stringify(key)}`, cursor)
    if (!take(cursor, ':')) return fail("no ':'", cursor)
    result.set(key, parseValue(cursor, depth))
  } while (take(cursor, ','))
  return take(cursor, '}') ? result : fail("no ',' or '}'", cursor)
}

const parseArray = (cursor: Cursor, depth: number): readonly StrictJson[] => {
  const result: StrictJson[] = []
  if (take(cursor, ']')) return result
  do result.push(parseValue(cursor, depth))
  while (take(cursor, ','))
  return take(cursor, ']') ? result : fail("no ',' or ']'", cursor)
}

const parseValue = (cursor: Cursor, depth: number): StrictJson => {
  if (depth === MAX_DEPTH) return fail(`more than ${MAX_DEPTH} levels`, cursor)
  if (take(cursor, '{')) return parseObject(cursor, depth + 1)
  if (take(cursor, '[')) return parseArray(cursor, depth + 1)
  if (cursor.text[cursor.place] === '"') return parseString(cursor)
  for (const [word, value] of WORDS) {
    if (cursor.text.startsWith(word, cursor.place)) {
      cursor.place += word.length
      return value
    }
  }
  return parseNumber(cursor)
}

/**
 * Parses JSON.
 *
 * Errors   `Left` with the problem and its position: also for a duplicate key in one object, a lone
 *          surrogate, a number beyond float64, and more than 127 levels.
 */
export const parseStrictJson = (text: string): E.Either<string, StrictJson> => {
  const cursor: Cursor = { text, place: 0 }
  try {
    const value = parseValue(cursor, 0)
    skipBlanks(cursor)
    return cursor.place === text.length
      ? E.right(value)
      : E.left(`unexpected text after the end at character ${cursor.place}`)
  } catch (error) {
    if (error instanceof Malformed) return E.left(error.message)
    throw error
  }
}
