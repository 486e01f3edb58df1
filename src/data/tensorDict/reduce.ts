/**
 * Sums, means and other reductions of all tensors of a TensorDict, over batch axes, features, or
 * everything.
 */
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import type { Leaf } from './leaf.js'
import { leafEntries } from './leaves.js'
import { masked } from './masked.js'
import { type Mask, maskShape, maskTensor } from './masks.js'
import { axesOf, innerSize, replaceAxes, upTo } from './plan.js'
import { batchSize, type Entry, find, isTensorDict, nodeOf, type TensorDict, TensorDictError } from './tensorDict.js'

/**
 * A reduction. `sum` and `prod` count true as 1; `mean` gives float32; `any` and `all` apply to
 * booleans.
 */
export type Reduction = 'sum' | 'mean' | 'max' | 'min' | 'prod' | 'any' | 'all'

/**
 * The axes of a reduction: the given batch axes, the axes after the batch axes of each node, or all
 * axes.
 */
export type Over = number | readonly number[] | 'features' | 'all'

const isLogical = (op: Reduction): boolean => op === 'any' || op === 'all'

const needsElements = (op: Reduction): boolean => op === 'max' || op === 'min'

/** Reduces a tensor over some of its axes. */
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

/**
 * Returns the reason why a leaf cannot be reduced over its batch axes or its features, or
 * undefined.
 */
const obstacle = (leaf: Leaf, op: Reduction, over: 'batch' | 'features' | 'all'): string | undefined => {
  if (!(leaf instanceof tf.Tensor)) {
    if (leaf._tag === 'Meta' || (leaf._tag === 'Data' && over === 'features')) return undefined
    return `${leaf._tag} cannot be reduced; leave it out, or make a tensor of it first`
  }
  if (leaf.dtype === 'string' || leaf.dtype === 'complex64') return `${leaf.dtype} cannot be reduced`
  return isLogical(op) && leaf.dtype !== 'bool' ? `${op} is of booleans, not of ${leaf.dtype}` : undefined
}

/** Returns the axes of a tensor to reduce, given the batch shape of its node. */
type AxesOf = (tensor: tf.Tensor, batchShape: readonly number[]) => readonly number[]

/** Returns true for a maximum or minimum over no elements. */
const lacksElements = ({ shape }: tf.Tensor, op: Reduction, axes: readonly number[]): boolean =>
  needsElements(op) &&
  axes.some((axis) => shape[axis] === 0) &&
  shape.every((size, axis) => axes.includes(axis) || size > 0)

/** The reach of a reduction: a word for error messages, and the axes of each tensor. */
interface Reach {
  readonly over: 'batch' | 'features' | 'all'
  readonly axesIn: AxesOf
}

const requireReducible = (operation: string, td: TensorDict, op: Reduction, { over, axesIn }: Reach): void => {
  const problems = leafEntries(td).flatMap(([path, leaf]) => {
    const { batchShape } = find(td, path.slice(0, -1)) as TensorDict // the node of a leaf
    const empty = leaf instanceof tf.Tensor && lacksElements(leaf, op, axesIn(leaf, batchShape))
    const reason = obstacle(leaf, op, over) ?? (empty ? `${op} of no elements is undefined` : undefined)
    return reason === undefined ? [] : [{ path, reason }]
  })
  if (problems.length > 0) throw new TensorDictError(operation, problems[0]!.path, { problems, actual: op })
}

/** Replaces the tensors and the batch shape of every node. */
const overNodes = (
  node: TensorDict,
  f: (tensor: tf.Tensor, batchShape: readonly number[]) => tf.Tensor,
  shapeOf: (batchShape: readonly number[]) => readonly number[],
): TensorDict =>
  nodeOf(
    node.entries.map((entry): Entry => {
      if (isTensorDict(entry)) return overNodes(entry, f, shapeOf)
      return entry instanceof tf.Tensor ? f(entry, node.batchShape) : entry
    }),
    shapeOf(node.batchShape),
  )

/**
 * Reduces every tensor over batch axes, over its features, or over all of its axes.
 *
 * Shapes   batch axes: they are removed from the batch shape, and from each tensor. 'features':
 *          tensors get their node's batch shape. 'all': tensors become scalars, batch shapes become
 *          [].
 * Errors   throws TensorDictError, listing every leaf that cannot be reduced: ragged and data
 *          leaves (with 'features', data is not changed), `any` and `all` of numbers, `max` and
 *          `min` of no elements; if an axis does not exist or is named twice.
 * Effects  creates tensors that belong to the enclosing scope. Meta stays.
 * Source   law 65. The sum of no elements is 0, their product 1, their mean NaN.
 *
 * @example
 * reduce(TensorDict({ x: tf.ones([2, 3]) }, [2]), 'sum', 'all').batchShape // []
 */
export const reduce = <S>(td: TensorDict<S>, op: Reduction, over: Over): TensorDict<S> => {
  const named = over === 'features' || over === 'all' ? [] : axesOf('reduce', td.batchShape, over)
  const left = td.batchShape.filter((_, axis) => !named.includes(axis))
  const rank = td.batchShape.length
  const shapeOf = (shape: readonly number[]): readonly number[] => {
    if (over === 'features') return shape
    return over === 'all' ? [] : replaceAxes(shape, rank, left)
  }
  const reducedAxes: AxesOf = (tensor, batchShape) => {
    if (over === 'features') return upTo(tensor.rank).slice(batchShape.length)
    return over === 'all' ? upTo(tensor.rank) : named
  }
  const reach = over === 'features' || over === 'all' ? over : 'batch'
  requireReducible('reduce', td, op, { over: reach, axesIn: reducedAxes })
  const reduced = (tensor: tf.Tensor, batchShape: readonly number[]): tf.Tensor =>
    reduceTensor(tensor, op, reducedAxes(tensor, batchShape))
  return scope(() => overNodes(td, reduced, shapeOf)) as TensorDict<S> // keys are kept
}

/**
 * Computes sums or means over the batch elements for which the mask is true. Excluded elements have
 * no influence, including NaN and infinities.
 *
 * Shapes   a mask over the first k batch axes removes them; tensors become float32 `[remaining
 *          batch axes.., features..]`.
 * Errors   throws TensorDictError if the mask does not match the batch shape, and, listing them,
 *          for leaves that cannot be reduced.
 * Effects  creates tensors that belong to the enclosing scope. Meta stays.
 * Source   law 63. If the mask is false everywhere, sum and mean are 0.
 *
 * @example
 * toNested(reduceMasked(TensorDict({ x: tf.tensor1d([1, NaN]) }, [2]), 'mean', [true, false])) // { x: 1 }
 */
export const reduceMasked = <S>(td: TensorDict<S>, op: 'sum' | 'mean', mask: Mask): TensorDict<S> => {
  const shape = maskShape('reduceMasked', td.batchShape, mask)
  const rank = shape.length
  requireReducible('reduceMasked', td, op, { over: 'batch', axesIn: () => upTo(rank) })
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
