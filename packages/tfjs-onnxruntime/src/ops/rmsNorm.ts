import * as tf from '@tensorflow/tfjs-core'
import { runFused } from './fused.js'

const forward = (x: tf.Tensor, weight: tf.Tensor, epsilon: number): tf.Tensor =>
  runFused('RmsNorm', { x, weight }, { epsilon }) ?? tf.mul(tf.mul(x, inverseRms(x, epsilon)), weight)

const inverseRms = (x: tf.Tensor, epsilon: number): tf.Tensor =>
  tf.rsqrt(tf.add(tf.mean(tf.square(x), -1, true), epsilon))

/**
 * Applies root-mean-square normalization: `y = x * weight / sqrt(mean(x^2) + epsilon)`, the mean
 * over the last axis.
 *
 * Shapes   x `[..., D]`, weight `[D]`; result like x.
 * Cost     one pass forward; the gradient recomputes the norm instead of keeping the normalized
 *          input.
 * Source   Zhang and Sennrich 2019, arXiv:1910.07467, equation 4; epsilon inside the root as in
 *          Llama and Qwen2.
 *
 * @example
 * rmsNorm(tf.tensor2d([[3, 4]]), tf.tensor1d([1, 1]), 0).dataSync() // [0.8485, 1.1314]
 */
export const rmsNorm = (x: tf.Tensor, weight: tf.Tensor, epsilon: number): tf.Tensor =>
  tf.customGrad((input, gain, save) => {
    // Casts: tfjs types the arguments of a custom gradient as a mixed list of tensors and the save
    // function.
    const [x, weight] = [input as tf.Tensor, gain as tf.Tensor]
    ;(save as tf.GradSaveFunc)([x, weight])
    const gradFunc = (dy: tf.Tensor, saved: tf.Tensor[]): tf.Tensor[] => {
      const [x, weight] = [saved[0]!, saved[1]!]
      const scale = inverseRms(x, epsilon)
      const normalized = tf.mul(x, scale)
      const product = tf.mul(dy, normalized)
      const leading = x.shape.map((_, i) => i).slice(0, -1)
      const dWeight = tf.sum(product, leading)
      const inner = tf.mean(tf.mul(product, weight), -1, true)
      const dx = tf.mul(tf.sub(tf.mul(dy, weight), tf.mul(normalized, inner)), scale)
      return [dx, dWeight]
    }
    return { value: forward(x, weight, epsilon), gradFunc }
  })(x, weight)
