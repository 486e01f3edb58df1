/** Sums, means and other reductions of all tensors of a TensorDict, over batch axes, over features, or over everything. */
import * as tf from '@tensorflow/tfjs'
import { masked } from '../../engine/masked.js'
import { scope } from '../../engine/scope.js'
import type { Leaf } from './leaf.js'
import { leafEntries } from './leaves.js'
import { type Mask, maskShape, maskTensor } from './masks.js'
import { axisOf, innerSize, replaceAxes, upTo } from './plan.js'
import { batchSize, type Entry, isTensorDict, nodeOf, type TensorDict, TensorDictError } from './tensorDict.js'

/** `sum` and `prod` count true as 1; `mean` is float32; `any` and `all` are of booleans. */
export type Reduction = 'sum' | 'mean' | 'max' | 'min' | 'prod' | 'any' | 'all'

/** What is reduced: the named batch axes, the axes behind the batch axes of each node, or all axes. */
export type Over = number | readonly number[] | 'features' | 'all'

const isLogical = (op: Reduction): boolean => op === 'any' || op === 'all'

const needsElements = (op: Reduction): boolean => op === 'max' || op === 'min'

/** Runs a reduction of a tensor over some of its axes. */
const reduceTensor = (tensor: tf.Tensor, op: Reduction, axes: readonly number[]): tf.Tensor => {
  if (axes.length === 0 && (isLogical(op) || needsElements(op))) return tensor
  const over = [...axes]
  const counted = tensor.dtype === 'bool' && !isLogical(op) ? tf.cast(tensor, 'int32') : tensor
  switch (op) {
    case 'sum':
      return tf.sum(counted, over)
    case 'mean':
      return tf.mean(counted, over)
    case 'prod':
      return tf.prod(counted, over)
    case 'max':
      return tf.cast(tf.max(counted, over), tensor.dtype)
    case 'min':
      return tf.cast(tf.min(counted, over), tensor.dtype)
    case 'any':
      return tf.any(tensor, over)
    case 'all':
      return tf.all(tensor, over)
  }
}

/** What keeps a leaf from being reduced over its first axes, or over those behind them. */
const obstacle = (leaf: Leaf, op: Reduction, over: 'batch' | 'features' | 'all'): string | undefined => {
  if (!(leaf instanceof tf.Tensor)) {
    if (leaf._tag === 'Meta' || (leaf._tag === 'Data' && over === 'features')) return undefined
    return `${leaf._tag} cannot be reduced; leave it out, or make a tensor of it first`
  }
  if (leaf.dtype === 'string' || leaf.dtype === 'complex64') return `${leaf.dtype} cannot be reduced`
  return isLogical(op) && leaf.dtype !== 'bool' ? `${op} is of booleans, not of ${leaf.dtype}` : undefined
}

const requireReducible = (td: TensorDict, op: Reduction, over: 'batch' | 'features' | 'all'): void => {
  const problems = leafEntries(td).flatMap(([path, leaf]) => {
    const reason = obstacle(leaf, op, over)
    return reason === undefined ? [] : [{ path, reason }]
  })
  if (problems.length > 0) throw new TensorDictError('reduce', [], { problems, actual: op })
}

/** Every node with its tensors replaced, and with another batch shape. */
const overNodes = (
  node: TensorDict,
  f: (tensor: tf.Tensor, batchShape: readonly number[], key: string) => tf.Tensor,
  shapeOf: (batchShape: readonly number[]) => readonly number[],
): TensorDict =>
  nodeOf(
    node.entries.map((entry, key): Entry => {
      if (isTensorDict(entry)) return overNodes(entry, f, shapeOf)
      return entry instanceof tf.Tensor ? f(entry, node.batchShape, key) : entry
    }),
    shapeOf(node.batchShape),
  )

const requireElements = (tensor: tf.Tensor, key: string, op: Reduction, axes: readonly number[]): void => {
  const none = axes.some((axis) => tensor.shape[axis] === 0)
  if (none && needsElements(op) && tensor.shape.every((size, axis) => axes.includes(axis) || size > 0)) {
    throw new TensorDictError('reduce', [key], `there is no ${op} of no elements`)
  }
}

