/** Equality of values as `node:assert/strict` has it, for plain values, arrays, maps and sets. */

type Entries = Readonly<Record<string, unknown>>

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null

/** Returns the comparable parts of an object, by name or index. */
const partsOf = (value: object): Entries =>
  value instanceof Map || value instanceof Set ? Object.fromEntries([...value].entries()) : (value as Entries) // own keys are read

export const isDeepStrictEqual = (a: unknown, b: unknown): boolean => {
  if (Object.is(a, b)) return true
  if (!isObject(a) || !isObject(b) || Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false
  const [left, right] = [partsOf(a), partsOf(b)]
  const names = Object.keys(left)
  return (
    names.length === Object.keys(right).length &&
    names.every((name) => Object.hasOwn(right, name) && isDeepStrictEqual(left[name], right[name]))
  )
}
