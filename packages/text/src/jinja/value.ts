/** The values that templates compute with, compared and printed as in Python. */
import { isInexact, isJsonNumber, type JsonNumber, type StrictJson } from '@tandem-rl/base'
import type { TextRange } from '../textRange.js'
import { templateWork } from './budget.js'
import { TemplateError } from './templateError.js'

/**
 * A whole number that is a float in Python: it prints as `1.0`. Every other float is a plain
 * number.
 */
export interface WholeFloat {
  readonly _tag: 'Float'
  readonly value: number
}

/** An integer that a number does not hold exactly. */
export interface LargeInteger {
  readonly _tag: 'Integer'
  readonly value: bigint
}

export interface Tuple {
  readonly _tag: 'Tuple'
  readonly items: readonly TemplateValue[]
}

/** The result of `namespace()`, the only value that a template may assign to. */
export interface Namespace {
  readonly _tag: 'Namespace'
  readonly fields: Map<string, TemplateValue>
  /** The origins of fields that were set after the namespace was created. */
  readonly origins: Map<string, ValueOrigin>
}

export interface Arguments {
  readonly positional: readonly TemplateValue[]
  readonly named: ReadonlyMap<string, TemplateValue>
}

export interface Callable {
  readonly _tag: 'Callable'
  readonly name: string
  readonly call: (args: Arguments) => TemplateValue
  /** The same for arguments with a known origin. Macros use it to trace each part of their text. */
  readonly trace?: (args: TracedArguments) => TracedValue
}

/** Texts that a template wrote, and texts of its input. */
export interface Pieces {
  readonly own: readonly string[]
  readonly given: readonly string[]
}

/** The origin of a value: the template itself, its input, or both. */
export interface ValueOrigin {
  readonly kind: 'own' | 'given' | 'both'
  /** For a text: the ranges that are input. */
  readonly given: readonly TextRange[]
  readonly pieces: () => Pieces
}

/** A value with its origin. */
export interface TracedValue {
  readonly value: TemplateValue
  readonly origin: ValueOrigin
  /** Set for text that is Python's `Markup`. */
  readonly isMarkup?: true
}

export interface TracedArguments {
  readonly positional: readonly TracedValue[]
  readonly named: ReadonlyMap<string, TracedValue>
}

export type Dict = ReadonlyMap<TemplateValue, TemplateValue>

/**
 * A value of a template. Python's None is `null`; an undefined name is `undefined`. Dicts are maps,
 * lists are arrays.
 */
export type TemplateValue =
  | undefined
  | null
  | boolean
  | number
  | string
  | WholeFloat
  | LargeInteger
  | Tuple
  | Namespace
  | Callable
  | Dict
  | readonly TemplateValue[]

export const isDict = (value: TemplateValue): value is Dict => value instanceof Map
export const isList = (value: TemplateValue): value is readonly TemplateValue[] => Array.isArray(value)

type Tagged = WholeFloat | LargeInteger | Tuple | Namespace | Callable

const tagOf = (value: TemplateValue): Tagged['_tag'] | undefined =>
  typeof value === 'object' && value !== null && '_tag' in value ? value._tag : undefined

export const isTuple = (value: TemplateValue): value is Tuple => tagOf(value) === 'Tuple'
export const isNamespace = (value: TemplateValue): value is Namespace => tagOf(value) === 'Namespace'
export const isCallable = (value: TemplateValue): value is Callable => tagOf(value) === 'Callable'
const isWholeFloat = (value: TemplateValue): value is WholeFloat => tagOf(value) === 'Float'
export const isLargeInteger = (value: TemplateValue): value is LargeInteger => tagOf(value) === 'Integer'

export const tuple = (items: readonly TemplateValue[]): Tuple => ({ _tag: 'Tuple', items })
export const callable = (name: string, call: Callable['call']): Callable => ({ _tag: 'Callable', name, call })

/** Creates a float. */
export const float = (value: number): TemplateValue => (Number.isInteger(value) ? { _tag: 'Float', value } : value)

/** Returns true if the number is a float in Python. */
export const isFloatValue = (value: TemplateValue): boolean =>
  isWholeFloat(value) || (typeof value === 'number' && !Number.isInteger(value))

/** Returns the numeric value, or undefined for other values. Booleans count as 0 and 1, and large
 * integers as the nearest number. */
export const numberOf = (value: TemplateValue): number | undefined => {
  if (typeof value === 'number') return value
  if (typeof value === 'boolean') return value ? 1 : 0
  return isWholeFloat(value) || isLargeInteger(value) ? Number(value.value) : undefined
}

/** Returns the name of a value's type, as in Python's messages. */
export const typeName = (value: TemplateValue): string => {
  if (value === undefined) return 'Undefined'
  if (value === null) return 'NoneType'
  if (typeof value === 'boolean') return 'bool'
  if (typeof value === 'string') return 'str'
  if (isLargeInteger(value)) return 'int'
  if (typeof value === 'number' || isWholeFloat(value)) return isFloatValue(value) ? 'float' : 'int'
  if (isList(value)) return 'list'
  if (isDict(value)) return 'dict'
  return isTuple(value) ? 'tuple' : value._tag
}

