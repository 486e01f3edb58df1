import * as tf from '@tensorflow/tfjs-core'
import { runFused } from './fused.js'

/**
 * One new position of each row, and the cache. Axes: S rows, Q query heads, K key-value heads, C
 * positions, H head size. Position 0 of the cache is reserved for the new position: its key and
 * value there are zero.
 */
export interface DecodeAttentionInput {
  /** `[S, Q, 1, H]`; Q is a multiple of K: neighboring query heads share a key-value head. */
  readonly queries: tf.Tensor
  /** `[S, K, 1, H]` */
  readonly keys: tf.Tensor
  /** `[S, K, 1, H]` */
  readonly values: tf.Tensor
  /** `[S, K, C, H]` */
  readonly past: { readonly keys: tf.Tensor; readonly values: tf.Tensor }
  /**
   * Added to the scores, `[S, 1, 1, C]`: 0 where attention is allowed and at position 0, `MASKED`
   * elsewhere.
   */
  readonly bias: tf.Tensor
  /** `[1, 1, 1, C]`: 1 at position 0, 0 elsewhere. */
  readonly self: tf.Tensor
}

export interface DecodeAttentionOptions {
  readonly scale: number
  /** Limits scores to `cap * tanh(score / cap)` before the bias; null does not limit them. */
  readonly softCap: number | null
}

const byParts = (input: DecodeAttentionInput, { scale, softCap }: DecodeAttentionOptions): tf.Tensor => {
  const [s, q, , h] = input.queries.shape as [number, number, number, number] // the layout of this file
  const k = input.keys.shape[1]!
  const grouped = tf.reshape(input.queries, [s, k, q / k, h])
  const own = tf.mul(tf.sum(tf.mul(grouped, input.keys), -1, true), input.self)
  const cached = tf.matMul(grouped, input.past.keys, false, true)
  const scores = tf.mul(tf.add(cached, own), scale)
  const capped = softCap === null ? scores : tf.mul(tf.tanh(tf.div(scores, softCap)), softCap)
  const weights = tf.softmax(tf.add(capped, input.bias))
  const first = tf.sum(tf.mul(weights, input.self), -1, true)
  return tf.reshape(tf.add(tf.matMul(weights, input.past.values), tf.mul(first, input.values)), [s, q, 1, h])
}

/**
 * Computes attention of one new position of each row over its cached positions and itself, as in a
 * decoding step. The cache is read once and never copied: the position's own score is put into the
 * reserved position through the bias, and its value is added afterwards with the resulting weight.
 *
 * Shapes   see `DecodeAttentionInput`; result `[S, Q, 1, H]`.
 * Errors   throws if shapes do not fit, naming them.
 * Effects  none. Not differentiable: training uses `attention`.
 * Cost     one pass over the cache: the time is that of reading it.
 * Source   Vaswani et al. 2017, arXiv:1706.03762, section 3.2; ONNX operator Attention, version 23.
 */
export const decodeAttention = (input: DecodeAttentionInput, options: DecodeAttentionOptions): tf.Tensor => {
  const { queries, keys, values, past, bias, self } = input
  const [s, q, , h] = queries.shape
  const [, k, c] = past.keys.shape
  const expected = [
    [queries, [s, q, 1, h]],
    [keys, [s, k, 1, h]],
    [values, [s, k, 1, h]],
    [past.keys, [s, k, c, h]],
    [past.values, [s, k, c, h]],
  ] as const
  if (q! % k! !== 0 || expected.some(([tensor, shape]) => tensor.shape.join() !== shape.join())) {
    const shapes = [queries, keys, values, past.keys, past.values, bias].map((x) => `[${x.shape.join()}]`)
    throw new Error(
      `decodeAttention: queries, keys, values, past keys, past values and bias ${shapes.join(' ')} do not fit`,
    )
  }
  const inputs = { queries, keys, values, bias, self, pastKeys: past.keys, pastValues: past.values }
  // The native operation masks before it applies the cap, which leaves masked positions a weight of
  // exp(-cap).
  const fused = options.softCap === null ? runFused('DecodeAttention', inputs, { scale: options.scale }) : undefined
  return fused ?? byParts(input, options)
}
