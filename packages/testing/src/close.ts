/** Comparison of numbers, with a report of positions and differences. */
import * as tf from '@tensorflow/tfjs-core'

/**
 * The largest allowed difference of two numbers: `absolute + relative * |expected|`. Defaults 1e-6
 * and 1e-5.
 */
export interface CloseTolerance {
  readonly absolute?: number
  readonly relative?: number
}

/** The tolerance 0. NaN still equals NaN, and 0 equals -0. */
export const EXACT: Required<CloseTolerance> = { absolute: 0, relative: 0 }

const withDefaults = ({ absolute = 1e-6, relative = 1e-5 }: CloseTolerance): Required<CloseTolerance> => {
  for (const [name, value] of Object.entries({ absolute, relative })) {
    if (!(value >= 0)) throw new RangeError(`tolerance: ${name} must be at least 0, got ${value}`)
  }
  return { absolute, relative }
}

const isClose = (actual: number, expected: number, { absolute, relative }: Required<CloseTolerance>): boolean =>
  actual === expected ||
  (Number.isNaN(actual) && Number.isNaN(expected)) ||
  Math.abs(actual - expected) <= absolute + (Number.isFinite(expected) ? relative * Math.abs(expected) : 0)

/** Returns the difference of two numbers, which is infinite if only one of them is NaN. */
const distance = (actual: number, expected: number): number => {
  const difference = Math.abs(actual - expected)
  return Number.isNaN(difference) ? Number.POSITIVE_INFINITY : difference
}

const toleranceText = ({ absolute, relative }: Required<CloseTolerance>): string =>
  relative === 0 ? `${absolute}` : `${absolute} + ${relative} * |expected|`

/**
 * Returns the index of an element in a row-major array, such as `[1, 0]` for position 2 of shape
 * `[2, 2]`.
 */
export const rowMajor =
  (shape: readonly number[]) =>
  (place: number): readonly number[] =>
    shape.map((size, axis) => {
      const inner = shape.slice(axis + 1).reduce((n, m) => n * m, 1)
      return Math.floor(place / inner) % size
    })

/** The options of a comparison. */
export interface CloseComparison {
  readonly tolerance?: CloseTolerance
  /** Returns the index to report for a position. Default: the position itself. */
  readonly indexOf?: (place: number) => readonly number[]
}

/**
 * Compares lists of numbers. Returns `undefined` if all are close, otherwise a message with the
 * first differing element, the number of differences, the largest one with its position, and the
 * tolerance.
 *
 * NaN equals NaN; an infinity equals only itself.
 *
 * Errors   throws RangeError for a negative tolerance.
 * Cost     O(n).
 *
 * @example
 * closeProblem([1, 2], [1, 4], { tolerance: { absolute: 1, relative: 0 } }) // 'element [1] is 2, expected 4; 1 of 2 differ, the most at [1] by 2; tolerance 1'
 */
export const closeProblem = (
  actual: ArrayLike<number>,
  expected: ArrayLike<number>,
  comparison: CloseComparison = {},
): string | undefined => {
  const tolerance = withDefaults(comparison.tolerance ?? {})
  const indexOf = comparison.indexOf ?? ((place) => [place])
  if (actual.length !== expected.length) return `${actual.length} elements, expected ${expected.length}`
  const places = Array.from({ length: expected.length }, (_, i) => i)
  const wrong = places.filter((i) => !isClose(actual[i]!, expected[i]!, tolerance))
  const [first] = wrong
  if (first === undefined) return undefined
  const apart = (i: number): number => distance(actual[i]!, expected[i]!)
  const worst = wrong.reduce((a, b) => (apart(b) > apart(a) ? b : a), first)
  const at = (i: number): string => `[${indexOf(i).join(', ')}]`
  return (
    `element ${at(first)} is ${actual[first]}, expected ${expected[first]}; ${wrong.length} of ${expected.length} differ, ` +
    `the most at ${at(worst)} by ${apart(worst)}; tolerance ${toleranceText(tolerance)}`
  )
}

/**
 * Throws unless all elements of two lists are close.
 *
 * Errors   throws Error with the message of `closeProblem`.
 *
 * @example
 * requireClose([0.1 + 0.2], [0.3])
 */
export const requireClose = (
  actual: ArrayLike<number>,
  expected: ArrayLike<number>,
  tolerance: CloseTolerance = {},
): void => {
  const problem = closeProblem(actual, expected, { tolerance })
  if (problem !== undefined) throw new Error(problem)
}

/** Numbers as nested lists, like the result of `tensor.arraySync()`. */
export type NestedNumbers = number | readonly NestedNumbers[]

interface Numbers {
  readonly shape: readonly number[]
  /** `undefined` for plain lists. */
  readonly dtype: string | undefined
  readonly values: ArrayLike<number>
}

const shapeOf = (value: NestedNumbers): readonly number[] => {
  if (typeof value === 'number') return []
  const [first] = value
  return [value.length, ...(first === undefined ? [] : shapeOf(first))]
}

const flat = (value: NestedNumbers): readonly number[] => (typeof value === 'number' ? [value] : value.flatMap(flat))

const numbersOf = (value: tf.Tensor | NestedNumbers): Numbers => {
  if (value instanceof tf.Tensor) return { shape: value.shape, dtype: value.dtype, values: value.dataSync() }
  const [shape, values] = [shapeOf(value), flat(value)]
  if (values.length !== shape.reduce((n, m) => n * m, 1)) {
    throw new RangeError(
      `expected: nested lists of unequal lengths, ${values.length} numbers for [${shape.join(', ')}]`,
    )
  }
  return { shape, dtype: undefined, values }
}

/**
 * Compares a tensor with another one, or with nested lists of numbers. Returns a message, or
 * `undefined` if they are close.
 *
 * The shapes must be equal, and so must the dtypes if both have one. int32 and bool are compared
 * exactly.
 *
 * Effects  reads the tensors, which computes them; makes none.
 */
export const tensorProblem = (
  actual: tf.Tensor,
  expected: tf.Tensor | NestedNumbers,
  tolerance: CloseTolerance = {},
): string | undefined => {
  const freed = [actual, expected].some((value) => value instanceof tf.Tensor && value.isDisposed)
  if (freed) return `the ${actual.isDisposed ? '' : 'expected '}tensor has been freed`
  const [a, e] = [numbersOf(actual), numbersOf(expected)]
  const describe = ({ dtype = '', shape }: Numbers): string => `${dtype} [${shape.join(', ')}]`.trim()
  const isOther = a.shape.join() !== e.shape.join() || (e.dtype !== undefined && a.dtype !== e.dtype)
  if (isOther) return `${describe(a)}, expected ${describe(e)}`
  return closeProblem(a.values, e.values, {
    tolerance: a.dtype === 'float32' ? tolerance : EXACT,
    indexOf: rowMajor(a.shape),
  })
}

/**
 * Throws unless a tensor is close to another one, or to nested lists of numbers.
 *
 * Errors   throws Error with the message of `tensorProblem`.
 * Effects  reads the tensors; makes none.
 *
 * @example
 * requireCloseTensor(tf.tensor2d([[1, 2]]), [[1, 2.000001]])
 */
export const requireCloseTensor = (
  actual: tf.Tensor,
  expected: tf.Tensor | NestedNumbers,
  tolerance: CloseTolerance = {},
): void => {
  const problem = tensorProblem(actual, expected, tolerance)
  if (problem !== undefined) throw new Error(problem)
}