/** Returns the value of a number as JSON writes it: a float with a point or an exponent. */
const writtenNumber = (source: string): TemplateValue => {
  if (!/^-?\d+$/.test(source)) return float(Number(source))
  return isInexact(source) ? { _tag: 'Integer', value: BigInt(source) } : Number(source) + 0 // -0 is 0
}

/**
 * Converts plain JSON, or JSON with written numbers, to a value. Undefined entries are left out.
 * Errors: throws TemplateError for input that is not JSON.
 */
export const toValue = (json: unknown): TemplateValue => {
  if (json === null || typeof json === 'string' || typeof json === 'boolean' || typeof json === 'number') return json
  if (Array.isArray(json)) return json.map(toValue)
  if (json instanceof Map) return new Map([...json].map(([key, item]) => [String(key), toValue(item)]))
  if (typeof json === 'object') {
    if (isJsonNumber(json as StrictJson)) return writtenNumber((json as JsonNumber).source) // by the line before
    return new Map(Object.entries(json).flatMap(([key, item]) => (item === undefined ? [] : [[key, toValue(item)]])))
  }
  throw new TemplateError(`a ${typeof json} cannot be given to a template`)
}

export const isTruthy = (value: TemplateValue): boolean => {
  if (value === undefined || value === null) return false
  const number = numberOf(value)
  if (number !== undefined) return number !== 0
  if (typeof value === 'string') return value !== ''
  if (isList(value)) return value.length > 0
  if (isDict(value)) return value.size > 0
  return isTuple(value) ? value.items.length > 0 : true
}

const sameItems = (a: readonly TemplateValue[], b: readonly TemplateValue[]): boolean =>
  a.length === b.length && a.every((item, i) => isEqual(item, b[i]))

const integerOf = (value: TemplateValue, number: number): bigint | number =>
  isLargeInteger(value) ? value.value : Number.isInteger(number) ? BigInt(number) : number

/** Compares numbers that are equal as floats, of which one may be a large integer. */
const sameInteger = (a: TemplateValue, b: TemplateValue): boolean =>
  (!isLargeInteger(a) && !isLargeInteger(b)) || integerOf(a, numberOf(a)!) === integerOf(b, numberOf(b)!)

/** Implements Python's `==`: numbers by value, lists and dicts by contents. */
export const isEqual = (a: TemplateValue, b: TemplateValue): boolean => {
  templateWork.spend(1)
  if (typeof a === 'string' && typeof b === 'string') templateWork.spendCharacters(Math.min(a.length, b.length))
  const [x, y] = [numberOf(a), numberOf(b)]
  if (x !== undefined && y !== undefined) return x === y && sameInteger(a, b)
  if (isList(a) && isList(b)) return sameItems(a, b)
  if (isTuple(a) && isTuple(b)) return sameItems(a.items, b.items)
  if (isDict(a) && isDict(b)) {
    return a.size === b.size && [...a].every(([key, item]) => b.has(key) && isEqual(item, b.get(key)))
  }
  return a === b
}

const byCodePoint = (a: string, b: string): number => {
  templateWork.spendCharacters(a.length + b.length)
  const [x, y] = [Array.from(a), Array.from(b)]
  const i = x.findIndex((char, index) => char !== y[index])
  if (i === -1) return x.length - y.length
  return i >= y.length ? 1 : x[i]!.codePointAt(0)! - y[i]!.codePointAt(0)!
}

/**
 * Orders two values: negative, zero or positive. Errors: throws TemplateError where Python has no
 * order.
 */
export const compare = (a: TemplateValue, b: TemplateValue): number => {
  templateWork.spend(1)
  const [x, y] = [numberOf(a), numberOf(b)]
  if (x !== undefined && y !== undefined) return x - y
  if (typeof a === 'string' && typeof b === 'string') return byCodePoint(a, b)
  const [p, q] = [itemsIfSequence(a), itemsIfSequence(b)]
  if (p !== undefined && q !== undefined && typeName(a) === typeName(b)) {
    const i = p.findIndex((item, index) => index >= q.length || !isEqual(item, q[index]))
    return i === -1 || i >= q.length ? p.length - q.length : compare(p[i], q[i])
  }
  throw new TemplateError(`'${typeName(a)}' and '${typeName(b)}' have no order`)
}

const itemsIfSequence = (value: TemplateValue): readonly TemplateValue[] | undefined =>
  isList(value) ? value : isTuple(value) ? value.items : undefined

/**
 * Returns the items of any Python iterable: characters of a string, keys of a dict. Undefined has
 * no items.
 */
export const itemsOf = (value: TemplateValue): readonly TemplateValue[] => {
  if (value === undefined) return []
  if (typeof value === 'string') {
    templateWork.spendCharacters(value.length)
    return Array.from(value)
  }
  if (isDict(value)) {
    templateWork.spend(value.size)
    return [...value.keys()]
  }
  const items = itemsIfSequence(value)
  if (items === undefined) throw new TemplateError(`'${typeName(value)}' object is not iterable`)
  return items
}
