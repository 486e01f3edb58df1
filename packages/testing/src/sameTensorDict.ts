/** Comparison of TensorDicts, with a report of every difference. */
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import {
  type Entry,
  equals,
  isTensorDict,
  type Leaf,
  meta,
  type Ragged,
  raggedLength,
  rowLengths,
  TensorDict,
} from 'tandem-rl/tensordict'
import { type CloseTolerance, closeProblem, EXACT, tensorProblem } from './close.js'

/** Maximum number of problems to list. Further ones are counted. */
const LISTED = 10

const kindOf = (entry: Entry): string => {
  if (entry instanceof tf.Tensor) return 'a tensor'
  return entry._tag === 'Ragged' ? `ragged ${entry.type}` : entry._tag === 'TensorDict' ? 'a node' : entry._tag
}

const text = (value: unknown): string => {
  const whole = fc.stringify(value)
  return whole.length > 120 ? `${whole.slice(0, 117)}...` : whole
}

/** Compares values like TensorDicts do. */
const sameValue = (a: unknown, b: unknown): boolean =>
  equals(TensorDict({ value: meta(a) }, []), TensorDict({ value: meta(b) }, []))

const raggedProblem = (actual: Ragged, expected: Ragged, tolerance: CloseTolerance): string | undefined => {
  if (raggedLength(actual) !== raggedLength(expected))
    return `${raggedLength(actual)} rows, expected ${raggedLength(expected)}`
  const lengths = rowLengths(expected)
  const row = rowLengths(actual).findIndex((length, i) => length !== lengths[i])
  if (row >= 0) return `row ${row} has ${rowLengths(actual)[row]} elements, expected ${lengths[row]}`
  const indexOf = (place: number): readonly number[] => {
    const i = lengths.findIndex((length, at) => expected.offsets[at]! + length > place)
    return [i, place - expected.offsets[i]!]
  }
  return closeProblem(actual.values, expected.values, {
    tolerance: expected.type === 'float32' ? tolerance : EXACT,
    indexOf,
  })
}

const leafProblem = (actual: Leaf, expected: Leaf, tolerance: CloseTolerance): string | undefined => {
  if (actual instanceof tf.Tensor && expected instanceof tf.Tensor) return tensorProblem(actual, expected, tolerance)
  if (actual instanceof tf.Tensor || expected instanceof tf.Tensor) return 'of another kind' // kinds are compared first
  if (actual._tag === 'Ragged' && expected._tag === 'Ragged') return raggedProblem(actual, expected, tolerance)
  if (actual._tag === 'Data' && expected._tag === 'Data') {
    const [a, e] = [actual.items.toArray(), expected.items.toArray()]
    if (a.length !== e.length) return `${a.length} values, expected ${e.length}`
    const wrong = e.flatMap((value, i) => (sameValue(a[i], value) ? [] : [i]))
    const [first] = wrong
    return first === undefined
      ? undefined
      : `value [${first}] is ${text(a[first])}, expected ${text(e[first])}; ${wrong.length} of ${e.length} differ`
  }
  if (actual._tag === 'Meta' && expected._tag === 'Meta') {
    return sameValue(actual.value, expected.value)
      ? undefined
      : `the value is ${text(actual.value)}, expected ${text(expected.value)}`
  }
  return 'of another kind'
}

const entryProblems = (
  actual: Entry | undefined,
  expected: Entry | undefined,
  path: readonly string[],
  tolerance: CloseTolerance,
): readonly string[] => {
  const place = path.length === 0 ? '' : `at ${path.map((key) => JSON.stringify(key)).join(' > ')}: `
  if (expected === undefined) return [`${place}${actual === undefined ? 'nothing' : kindOf(actual)} is not expected`]
  if (actual === undefined) return [`${place}missing, expected ${kindOf(expected)}`]
  if (isTensorDict(actual) && isTensorDict(expected)) {
    const keys = [...new Set([...expected.entries.keys(), ...actual.entries.keys()])]
    const shapes = [actual, expected].map(({ batchShape }) => `[${batchShape.join(', ')}]`)
    return [
      ...(shapes[0] === shapes[1] ? [] : [`${place}batch shape ${shapes[0]}, expected ${shapes[1]}`]),
      ...keys.flatMap((key) =>
        entryProblems(actual.entries.get(key), expected.entries.get(key), [...path, key], tolerance),
      ),
    ]
  }
  if (isTensorDict(actual) || isTensorDict(expected) || kindOf(actual) !== kindOf(expected))
    return [`${place}${kindOf(actual)}, expected ${kindOf(expected)}`]
  const problem = leafProblem(actual, expected, tolerance)
  return problem === undefined ? [] : [`${place}${problem}`]
}

/**
 * Returns every difference of two TensorDicts with its path: batch shapes, missing and additional
 * keys, kinds, dtypes, shapes, and for numbers the first and the largest difference with the
 * tolerance. With tolerance 0, the list is empty exactly if `equals` holds.
 *
 * The tolerance applies only to float32. int32, bool, data and meta must be equal. The order of
 * keys does not matter.
 *
 * Effects  reads tensors; makes none.
 *
 * @example
 * tensorDictProblems(TensorDict({ a: data(['x']) }, [1]), TensorDict({}, [1])) // ['at "a": Data is not expected']
 */
export const tensorDictProblems = (
  actual: TensorDict,
  expected: TensorDict,
  tolerance: CloseTolerance = EXACT,
): readonly string[] => entryProblems(actual, expected, [], tolerance)

/** Joins problems to one text. */
export const listed = (problems: readonly string[]): string =>
  [
    ...problems.slice(0, LISTED),
    ...(problems.length > LISTED ? [`and ${problems.length - LISTED} more problems`] : []),
  ].join('\n')

/**
 * Throws with a list of all differences unless two TensorDicts are equal.
 *
 * Errors   throws Error with at most ten lines of `tensorDictProblems`.
 *
 * @example
 * requireEqualTensorDict(TensorDict({ a: data(['x']) }, [1]), TensorDict({ a: data(['x']) }, [1]))
 */
export const requireEqualTensorDict = (actual: TensorDict, expected: TensorDict): void =>
  requireCloseTensorDict(actual, expected, EXACT)

/**
 * Throws with a list of all differences unless two TensorDicts are equal up to a tolerance of their
 * float32 numbers.
 *
 * Errors   throws Error with at most ten lines of `tensorDictProblems`.
 *
 * @example
 * requireCloseTensorDict(TensorDict({ a: tf.ones([1]) }, [1]), TensorDict({ a: tf.fill([1], 1.01) }, [1]), { absolute: 0.1 })
 */
export const requireCloseTensorDict = (
  actual: TensorDict,
  expected: TensorDict,
  tolerance: CloseTolerance = {},
): void => {
  const problems = tensorDictProblems(actual, expected, tolerance)
  if (problems.length > 0) throw new Error(listed(problems))
}
