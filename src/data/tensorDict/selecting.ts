/** Moving, removing and repeating elements of one batch axis. Feature axes are never changed. */
import { alongAxis, applyPlan, axesOf, axisOf, requireCount, upTo } from './plan.js'
import { type TensorDict, TensorDictError } from './tensorDict.js'

/** Refuses list members that are out of range. */
const requireMembers = (operation: string, indices: readonly number[], size: number): void => {
  const wrong = indices.filter((i) => !Number.isInteger(i) || i < 0 || i >= size)
  if (wrong.length === 0) return
  const among = size === 0 ? 'an empty axis' : `0 .. ${size - 1}`
  throw new TensorDictError(operation, [], {
    problems: wrong.map((i) => ({ path: [], reason: `index ${i} is not in ${among}` })),
    expected: size,
    actual: indices,
  })
}

/**
 * Takes the elements at `indices` of a batch axis, by default the first, in that order. An index
 * may occur more than once.
 *
 * Shapes   `[.., n, ..]` to `[.., indices.length, ..]`.
 * Errors   throws TensorDictError, listing every index that is not in 0 .. n - 1, and for an
 *          unknown axis.
 * Effects  creates tensors that belong to the enclosing scope; all elements in their order return
 *          the same object.
 *
 * @example
 * take(TensorDict({ x: data(['a', 'b']) }, [2]), [1, 1, 0]).batchShape // [3]
 */
export const take = <S>(td: TensorDict<S>, indices: readonly number[], axis = 0): TensorDict<S> => {
  const at = axisOf('take', td.batchShape, axis)
  const size = td.batchShape[at]!
  requireMembers('take', indices, size)
  if (indices.length === size && indices.every((position, i) => position === i)) return td
  return applyPlan(td, alongAxis(td.batchShape, at, indices))
}

/**
 * Returns elements `start .. end - 1` of the first batch axis. `narrow` does it for any axis.
 *
 * Errors   throws TensorDictError if the range is not inside the axis.
 * Effects  creates tensors that belong to the enclosing scope; the whole range returns the same
 *          object.
 *
 * @example
 * slice(TensorDict({ x: data(['a', 'b', 'c']) }, [3]), 1, 3).batchShape // [2]
 */
export const slice = <S>(td: TensorDict<S>, start: number, end: number): TensorDict<S> =>
  within('slice', td, { axis: 0, start, end })

/** The part of an axis that `narrow` keeps. */
export interface NarrowOptions {
  /** Default: the first axis. */
  readonly axis?: number
  readonly start: number
  readonly length: number
}

/**
 * Returns `length` elements of a batch axis from `start` on.
 *
 * Errors   throws TensorDictError if they are not inside the axis.
 * Effects  creates tensors that belong to the enclosing scope; the whole axis returns the same
 *          object.
 *
 * @example
 * narrow(TensorDict({}, [2, 5]), { axis: -1, start: 1, length: 3 }).batchShape // [2, 3]
 */
export const narrow = <S>(td: TensorDict<S>, { axis = 0, start, length }: NarrowOptions): TensorDict<S> =>
  within('narrow', td, { axis, start, end: start + length })

/** Returns elements `start .. end - 1` of an axis. `operation` is the name in errors. */
export const within = <S>(
  operation: string,
  td: TensorDict<S>,
  range: { readonly axis: number; readonly start: number; readonly end: number },
): TensorDict<S> => {
  const at = axisOf(operation, td.batchShape, range.axis)
  const size = td.batchShape[at]!
  const { start, end } = range
  if (![start, end].every(Number.isInteger) || start < 0 || end < start || end > size) {
    throw new TensorDictError(operation, [], {
      reason: `${start} .. ${end} is not inside 0 .. ${size}`,
      axis: at,
      expected: [0, size],
      actual: [start, end],
    })
  }
  if (start === 0 && end === size) return td
  const positions = Array.from({ length: end - start }, (_, i) => start + i)
  return applyPlan(td, alongAxis(td.batchShape, at, positions))
}

/**
 * Reverses the order of elements along the given batch axes.
 *
 * Errors   throws TensorDictError for an unknown axis, or one that is named twice.
 * Effects  creates tensors that belong to the enclosing scope.
 *
 * @example
 * index(flip(TensorDict({ x: data(['a', 'b']) }, [2])), 0).batchShape // []
 */
export const flip = <S>(td: TensorDict<S>, axes: number | readonly number[] = 0): TensorDict<S> => {
  const list = axesOf('flip', td.batchShape, axes)
  return list.reduce((flipped: TensorDict<S>, axis) => {
    const size = td.batchShape[axis]!
    return take(
      flipped,
      upTo(size).map((i) => size - 1 - i),
      axis,
    )
  }, td)
}

/**
 * Rotates the elements of a batch axis by `shift` places. Elements that leave at one end enter at
 * the other.
 *
 * Errors   throws TensorDictError for an unknown axis, or if `shift` is not an integer.
 * Effects  creates tensors that belong to the enclosing scope.
 *
 * @example
 * toNested(roll(TensorDict({ x: data(['a', 'b', 'c']) }, [3]), 1)) // { x: ['c', 'a', 'b'] }
 */
export const roll = <S>(td: TensorDict<S>, shift: number, axis = 0): TensorDict<S> => {
  const at = axisOf('roll', td.batchShape, axis)
  requireCount('roll', { name: 'the size of the shift', count: Math.abs(shift) })
  const size = td.batchShape[at]!
  return take(
    td,
    upTo(size).map((i) => (((i - shift) % size) + size) % size),
    at,
  )
}

/**
 * Repeats each element `count` times in succession: element `i * count + j` of the result is
 * element i.
 *
 * Shapes   `[.., n, ..]` to `[.., n * count, ..]` along `axis`, by default the first.
 * Errors   throws TensorDictError if `count` is not a natural number, or for an unknown axis.
 * Effects  creates tensors that belong to the enclosing scope; a count of 1 returns the same
 *          object.
 *
 * @example
 * toNested(repeatInterleave(TensorDict({ x: data(['a', 'b']) }, [2]), 2)) // { x: ['a', 'a', 'b', 'b'] }
 */
export const repeatInterleave = <S>(td: TensorDict<S>, count: number, axis = 0): TensorDict<S> => {
  const at = axisOf('repeatInterleave', td.batchShape, axis)
  requireCount('repeatInterleave', { name: 'count', count })
  return take(
    td,
    Array.from({ length: td.batchShape[at]! * count }, (_, i) => Math.floor(i / count)),
    at,
  )
}

/**
 * Repeats all elements of a batch axis `count` times, one round after the other: element `j * n +
 * i` of the result is element i.
 *
 * Shapes   `[.., n, ..]` to `[.., n * count, ..]` along `axis`, by default the first.
 * Errors   throws TensorDictError if `count` is not a natural number, or for an unknown axis.
 * Effects  creates tensors that belong to the enclosing scope; a count of 1 returns the same
 *          object.
 *
 * @example
 * toNested(repeat(TensorDict({ x: data(['a', 'b']) }, [2]), 2)) // { x: ['a', 'b', 'a', 'b'] }
 */
export const repeat = <S>(td: TensorDict<S>, count: number, axis = 0): TensorDict<S> => {
  const at = axisOf('repeat', td.batchShape, axis)
  requireCount('repeat', { name: 'count', count })
  const size = td.batchShape[at]!
  return take(
    td,
    Array.from({ length: size * count }, (_, i) => i % size),
    at,
  )
}