/**
 * Every tensor reduced over batch axes, over its features, or over all of its axes.
 *
 * Shapes   batch axes: they are removed from the batch shape, and from each tensor. 'features': tensors get their node's batch shape.
 *          'all': tensors become scalars, batch shapes become [].
 * Errors   throws TensorDictError, listing every leaf that cannot be reduced: ragged and data leaves (data stays as it is for 'features'),
 *          `any` and `all` of numbers, `max` and `min` of no elements; if an axis does not exist or is named twice.
 * Effects  makes tensors that belong to the enclosing scope. Meta stays.
 * Source   law 65. The sum of no elements is 0, their product 1, their mean NaN.
 *
 * @example
 * reduce(TensorDict({ x: tf.ones([2, 3]) }, [2]), 'sum', 'all').batchShape // []
 */
export const reduce = <S>(td: TensorDict<S>, op: Reduction, over: Over): TensorDict<S> => {
  if (over === 'features' || over === 'all') {
    requireReducible(td, op, over)
    const everything = over === 'all'
    const reduced = (tensor: tf.Tensor, batchShape: readonly number[], key: string): tf.Tensor => {
      const axes = upTo(tensor.rank).slice(everything ? 0 : batchShape.length)
      return reduceChecked(tensor, key, { op, axes })
    }
    return scope(() => overNodes(td, reduced, (shape) => (everything ? [] : shape))) as TensorDict<S> // keys are kept
  }
  const axes = (typeof over === 'number' ? [over] : over).map((axis) => axisOf('reduce', td.batchShape, axis))
  if (new Set(axes).size < axes.length) throw new TensorDictError('reduce', [], `axes ${axes.join(', ')} repeat`)
  requireReducible(td, op, 'batch')
  const left = td.batchShape.filter((_, axis) => !axes.includes(axis))
  const rank = td.batchShape.length
  return scope(() =>
    overNodes(
      td,
      (tensor, _, key) => reduceChecked(tensor, key, { op, axes }),
      (shape) => replaceAxes(shape, rank, left),
    ),
  ) as TensorDict<S> // keys are kept
}

const reduceChecked = (
  tensor: tf.Tensor,
  key: string,
  { op, axes }: { readonly op: Reduction; readonly axes: readonly number[] },
): tf.Tensor => {
  requireElements(tensor, key, op, axes)
  return reduceTensor(tensor, op, axes)
}

/**
 * Sums or means over the batch elements for which the mask is true. What it leaves out does not matter: NaN and infinities included.
 *
 * Shapes   a mask over the first k batch axes removes them; tensors become float32 `[batch axes behind them.., features..]`.
 * Errors   throws TensorDictError if the mask does not match the batch shape, and, listing them, for leaves that cannot be reduced.
 * Effects  makes tensors that belong to the enclosing scope. Meta stays.
 * Source   law 63. Where the mask is false everywhere, sum and mean are 0.
 *
 * @example
 * toNested(reduceMasked(TensorDict({ x: tf.tensor1d([1, NaN]) }, [2]), 'mean', [true, false])) // { x: 1 }
 */
export const reduceMasked = <S>(td: TensorDict<S>, op: 'sum' | 'mean', mask: Mask): TensorDict<S> => {
  const shape = maskShape('reduceMasked', td.batchShape, mask)
  requireReducible(td, op, 'batch')
  const rank = shape.length
  return scope(() => {
    const weights = tf.cast(maskTensor(mask, rank), 'float32')
    const count = tf.maximum(tf.sum(weights), 1)
    const reduced = (tensor: tf.Tensor): tf.Tensor => {
      const rest = tensor.shape.slice(rank)
      const [rows, columns] = [batchSize(shape), innerSize(tensor.shape, rank)]
      if (rows * columns === 0) return tf.zeros(rest)
      const flat = tf.reshape(tf.cast(tensor, 'float32'), [rows, columns])
      const sum = tf.reshape(tf.sum(masked(flat, tf.reshape(weights, [rows, 1])), 0), rest)
      return op === 'sum' ? sum : tf.div(sum, count)
    }
    return overNodes(td, reduced, (batchShape) => batchShape.slice(rank))
  }) as TensorDict<S> // keys are kept
}
