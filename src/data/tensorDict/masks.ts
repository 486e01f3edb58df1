/**
 * Masks of batch elements: bool tensors, or lists of booleans, that match the first axes of a batch
 * shape.
 */
import * as tf from '@tensorflow/tfjs-core'
import { kindOf } from './keys.js'
import { TensorDictError } from './tensorDict.js'

/**
 * A selection of batch elements: a bool tensor over the first batch axes, or a list of booleans
 * over the first one.
 */
export type Mask = tf.Tensor | readonly boolean[]

/** A mask on the host: its shape and its values. */
export interface HostMask {
  readonly shape: readonly number[]
  readonly values: ArrayLike<unknown>
}

/** Returns true for a list of booleans or a tensor. An empty list counts as one of booleans. */
export const isMask = (value: unknown): value is Mask =>
  value instanceof tf.Tensor || (Array.isArray(value) && value.every((item) => typeof item === 'boolean'))

/**
 * Returns the shape of a mask over `axes`. Errors: throws TensorDictError unless the mask is
 * boolean and `axes` begins with its shape.
 */
export const maskShape = (operation: string, axes: readonly number[], mask: Mask): readonly number[] => {
  if (!isMask(mask) || (mask instanceof tf.Tensor && mask.dtype !== 'bool')) {
    const actual = mask instanceof tf.Tensor ? `a tensor of ${mask.dtype}` : kindOf(mask)
    throw new TensorDictError(operation, [], {
      reason: `the mask must be a bool tensor or a list of booleans, got ${actual}`,
      expected: 'bool',
      actual,
    })
  }
  const shape = mask instanceof tf.Tensor ? mask.shape : [mask.length]
  if (shape.length === 0 || shape.length > axes.length || shape.some((size, axis) => size !== axes[axis])) {
    throw new TensorDictError(operation, [], {
      reason: `a mask of shape [${shape.join(', ')}] does not match the first axes of the batch shape [${axes.join(', ')}]`,
      expected: axes,
      actual: shape,
    })
  }
  return shape
}

/**
 * Reads a mask to the host.
 *
 * Errors   throws TensorDictError unless the mask is boolean and `axes` begins with its shape.
 * Effects  reads the mask, which computes it.
 */
export const readMask = (operation: string, axes: readonly number[], mask: Mask): HostMask => ({
  shape: maskShape(operation, axes, mask),
  values: mask instanceof tf.Tensor ? mask.dataSync() : mask,
})

/** Returns the mask as a bool tensor of rank `rank`, with further axes of size 1. */
export const maskTensor = (mask: Mask, rank: number): tf.Tensor => {
  const tensor = mask instanceof tf.Tensor ? mask : tf.tensor1d([...mask], 'bool')
  return rank === tensor.rank
    ? tensor
    : tf.reshape(tensor, [...tensor.shape, ...new Array<number>(rank - tensor.rank).fill(1)])
}

/** Returns the indices of the elements that a mask selects, in order. */
export const chosen = (mask: HostMask): readonly number[] => {
  const found: number[] = []
  for (let i = 0; i < mask.values.length; i++) if (mask.values[i]) found.push(i)
  return found
}
