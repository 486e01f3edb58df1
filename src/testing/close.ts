/** Comparing numbers, and saying where and by how much they differ. */
import * as tf from '@tensorflow/tfjs-core'

/** How far two numbers may be apart: `absolute + relative * |expected|`. Defaults 1e-6 and 1e-5. */
export interface CloseTolerance {
  readonly absolute?: number
  readonly relative?: number
}

/** No difference at all. NaN still equals NaN, and 0 equals -0. */
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

/** How far two numbers are apart. A number and no number are infinitely far apart. */
const distance = (actual: number, expected: number): number => {
  const difference = Math.abs(actual - expected)
  return Number.isNaN(difference) ? Number.POSITIVE_INFINITY : difference
}

const toleranceText = ({ absolute, relative }: Required<CloseTolerance>): string =>
  relative === 0 ? `${absolute}` : `${absolute} + ${relative} * |expected|`

/** The index of an element of a row-major array by its place: `[1, 0]` for place 2 of shape `[2, 2]`. */
export const rowMajor =
  (shape: readonly number[]) =>
  (place: number): readonly number[] =>
    shape.map((size, axis) => {
      const inner = shape.slice(axis + 1).reduce((n, m) => n * m, 1)
      return Math.floor(place / inner) % size
    })

/** How a comparison is made, and how its places are called. */
export interface CloseComparison {
  readonly tolerance?: CloseTolerance
  /** The index that a place has for the reader. Default: the place itself. */
  readonly indexOf?: (place: number) => readonly number[]
}

/**
 * What is wrong with numbers that should be close, in one sentence: the first element that differs, how many do, the largest difference and
 * where it is, the tolerance. Undefined if all are close.
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
 * Throws, saying where, unless all elements of two lists are close.
 *
 * Errors   throws Error with the text of `closeProblem`.
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

/** Numbers as nested lists: what `tensor.arraySync()` gives. */
export type NestedNumbers = number | readonly NestedNumbers[]

interface Numbers {
  readonly shape: readonly number[]
  /** Undefined for plain lists, which have none. */
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
 * What is wrong with a tensor that should be close to another one, or to nested lists of numbers. Undefined if nothing is.
 *
 * The shapes must be equal, and the dtypes where both have one. int32 and bool must be equal exactly.
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
 * Throws, saying where, unless a tensor is close to another one, or to nested lists of numbers.
 *
 * Errors   throws Error with the text of `tensorProblem`.
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
