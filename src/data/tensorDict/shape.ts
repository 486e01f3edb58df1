/**
 * Merging, splitting, moving, adding and removing of batch axes. Elements keep their values;
 * feature axes are never changed.
 */
import * as tf from '@tensorflow/tfjs-core'
import { applyPlan, axisOf, ownOffsets, reshaped, rowsOf, stridesOf, upTo } from './plan.js'
import { batchSize, type TensorDict, TensorDictError } from './tensorDict.js'

/** Returns the same elements, in the same order, under other batch axes. */
const regroup = <S>(td: TensorDict<S>, to: readonly number[]): TensorDict<S> => {
  const rank = td.batchShape.length
  if (to.length === rank && to.every((size, axis) => size === td.batchShape[axis])) return td
  return applyPlan(td, {
    rank,
    to,
    rows: () => ({ start: 0, end: batchSize(to) }),
    mover: () => (tensor) => reshaped(tensor, [...to, ...tensor.shape.slice(rank)]),
  })
}

/** Replaces one -1 in sizes by the quotient of `total` and the other sizes. */
const resolved = (operation: string, sizes: readonly number[], total: number): readonly number[] => {
  const open = sizes.filter((size) => size === -1).length
  const known = sizes.reduce((product, size) => (size === -1 ? product : product * size), 1)
  const valid = sizes.every((size) => size === -1 || (Number.isSafeInteger(size) && size >= 0))
  const missing = known === 0 ? Number.NaN : total / known // undefined if the known sizes multiply to 0
  if (valid && open === 1 && Number.isInteger(missing)) return sizes.map((size) => (size === -1 ? missing : size))
  if (valid && open === 0 && known === total) return sizes
  throw new TensorDictError(operation, [], {
    reason: `${total} elements do not fit [${sizes.join(', ')}], whose sizes must be natural numbers, one of them possibly -1`,
    expected: total,
    actual: sizes,
  })
}

/**
 * Reshapes the batch axes; elements stay in row-major order.
 *
 * Shapes   any batch shape to any other one with as many elements; one size may be -1, which is
 *          computed.
 * Errors   throws TensorDictError if the numbers of elements differ.
 * Effects  creates tensors that share their buffers with those of `td`; the current shape returns
 *          the same object.
 *
 * @example
 * reshape(TensorDict({}, [2, 3]), [-1]).batchShape // [6]
 */
export const reshape = <S>(td: TensorDict<S>, batchShape: readonly number[]): TensorDict<S> =>
  regroup(td, resolved('reshape', batchShape, batchSize(td.batchShape)))

/**
 * Merges the batch axes `first` to `last`, both included, into one. By default all of them.
 *
 * Errors   throws TensorDictError for an unknown axis, or if `last` comes before `first`.
 * Effects  as `reshape`.
 *
 * @example
 * flattenAxes(TensorDict({}, [2, 3, 4]), 1).batchShape // [2, 12]
 */
export const flattenAxes = <S>(td: TensorDict<S>, first = 0, last = -1): TensorDict<S> => {
  const shape = td.batchShape
  const [from, to] = [axisOf('flattenAxes', shape, first), axisOf('flattenAxes', shape, last)]
  if (to < from) {
    throw new TensorDictError('flattenAxes', [], {
      reason: `the last axis, ${to}, comes before the first, ${from}`,
      expected: [from, shape.length - 1],
      actual: to,
    })
  }
  return regroup(td, [...shape.slice(0, from), batchSize(shape.slice(from, to + 1)), ...shape.slice(to + 1)])
}

/**
 * Splits one batch axis into several, in row-major order.
 *
 * Shapes   `[.., n, ..]` to `[.., ...sizes, ..]`, where the sizes multiply to n; one may be -1,
 *          which is computed.
 * Errors   throws TensorDictError for an unknown axis, or if the sizes do not multiply to its size.
 * Effects  as `reshape`.
 *
 * @example
 * unflattenAxis(TensorDict({}, [6]), 0, [2, -1]).batchShape // [2, 3]
 */
export const unflattenAxis = <S>(td: TensorDict<S>, axis: number, sizes: readonly number[]): TensorDict<S> => {
  const shape = td.batchShape
  const at = axisOf('unflattenAxis', shape, axis)
  return regroup(td, [...shape.slice(0, at), ...resolved('unflattenAxis', sizes, shape[at]!), ...shape.slice(at + 1)])
}

/**
 * Reorders the batch axes: axis i of the result is axis `axes[i]`.
 *
 * Errors   throws TensorDictError unless `axes` names every batch axis once.
 * Effects  creates tensors that belong to the enclosing scope; the current order returns the same
 *          object.
 *
 * @example
 * permute(TensorDict({}, [2, 3, 4]), [2, 0, 1]).batchShape // [4, 2, 3]
 */
