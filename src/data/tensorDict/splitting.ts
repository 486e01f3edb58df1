/** Splitting of one TensorDict into several, along a batch axis. Feature axes are never changed. */
import { index } from './indexing.js'
import { axisOf, requireCount, upTo } from './plan.js'
import { within } from './selecting.js'
import { type TensorDict, TensorDictError } from './tensorDict.js'

/**
 * Returns each element along a batch axis, without that axis.
 *
 * Shapes   `[.., n, ..]` to n TensorDicts of `[.., ..]`.
 * Errors   throws TensorDictError for an unknown axis.
 * Effects  creates tensors that belong to the enclosing scope.
 *
 * @example
 * unbind(TensorDict({ x: data(['a', 'b']) }, [2])).length // 2
 */
export const unbind = <S>(td: TensorDict<S>, axis = 0): readonly TensorDict<S>[] => {
  const at = axisOf('unbind', td.batchShape, axis)
  const before = upTo(at).map(() => ({}))
  return upTo(td.batchShape[at]!).map((i) => index(td, ...before, i))
}

/** Returns each element of the first batch axis, with a batch axis of size 1. */
export const splitEach = <S>(td: TensorDict<S>): readonly TensorDict<S>[] =>
  piecesOf('splitEach', td, {
    axis: axisOf('splitEach', td.batchShape, 0),
    sizes: new Array<number>(td.batchShape[0] ?? 0).fill(1),
  })

const piecesOf = <S>(
  operation: string,
  td: TensorDict<S>,
  { axis, sizes }: { readonly axis: number; readonly sizes: readonly number[] },
): readonly TensorDict<S>[] => {
  let end = 0
  return sizes.map((size) => {
    const start = end
    end += size
    return within(operation, td, { axis, start, end })
  })
}

/**
 * Splits into consecutive pieces of the given sizes.
 *
 * Shapes   `[.., n, ..]` to one TensorDict of `[.., size, ..]` for each size; sizes may be 0.
 * Errors   throws TensorDictError unless the sizes are natural numbers with the sum n.
 * Effects  creates tensors that belong to the enclosing scope.
 *
 * @example
 * splitSizes(TensorDict({ x: data(['a', 'b', 'c']) }, [3]), [1, 2]).map((part) => part.batchShape) // [[1], [2]]
 */
export const splitSizes = <S>(td: TensorDict<S>, sizes: readonly number[], axis = 0): readonly TensorDict<S>[] => {
  const at = axisOf('splitSizes', td.batchShape, axis)
  const total = sizes.reduce((sum, size) => sum + size, 0)
  if (!sizes.every((size) => Number.isInteger(size) && size >= 0) || total !== td.batchShape[at]) {
    throw new TensorDictError('splitSizes', [], {
      reason: `sizes ${sizes.join(', ') || '(none)'} must be natural numbers with the sum ${td.batchShape[at]}`,
      axis: at,
      expected: td.batchShape[at],
      actual: sizes,
    })
  }
  return piecesOf('splitSizes', td, { axis: at, sizes })
}

/**
 * Splits into consecutive pieces of `size` elements; the last one may be shorter.
 *
 * Errors   throws TensorDictError if `size` is not at least 1, or for an unknown axis.
 * Effects  creates tensors that belong to the enclosing scope.
 *
 * @example
 * splitEvery(TensorDict({ x: data(['a', 'b', 'c']) }, [3]), 2).map((part) => part.batchShape) // [[2], [1]]
 */
export const splitEvery = <S>(td: TensorDict<S>, size: number, axis = 0): readonly TensorDict<S>[] => {
  const at = axisOf('splitEvery', td.batchShape, axis)
  requireCount('splitEvery', { name: 'the size of a piece', count: size, least: 1 })
  const whole = td.batchShape[at]!
  const sizes = Array.from({ length: Math.ceil(whole / size) }, (_, i) => Math.min(size, whole - i * size))
  return piecesOf('splitEvery', td, { axis: at, sizes })
}

/** Options for `splitInto`. */
export interface SplitIntoOptions {
  /** Default: the first axis. */
  readonly axis?: number
  /** With `refused`, pieces of different sizes are an error. Default `allowed`. */
  readonly uneven?: 'allowed' | 'refused'
}

/**
 * Splits into exactly `count` consecutive pieces, whose sizes differ by at most one, longer ones
 * first. Pieces may be empty.
 *
 * Errors   throws TensorDictError if `count` is not at least 1, for an unknown axis, or if the
 *          pieces would differ in size with `uneven: 'refused'`.
 * Effects  creates tensors that belong to the enclosing scope.
 *
 * @example
 * splitInto(TensorDict({ x: data([1, 2, 3, 4, 5]) }, [5]), 3).map((part) => part.batchShape) // [[2], [2], [1]]
 */
export const splitInto = <S>(
  td: TensorDict<S>,
  count: number,
  { axis = 0, uneven = 'allowed' }: SplitIntoOptions = {},
): readonly TensorDict<S>[] => {
  const at = axisOf('splitInto', td.batchShape, axis)
  requireCount('splitInto', { name: 'the number of pieces', count, least: 1 })
  const whole = td.batchShape[at]!
  const longer = whole % count
  if (longer !== 0 && uneven === 'refused') {
    throw new TensorDictError('splitInto', [], {
      reason: `${whole} elements cannot be split into ${count} equal pieces`,
      axis: at,
      expected: `a multiple of ${count}`,
      actual: whole,
    })
  }
  const sizes = upTo(count).map((i) => Math.floor(whole / count) + (i < longer ? 1 : 0))
  return piecesOf('splitInto', td, { axis: at, sizes })
}
