import * as tf from '@tensorflow/tfjs-core'
import { runFused } from './fused.js'

/** Cosine and sine of position times frequency, `[positions, Dh / 2]` each. */
export interface RotaryTable {
  readonly cos: tf.Tensor
  readonly sin: tf.Tensor
}

const rotateByParts = (x: tf.Tensor, positions: tf.Tensor, cos: tf.Tensor, sin: tf.Tensor): tf.Tensor => {
  const [batch, time, width] = x.shape as [number, number, number] // checked by `rotary`
  const half = cos.shape[1]!
  const heads = tf.reshape(x, [batch, time, width / (2 * half), 2, half])
  const [first, second] = tf.unstack(heads, 3) as [tf.Tensor, tf.Tensor]
  const atPositions = (table: tf.Tensor): tf.Tensor => tf.expandDims(tf.gather(table, tf.cast(positions, 'int32')), 2)
  const [c, s] = [atPositions(cos), atPositions(sin)]
  const rotated = [tf.sub(tf.mul(first, c), tf.mul(second, s)), tf.add(tf.mul(second, c), tf.mul(first, s))]
  return tf.reshape(tf.stack(rotated, 3), x.shape)
}

/**
 * Rotates the pairs. The fused kernel refuses a time axis longer than the table, which is possible
 * if positions restart in a row.
 */
const rotate = (x: tf.Tensor, positions: tf.Tensor, cos: tf.Tensor, sin: tf.Tensor): tf.Tensor =>
  (x.shape[1]! <= cos.shape[0]! ? runFused('RotaryEmbedding', { x, positions, cos, sin }) : undefined) ??
  rotateByParts(x, positions, cos, sin)

/**
 * Applies rotary position embedding: in each head, the pair `(x_i, x_{i + Dh/2})` is rotated by
 * `position * frequency_i`.
 *
 * Shapes   x `[B, T, H * Dh]` (heads side by side), positions `[B, T]` int32, table `[M, Dh / 2]`
 *          with every position below M; result like x.
 * Cost     one pass; the gradient is the opposite rotation.
 * Errors   throws if x is not of rank 3 or its last axis is not a multiple of `Dh`.
 * Source   Su et al. 2021, arXiv:2104.09864; halves paired as in Hugging Face's Llama and Qwen2.
 */
export const rotary = (x: tf.Tensor, positions: tf.Tensor, table: RotaryTable): tf.Tensor => {
  const headSize = 2 * table.cos.shape[1]!
  if (x.rank !== 3 || x.shape[2]! % headSize !== 0) {
    throw new Error(`rotary: x must be [B, T, heads * ${headSize}], got [${x.shape.join()}]`)
  }
  return tf.customGrad((input, save) => {
    // Casts: tfjs types the arguments of a custom gradient as a mixed list of tensors and the save
    // function.
    ;(save as tf.GradSaveFunc)([positions, table.cos, table.sin])
    const gradFunc = (dy: tf.Tensor, saved: tf.Tensor[]): tf.Tensor =>
      rotate(dy, saved[0]!, saved[1]!, tf.neg(saved[2]!))
    return { value: rotate(input as tf.Tensor, positions, table.cos, table.sin), gradFunc }
  })(x)
}
