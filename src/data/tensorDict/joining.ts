/**
 * Joining several TensorDicts into one: stacking, concatenation, elementwise choice. Feature axes
 * are never changed.
 */
import * as tf from '@tensorflow/tfjs-core'
import { applyJoin, type JoinOptions, requireAlike, shapeProblems } from './alike.js'
import { type IndexPart, indexPlan } from './indexing.js'
import { type Mask, maskShape, maskTensor, readMask } from './masks.js'
import { axisOf, ownOffsets, reshaped, rowsOf, upTo } from './plan.js'
import { batchSize, type TensorDict, TensorDictError } from './tensorDict.js'

/** Returns the first part. Errors: throws TensorDictError for an empty list. */
export const firstOf = <S>(operation: string, parts: readonly TensorDict<S>[]): TensorDict<S> => {
  const [first] = parts
  if (first === undefined) throw new TensorDictError(operation, [], 'no parts to join')
  return first
}

/**
 * Stacks TensorDicts along a new batch axis.
 *
 * Shapes   k TensorDicts of one batch shape to that shape with a new axis of size k before axis
 *          `axis`, by default in front; -1 appends it.
 * Errors   throws TensorDictError, listing every difference (batch shapes, keys, kinds, dtypes,
 *          feature shapes, meta values); for an empty list; for an axis out of range.
 * Effects  creates tensors that belong to the enclosing scope.
 * Source   laws 45, 47, 49. Dtypes are never promoted, and keys are never intersected.
 *
 * @example
 * stack([TensorDict({ x: data(['a']) }, [1]), TensorDict({ x: data(['b']) }, [1])]).batchShape // [2, 1]
 */
export const stack = <S>(parts: readonly TensorDict<S>[], axis = 0, options: JoinOptions = {}): TensorDict<S> => {
  const { batchShape } = firstOf('stack', parts)
  requireAlike('stack', parts, { ...options, shapes: shapeProblems(parts) })
  const at = axisOf('stack', [...batchShape, 1], axis)
  return applyJoin(parts, {
    ...options,
    to: [...batchShape.slice(0, at), parts.length, ...batchShape.slice(at)],
    rows: () => {
      const size = batchSize(batchShape)
      if (at === 0) return { start: 0, end: size * parts.length }
      const own = ownOffsets(batchShape)
      return rowsOf([...own.slice(0, at), upTo(parts.length).map((i) => i * size), ...own.slice(at)])
    },
    mover: () => (tensors) => tf.stack([...tensors], at),
  })
}

/** Returns the source of each element of a concatenation along `axis`. */
const concatRows = (shapes: readonly (readonly number[])[], axis: number): Int32Array => {
  const blocks = shapes.map((shape) => batchSize(shape.slice(axis))) // the number of elements of a part at each index of the axes before `axis`
  const outer = batchSize(shapes[0]!.slice(0, axis))
  const rows: number[] = []
  for (let place = 0; place < outer; place++) {
    let first = 0
    for (const block of blocks) {
      for (let i = 0; i < block; i++) rows.push(first + place * block + i)
      first += outer * block
    }
  }
  return Int32Array.from(rows)
}

/**
 * Concatenates TensorDicts along a batch axis, by default the first.
 *
 * Shapes   batch shapes that agree except for axis `axis`, whose sizes are added.
 * Errors   throws TensorDictError, listing every difference (batch shapes, keys, kinds, dtypes,
 *          feature shapes, meta values); for an empty list; for an unknown axis.
 * Effects  creates tensors that belong to the enclosing scope; a single part is returned unchanged.
 * Source   laws 46, 47, 49.
 *
 * @example
 * concat([TensorDict({ x: data(['a']) }, [1]), TensorDict({ x: data(['b', 'c']) }, [2])]).batchShape // [3]
 */
