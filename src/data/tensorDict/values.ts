/** Equality and hashes of the plain values in Data and Meta leaves, and of lists of numbers. */
import { TENSORS } from '@tandem-rl/tfjs-onnxruntime/scope'
import { hash, is, List } from 'immutable'

/** A typed array, or a list of numbers. */
export type Numbers = ArrayLike<number>

/**
 * Compares numbers bit for bit, except that any NaN equals any other. 0 and -0 differ, because
 * dividing by them does.
 */
export const sameNumbers = (a: Numbers, b: Numbers): boolean => {
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) if (!Object.is(a[i], b[i])) return false
  return true
}

/** Returns true for a value that is only its fields: a record, or a TensorDict. */
const isPlain = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null || TENSORS in value
}

const isTyped = (value: object): value is Uint8Array => ArrayBuffer.isView(value) && !(value instanceof DataView)

/** Returns the items of a list or an array; undefined for anything else. */
const itemsOf = (value: object): readonly unknown[] | undefined =>
  Array.isArray(value) ? value : List.isList(value) ? value.toArray() : undefined

/**
 * Compares two values: equal by immutable's `is`; or lists, arrays, typed arrays of one class, or
 * plain records of equal values, at any depth. A list does not equal an array.
 */
export const equalValues = (a: unknown, b: unknown): boolean => {
  if (is(a, b)) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (isTyped(a) || isTyped(b)) {
    return isTyped(a) && isTyped(b) && a.constructor === b.constructor && sameNumbers(a, b)
  }
  const [left, right] = [itemsOf(a), itemsOf(b)]
  if (left !== undefined || right !== undefined) {
    if (left === undefined || right === undefined || Array.isArray(a) !== Array.isArray(b)) return false
    return left.length === right.length && left.every((x, i) => equalValues(x, right[i]))
  }
  if (!isPlain(a) || !isPlain(b)) return false
  const [fields, others] = [Object.entries(a), new Map(Object.entries(b))]
  return fields.length === others.size && fields.every(([key, x]) => others.has(key) && equalValues(x, others.get(key)))
}

/** Mixes a hash into another one. The order matters. */
export const mix = (into: number, part: number): number => (Math.imul(into, 31) + part) | 0

/**
 * Mixes the hashes of a name and of its value, so that a sum of the results still depends on the
 * pairing. A sum of `mix`, which is linear, would not.
 */
export const mixNamed = (name: number, value: number): number => {
  const mixed = Math.imul(mix(name, value), 0x9e3779b1)
  return Math.imul(mixed ^ (mixed >>> 15), 0x85ebca77)
}

/** Hashes numbers: equal for equal numbers by `sameNumbers`. */
export const hashNumbers = (numbers: Numbers): number => {
  let all = numbers.length
  for (let i = 0; i < numbers.length; i++) all = mix(all, hash(numbers[i]))
  return all
}

/** Hashes a value: equal for equal values by `equalValues`. */
export const hashValue = (value: unknown): number => {
  if (typeof value !== 'object' || value === null) return hash(value)
  if (isTyped(value)) return hashNumbers(value)
  const items = itemsOf(value)
  if (items !== undefined) return items.reduce<number>((all, item) => mix(all, hashValue(item)), items.length)
  if (!isPlain(value)) return hash(value)
  // a sum: the order of fields does not count
  return Object.entries(value).reduce((all, [key, item]) => (all + mixNamed(hash(key), hashValue(item))) | 0, 1)
}
