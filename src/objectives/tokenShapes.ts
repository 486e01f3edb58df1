/** Shape checks for the tensors of a loss or an estimator. */
import type * as tf from '@tensorflow/tfjs-core'

/**
 * Refuses tensors of tokens whose shapes differ.
 *
 * Shapes   all `[B, T]`; undefined tensors are ignored.
 * Errors   throws RangeError with the name of the function and all shapes.
 */
export const checkTokenShapes = (name: string, tensors: Readonly<Record<string, tf.Tensor | undefined>>): void => {
  const given = Object.entries(tensors).flatMap(([field, x]) => (x === undefined ? [] : [[field, x.shape] as const]))
  const first = given[0]?.[1] ?? []
  if (first.length !== 2 || given.some(([, shape]) => shape.join() !== first.join())) {
    const all = given.map(([field, shape]) => `${field} [${shape.join()}]`).join(', ')
    throw new RangeError(`${name}: expected one shape [B, T] for all, got ${all}`)
  }
}
