import * as tf from '@tensorflow/tfjs-core'
import { runFused } from './fused.js'

/**
 * New positions with their keys and values, and those of the past. Axes: B rows, Q query heads, K
 * key-value heads, T new and C past positions, H head size.
 */
export interface CachedAttentionInput {
  /** `[B, Q, T, H]`; Q is a multiple of K: neighboring query heads share a key-value head. */
  readonly queries: tf.Tensor
  /** `[B, K, T, H]` */
  readonly keys: tf.Tensor
  /** `[B, K, T, H]` */
  readonly values: tf.Tensor
  /**
   * Added to the scores, `[B or 1, 1, T, C + T]`: 0 where attention is allowed, `MASKED` where it
   * is not.
   */
  readonly bias: tf.Tensor
  readonly past?: { readonly keys: tf.Tensor; readonly values: tf.Tensor }
}

export interface CachedAttentionOptions {
  readonly scale: number
  /** Limits scores to `cap * tanh(score / cap)` before the bias; null does not limit them. */
  readonly softCap: number | null
}

const byParts = (input: CachedAttentionInput, { scale, softCap }: CachedAttentionOptions): tf.Tensor => {
  const [b, q, t, h] = input.queries.shape as [number, number, number, number] // the layout of this file
  const k = input.keys.shape[1]!
  const { past } = input
  const keys = past === undefined ? input.keys : tf.concat([past.keys, input.keys], 2)
  const values = past === undefined ? input.values : tf.concat([past.values, input.values], 2)
  const rows = tf.reshape(input.queries, [b, k, (q / k) * t, h])
  const scores = tf.reshape(tf.mul(tf.matMul(rows, keys, false, true), scale), [b, q, t, -1])
  const capped = softCap === null ? scores : tf.mul(tf.tanh(tf.div(scores, softCap)), softCap)
  const weights = tf.softmax(tf.add(capped, input.bias))
  return tf.reshape(tf.matMul(tf.reshape(weights, [b, k, (q / k) * t, -1]), values), [b, q, t, h])
}

/**
 * Computes attention of new positions over a key-value cache and themselves, as in the prefill of a
 * prompt.
 *
 * Shapes   see `CachedAttentionInput`; result `[B, Q, T, H]`.
 * Errors   throws if shapes do not fit, naming them.
 * Effects  none. Not differentiable: training uses `attention`.
 * Cost     reads the cache once and copies it once; one native operation on the onnxruntime backend
 *          without a cap.
 * Source   Vaswani et al. 2017, arXiv:1706.03762, section 3.2; ONNX operator Attention, version 23.
 */
export const cachedAttention = (input: CachedAttentionInput, options: CachedAttentionOptions): tf.Tensor => {
  const { queries, keys, values, bias, past } = input
  const [b, q, t, h] = queries.shape
  const k = keys.shape[1]!
  const fits =
    queries.rank === 4 &&
    keys.shape.join() === [b, k, t, h].join() &&
    q! % k === 0 &&
    values.shape.join() === keys.shape.join()
  if (!fits || bias.rank !== 4 || (past !== undefined && past.keys.shape.join() !== past.values.shape.join())) {
    const shapes = [queries, keys, values, bias, past?.keys, past?.values].map((x) => `[${x?.shape.join() ?? ''}]`)
    throw new Error(`cachedAttention: queries, keys, values, bias and past ${shapes.join(' ')} do not fit`)
  }
  const inputs = { queries, keys, values, bias, ...(past && { pastKeys: past.keys, pastValues: past.values }) }
  // The native operation masks before it applies the cap, which leaves masked positions a weight of
  // exp(-cap).
  const fused = options.softCap === null ? runFused('CachedAttention', inputs, { scale: options.scale }) : undefined
  return fused ?? byParts(input, options)
}