export const concat = <S>(parts: readonly TensorDict<S>[], axis = 0, options: JoinOptions = {}): TensorDict<S> => {
  const first = firstOf('concat', parts)
  const at = axisOf('concat', first.batchShape, axis)
  requireAlike('concat', parts, { ...options, shapes: shapeProblems(parts, at) })
  if (parts.length === 1) return first
  const total = parts.reduce((sum, part) => sum + part.batchShape[at]!, 0)
  const to = first.batchShape.map((size, i) => (i === at ? total : size))
  return applyJoin(parts, {
    ...options,
    to,
    rows: () =>
      at === 0
        ? { start: 0, end: batchSize(to) }
        : concatRows(
            parts.map((part) => part.batchShape),
            at,
          ),
    mover: () => (tensors) => {
      const filled = tensors.filter((tensor) => tensor.size > 0)
      return filled.length === 1 ? filled[0]! : tf.concat(filled, at)
    },
  })
}

/**
 * Takes each batch element from `a` if the condition is true, and otherwise from `b`.
 *
 * Shapes   `a` and `b` have one batch shape; the condition covers its first axes, and applies to
 *          all features of an element.
 * Errors   throws TensorDictError, listing every difference of `a` and `b`, and if the condition
 *          does not match the batch shape.
 * Effects  creates tensors that belong to the enclosing scope; reads the condition only if a leaf
 *          lives on the host.
 * Source   law 64. Meta values must be equal.
 *
 * @example
 * toNested(where([true, false], TensorDict({ x: data([1, 2]) }, [2]), TensorDict({ x: data([3, 4]) }, [2]))) // { x: [1, 4] }
 */
export const where = <S>(condition: Mask, a: TensorDict<S>, b: TensorDict<S>): TensorDict<S> => {
  const { batchShape } = a
  requireAlike('where', [a, b], { shapes: shapeProblems([a, b]) })
  maskShape('where', batchShape, condition)
  return applyJoin([a, b], {
    to: batchShape,
    rows: () => {
      const { values } = readMask('where', batchShape, condition)
      const size = batchSize(batchShape)
      return Int32Array.from({ length: size }, (_, i) =>
        values[Math.floor((i * values.length) / size)] ? i : size + i,
      )
    },
    mover:
      () =>
      ([x, y]) =>
        tf.where(maskTensor(condition, x!.rank), x!, y!),
  })
}

/**
 * Replaces the batch elements that `index(td, ...at)` selects by `values`.
 *
 * Shapes   `values` has the batch shape of `index(td, ...at)`.
 * Errors   throws TensorDictError, listing every difference of `td` and `values`; if the index is
 *          invalid or chooses an element twice.
 * Effects  creates tensors that belong to the enclosing scope; `td` is not changed. Gradients reach
 *          `td` and `values`.
 * Source   law 43.
 *
 * @example
 * toNested(setAt(TensorDict({ x: data([1, 2]) }, [2]), [-1], TensorDict({ x: data([9]) }, []))) // { x: [1, 9] }
 */
export const setAt = <S>(td: TensorDict<S>, at: readonly IndexPart[], values: TensorDict<S>): TensorDict<S> => {
  const plan = indexPlan('setAt', td.batchShape, at)
  const wrongShape =
    plan.to.join() === values.batchShape.join()
      ? []
      : [`values of batch shape [${values.batchShape.join(', ')}] for places of shape [${plan.to.join(', ')}]`]
  requireAlike('setAt', [td, values], { shapes: wrongShape })
  if (plan.choice() === 'repeated') {
    throw new TensorDictError('setAt', [], { reason: 'an element is chosen twice', actual: at })
  }
  const size = batchSize(td.batchShape)
  const chosen = plan.rows()
  const rows = Int32Array.from(upTo(size))
  for (const [i, row] of chosen.entries()) rows[row] = size + i
  return applyJoin([td, values], {
    to: td.batchShape,
    rows: () => rows,
    mover: () => {
      const index = tf.tensor1d(rows, 'int32')
      return (tensors) => {
        const [target, source] = tensors as [tf.Tensor, tf.Tensor] // of `td` and of `values`
        if (source.size === 0) return target
        const rest = target.shape.slice(td.batchShape.length)
        const both = [reshaped(target, [size, ...rest]), reshaped(source, [chosen.length, ...rest])]
        return reshaped(tf.gather(tf.concat(both, 0), index), target.shape)
      }
    },
  })
}
