/**
 * A lossless JSON parser. In contrast, `JSON.parse` moves keys that look like numbers to the front,
 * rounds integers beyond 2^53, and does not distinguish 1.0 from 1.
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

/** Returns true for an integer of JSON that a number holds as another one. */
export const isInexact = (source: string): boolean =>
  source.length >= 16 && /^-?\d+$/.test(source) && String(Number(source)) !== source

/** The most digits of an integer, as in Python, whose conversion takes more than linear time. */
const MOST_DIGITS = 4300

/** Returns the problem of a float beyond float64, or of an integer of more than 4,300 digits. */
const sizeProblem = (source: string): string | undefined => {
  const isHeld = /^-?\d+$/.test(source) ? source.length <= MOST_DIGITS : Number.isFinite(Number(source))
  return isHeld ? undefined : `the number ${source.length > 40 ? `${source.slice(0, 40)}...` : source} is too large`
}

/**
 * The rules beyond the grammar of JSON. `strict` refuses duplicate keys, lone surrogates and more
 * than 127 levels, as the reference implementation of safetensors. With `lenient`, as in Python's
 * json, the last of two equal keys counts; 129 levels are allowed.
 */
interface JsonRules {
  readonly kind: 'strict' | 'lenient'
  readonly maxDepth: number
}

const STRICT: JsonRules = { kind: 'strict', maxDepth: 127 }
const LENIENT: JsonRules = { kind: 'lenient', maxDepth: 129 }

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
  readonly rules: JsonRules
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
  if (cursor.rules.kind === 'strict' && /\p{Surrogate}/u.test(value)) return fail('half of a surrogate pair', cursor)
  cursor.place = end + 1
  return value
}

const parseNumber = (cursor: Cursor): JsonNumber => {
  NUMBER.lastIndex = cursor.place
  const source = NUMBER.exec(cursor.text)?.[0]
  if (source === undefined) return fail('no JSON value', cursor)
  if (cursor.rules.kind === 'strict' && !Number.isFinite(Number(source))) return fail('a number out of range', cursor)
  const problem = sizeProblem(source)
  if (problem !== undefined) return fail(problem, cursor)
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
    if (cursor.rules.kind === 'strict' && result.has(key)) return fail(`duplicate key ${JSON.stringify(key)}`, cursor)
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
  const { maxDepth } = cursor.rules
  if (depth === maxDepth) return fail(`more than ${maxDepth} levels`, cursor)
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

const parsed = (text: string, rules: JsonRules): E.Either<string, StrictJson> => {
  const cursor: Cursor = { text, rules, place: 0 }
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

/**
 * Parses JSON.
 *
 * Errors   `Left` with the problem and its position: also for a duplicate key in one object, a lone
 *          surrogate, a number beyond float64, and more than 127 levels.
 */
export const parseStrictJson = (text: string): E.Either<string, StrictJson> => parsed(text, STRICT)

/**
 * Parses JSON as Python's json does, with numbers as they are written.
 *
 * Errors   `Left` with the problem and its position: also for a float beyond float64, and more than
 *          129 levels.
 */
export const parseWrittenJson = (text: string): E.Either<string, StrictJson> => parsed(text, LENIENT)

/** An integer of many digits, or a large exponent: a number of this text may be another one. */
const LONG_NUMBER = /(?<![\d.])\d{16,}(?![\d.eE])|\d[eE]\+?\d{3}/

/** A number in a JSON value. */
interface FoundNumber {
  readonly path: readonly (string | number)[]
  readonly source: string
}

const inexactNumber = (value: StrictJson): FoundNumber | undefined => {
  if (isJsonNumber(value)) return isInexact(value.source) ? { path: [], source: value.source } : undefined
  if (!isJsonArray(value) && !isJsonObject(value)) return undefined
  for (const [key, item] of value.entries()) {
    const found = inexactNumber(item)
    if (found !== undefined) return { ...found, path: [key, ...found.path] }
  }
  return undefined
}

/**
 * Returns the path and the problem of the first number of a valid JSON text that `JSON.parse` reads
 * as another one: an integer beyond 2^53 that is rounded, or a number beyond float64. Returns
 * undefined without one.
 *
 * Cost     linear in the text.
 *
 * @example
 * roundedNumber('[1, {"id": 12345678901234567890}]')?.path // [1, 'id']
 */
export const roundedNumber = (
  text: string,
): { readonly path: FoundNumber['path']; readonly problem: string } | undefined => {
  if (!LONG_NUMBER.test(text)) return undefined
  const exact = parseWrittenJson(text)
  if (E.isLeft(exact)) return { path: [], problem: exact.left }
  const found = inexactNumber(exact.right)
  return (
    found && { path: found.path, problem: `${found.source.slice(0, 40)} is not a safe integer: write it as a string` }
  )
}

/** Writes a value without blanks, with its numbers as they were written. */
export const writeJson = (value: StrictJson): string => {
  if (isJsonNumber(value)) return value.source
  if (isJsonArray(value)) return `[${value.map(writeJson).join(',')}]`
  if (!isJsonObject(value)) return JSON.stringify(value)
  return `{${[...value].map(([key, item]) => `${JSON.stringify(key)}:${writeJson(item)}`).join(',')}}`
}

/**
 * Returns the value of JavaScript. An integer that a number cannot hold is its text, because a
 * rounded one would be another id.
 */
export const plainJson = (value: StrictJson): unknown => {
  if (isJsonNumber(value)) return isInexact(value.source) ? value.source : Number(value.source)
  if (isJsonArray(value)) return value.map(plainJson)
  return isJsonObject(value) ? Object.fromEntries([...value].map(([key, item]) => [key, plainJson(item)])) : value
}
