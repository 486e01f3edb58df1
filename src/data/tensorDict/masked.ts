/**
 * Sums and means over unmasked elements. Masked elements have no effect, including NaN and
 * infinities. Masks are float32, 1 for an unmasked element and 0 for a masked one.
 */
import * as tf from '@tensorflow/tfjs-core'

/**
 * Returns `x` where the mask is 1 and 0 elsewhere. Shapes: x and mask are equal, or broadcast
 * together.
 */
export const masked = (x: tf.Tensor, mask: tf.Tensor): tf.Tensor => {
  const shape = tf.backend_util.assertAndGetBroadcastShape([...x.shape], [...mask.shape])
  const chosen = tf.greater(tf.add(mask, tf.zeros(shape)), 0)
  const spread = shape.join() === x.shape.join() ? x : tf.add(x, tf.zeros(shape))
  return tf.where(chosen, spread, tf.zerosLike(spread))
}

/** Sums all unmasked elements; 0 without any. A scalar. */
export const maskedSum = (x: tf.Tensor, mask: tf.Tensor): tf.Tensor => tf.sum(masked(x, mask))

/** Averages all unmasked elements; 0 without any. A scalar. */
export const maskedMean = (x: tf.Tensor, mask: tf.Tensor): tf.Tensor =>
  tf.div(maskedSum(x, mask), tf.maximum(tf.sum(mask), 1))

/**
 * Averages the unmasked elements of each row; 0 for a row without any. Shapes: `[B, T]` to `[B]`.
 */
export const maskedRowMean = (x: tf.Tensor, mask: tf.Tensor): tf.Tensor =>
  tf.div(tf.sum(masked(x, mask), -1), tf.maximum(tf.sum(mask, -1), 1))

/** Computes `log sum exp` over the unmasked elements; the lowest float32 without any. A scalar. */
export const maskedLogSumExp = (x: tf.Tensor, mask: tf.Tensor): tf.Tensor => {
  const lowest = -3.4028234663852886e38
  const safe = tf.add(masked(x, mask), tf.mul(tf.sub(1, mask), lowest))
  const highest = tf.max(safe)
  const sum = tf.sum(tf.mul(tf.exp(tf.sub(safe, highest)), mask))
  return tf.where(tf.greater(sum, 0), tf.add(highest, tf.log(tf.maximum(sum, 1e-38))), tf.scalar(lowest))
}
