import * as tf from '@tensorflow/tfjs-core'
import { runFused } from './fused.js'

interface Statistics {
  readonly mean: tf.Tensor
  /** `1 / sqrt(variance + epsilon)` */
  readonly scale: tf.Tensor
}

const statistics = (x: tf.Tensor, epsilon: number): Statistics => {
  const mean = tf.mean(x, -1, true)
  const variance = tf.mean(tf.square(tf.sub(x, mean)), -1, true)
  return { mean, scale: tf.rsqrt(tf.add(variance, epsilon)) }
}

const forward = (x: tf.Tensor, weight: tf.Tensor, bias: tf.Tensor, epsilon: number): tf.Tensor => {
  const fused = runFused('LayerNorm', { x, weight, bias }, { epsilon })
  if (fused !== undefined) return fused
  const { mean, scale } = statistics(x, epsilon)
  return tf.add(tf.mul(tf.mul(tf.sub(x, mean), scale), weight), bias)
}

/** Learned factors and offsets, `[D]` each. */
export interface LayerNormParams {
  readonly weight: tf.Tensor
  readonly bias: tf.Tensor
}

/**
 * Applies layer normalization: `y = (x - mean) / sqrt(variance + epsilon) * weight + bias`, mean
 * and variance over the last axis.
 *
 * Shapes   x `[..., D]`, weight and bias `[D]`; result like x.
 * Cost     one pass forward; the gradient recomputes mean and variance instead of keeping the
 *          normalized input.
 * Source   Ba et al. 2016, arXiv:1607.06450, equation 4; epsilon inside the root as in GPT-2.
 *
 * @example
 * layerNorm(tf.tensor2d([[1, 3]]), { weight: tf.tensor1d([1, 1]), bias: tf.tensor1d([0, 5]) }, 0).dataSync() // [-1, 6]
 */
export const layerNorm = (x: tf.Tensor, params: LayerNormParams, epsilon: number): tf.Tensor =>
  tf.customGrad((input, gain, offset, save) => {
    // Casts: tfjs types the arguments of a custom gradient as a mixed list of tensors and the save
    // function.
    const [x, weight, bias] = [input as tf.Tensor, gain as tf.Tensor, offset as tf.Tensor]
    ;(save as tf.GradSaveFunc)([x, weight])
    const gradFunc = (dy: tf.Tensor, saved: tf.Tensor[]): tf.Tensor[] => {
      const [x, weight] = [saved[0]!, saved[1]!]
      const { mean, scale } = statistics(x, epsilon)
      const normalized = tf.mul(tf.sub(x, mean), scale)
      const leading = x.shape.map((_, i) => i).slice(0, -1)
      const weighted = tf.mul(dy, weight)
      const average = tf.mean(weighted, -1, true)
      const inner = tf.mean(tf.mul(weighted, normalized), -1, true)
      const dx = tf.mul(tf.sub(tf.sub(weighted, average), tf.mul(normalized, inner)), scale)
      return [dx, tf.sum(tf.mul(dy, normalized), leading), tf.sum(dy, leading)]
    }
    return { value: forward(x, weight, bias, epsilon), gradFunc }
  })(x, params.weight, params.bias)