export const permute = <S>(td: TensorDict<S>, axes: readonly number[]): TensorDict<S> => {
  const shape = td.batchShape
  const order = axes.map((axis) => axisOf('permute', shape, axis))
  if (new Set(order).size < shape.length || order.length !== shape.length) {
    throw new TensorDictError('permute', [], {
      reason: `[${axes.join(', ')}] does not name each of the ${shape.length} batch axes once`,
      expected: upTo(shape.length),
      actual: axes,
    })
  }
  if (order.every((axis, i) => axis === i)) return td
  return applyPlan(td, {
    rank: shape.length,
    to: order.map((axis) => shape[axis]!),
    rows: () => {
      const own = ownOffsets(shape)
      return rowsOf(order.map((axis) => own[axis]!))
    },
    mover: () => (tensor) => tf.transpose(tensor, [...order, ...upTo(tensor.rank).slice(shape.length)]),
  })
}

/**
 * Swaps two batch axes.
 *
 * Errors   throws TensorDictError for an unknown axis.
 * Effects  as `permute`.
 *
 * @example
 * transpose(TensorDict({}, [2, 3]), 0, 1).batchShape // [3, 2]
 */
export const transpose = <S>(td: TensorDict<S>, first: number, second: number): TensorDict<S> => {
  const [a, b] = [axisOf('transpose', td.batchShape, first), axisOf('transpose', td.batchShape, second)]
  return permute(
    td,
    upTo(td.batchShape.length).map((axis) => (axis === a ? b : axis === b ? a : axis)),
  )
}

/**
 * Removes a batch axis of size 1, or, by default, all of them. Feature axes stay.
 *
 * Errors   throws TensorDictError for an unknown axis, or if its size is not 1.
 * Effects  as `reshape`.
 *
 * @example
 * squeeze(TensorDict({}, [1, 3, 1])).batchShape // [3]
 */
export const squeeze = <S>(td: TensorDict<S>, axis?: number): TensorDict<S> => {
  const shape = td.batchShape
  if (axis === undefined) {
    return regroup(
      td,
      shape.filter((size) => size !== 1),
    )
  }
  const at = axisOf('squeeze', shape, axis)
  if (shape[at] !== 1) {
    throw new TensorDictError('squeeze', [], {
      reason: `axis ${at} has size ${shape[at]}, not 1`,
      axis: at,
      expected: 1,
      actual: shape[at],
    })
  }
  return regroup(td, [...shape.slice(0, at), ...shape.slice(at + 1)])
}

/**
 * Inserts a batch axis of size 1 before axis `axis`. Negative numbers count places from the end, -1
 * being the last.
 *
 * Errors   throws TensorDictError if `axis` is out of range.
 * Effects  as `reshape`.
 *
 * @example
 * unsqueeze(TensorDict({}, [2, 3]), -1).batchShape // [2, 3, 1]
 */
export const unsqueeze = <S>(td: TensorDict<S>, axis: number): TensorDict<S> => {
  const shape = td.batchShape
  const at = axisOf('unsqueeze', [...shape, 1], axis)
  return regroup(td, [...shape.slice(0, at), 1, ...shape.slice(at)])
}

/**
 * Repeats batch axes of size 1 to the sizes of `batchShape`, which may have further axes in front.
 *
 * Errors   throws TensorDictError, listing every axis whose size is neither 1 nor the requested
 *          size, or if `batchShape` has fewer axes.
 * Effects  creates tensors that belong to the enclosing scope; the current shape returns the same
 *          object.
 *
 * @example
 * expand(TensorDict({}, [1, 3]), [5, 2, 3]).batchShape // [5, 2, 3]
 */
export const expand = <S>(td: TensorDict<S>, batchShape: readonly number[]): TensorDict<S> => {
  const shape = td.batchShape
  const added = batchShape.length - shape.length
  const problems = batchShape.flatMap((size, axis) => {
    const own = shape[axis - added]
    if (!Number.isSafeInteger(size) || size < 0) return [`size ${size} of axis ${axis} is not a natural number`]
    return own === undefined || own === size || own === 1
      ? []
      : [`axis ${axis} has size ${own} and cannot become ${size}`]
  })
  if (added < 0 || problems.length > 0) {
    const fewer = added < 0 ? [`[${batchShape.join(', ')}] has fewer axes than [${shape.join(', ')}]`] : problems
    throw new TensorDictError('expand', [], {
      problems: fewer.map((reason) => ({ path: [], reason })),
      expected: shape,
      actual: batchShape,
    })
  }
  if (added === 0 && shape.every((size, axis) => size === batchShape[axis])) return td
  const padded = [...upTo(added).map(() => 1), ...shape]
  const strides = stridesOf(padded)
  return applyPlan(td, {
    rank: shape.length,
    to: batchShape,
    rows: () =>
      rowsOf(batchShape.map((size, axis) => upTo(size).map((i) => (padded[axis] === 1 ? 0 : i * strides[axis]!)))),
    mover: () => (tensor) => {
      const rest = tensor.shape.slice(shape.length)
      return tf.tile(reshaped(tensor, [...padded, ...rest]), [
        ...batchShape.map((size, axis) => (padded[axis] === 1 ? size : 1)),
        ...rest.map(() => 1),
      ])
    },
  })
}
