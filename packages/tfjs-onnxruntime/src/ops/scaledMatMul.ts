import * as tf from '@tensorflow/tfjs-core'
import { runFused } from './fused.js'

export interface ScaledMatMulOptions {
  readonly alpha?: number
  readonly transposeA?: boolean
  readonly transposeB?: boolean
}

/**
 * Computes `alpha * op(a) op(b)` over the last two axes, where `op` transposes or not; leading axes
 * are equal.
 *
 * Shapes   a `[..., M, K]`, b `[..., K, N]` (before transposing); result `[..., M, N]`. Ranks are
 *          equal.
 * Effects  none. Not differentiable by itself: it is the building block of operations with
 *          gradients of their own.
 */
export const scaledMatMul = (a: tf.Tensor, b: tf.Tensor, options: ScaledMatMulOptions = {}): tf.Tensor => {
  const { alpha = 1, transposeA = false, transposeB = false } = options
  const fused = runFused('ScaledMatMul', { a, b }, { alpha, transposeA, transposeB })
  if (fused !== undefined) return fused
  const product = tf.matMul(a, b, transposeA, transposeB)
  return alpha === 1 ? product : tf.mul(product, alpha)
}
