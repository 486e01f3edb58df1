import * as tf from '@tensorflow/tfjs-core'

/**
 * Returns `x` as a constant: the same values, without a gradient.
 *
 * Shapes   any; the result has the shape of `x`.
 * Cost     one copy.
 *
 * @example
 * tf.grad((x) => tf.mul(stopGradient(x), x))(tf.scalar(3)).dataSync() // [3]
 */
export const stopGradient = (x: tf.Tensor): tf.Tensor =>
  tf.customGrad(() => ({ value: tf.clone(x), gradFunc: (dy: tf.Tensor) => tf.zerosLike(dy) }))(tf.scalar(0))
