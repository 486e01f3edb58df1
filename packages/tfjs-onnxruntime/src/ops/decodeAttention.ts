import * as tf from '@tensorflow/tfjs-core'
import { runFused } from './fused.js'

/**
 * Rows with caches of one capacity. Axes: S rows, K key-value heads, R query heads of each, C
 * positions, H head size. Position 0 of a cache is reserved for the new position: its key and value
 * there are zero.
 */
export interface DecodeLane {
  /** `[S]` int32: places of the rows among all. Absent if they are all rows, in order. */
  readonly rows?: tf.Tensor
  /** `[S, K, 1, C, H]` */
  readonly keys: tf.Tensor
  /** `[S, K, 1, C, H]` */
  readonly values: tf.Tensor
  /**
   * Added to the scores, `[S, 1, 1, 1, C]`: 0 where attention is allowed and at position 0,
   * `MASKED` elsewhere.
   */
  readonly bias: tf.Tensor
  /** `[1, 1, 1, 1, C]`: 1 at position 0, 0 elsewhere. */
  readonly self: tf.Tensor
}

/** One new position of each of N rows, and the caches of lanes, which follow one another. */
export interface DecodeAttentionInput {
  /**
   * `[N, K, R, 1, H]`, multiplied by the scale of the products: neighboring query heads share a
   * key-value head.
   */
  readonly queries: tf.Tensor
  /** `[N, K, 1, 1, H]` */
  readonly keys: tf.Tensor
  /** `[N, K, 1, 1, H]` */
  readonly values: tf.Tensor
  readonly lanes: readonly DecodeLane[]
}

type Five = [number, number, number, number, number]

/**
 * Multiplies `[S, K, R, 1, X]` by `[S, K, 1, X, Y]`, or by `[S, K, 1, Y, X]` transposed. Every
 * product has one row: onnxruntime has faster kernels for one row than for several.
 */
const rowProducts = (
  rows: tf.Tensor,
  matrices: tf.Tensor,
  { transposeB = false }: { readonly transposeB?: boolean } = {},
): tf.Tensor => {
  const fused = runFused('ScaledMatMul', { a: rows, b: matrices }, { alpha: 1, transposeA: false, transposeB })
  if (fused !== undefined) return fused
  const [s, k, r, , x] = rows.shape as Five // the layout of this file
  const [, , , first, second] = matrices.shape as Five
  const products = tf.matMul(
    tf.reshape(rows, [s, k, r, x]),
    tf.reshape(matrices, [s, k, first, second]),
    false,
    transposeB,
  )
  return tf.reshape(products, [s, k, r, 1, transposeB ? first : second])
}

const joined = (parts: readonly tf.Tensor[]): tf.Tensor => (parts.length === 1 ? parts[0]! : tf.concat([...parts], 0))

const checkShapes = ({ queries, keys, values, lanes }: DecodeAttentionInput): void => {
  const [n, k, , one, h] = queries.shape
  const fits = (tensor: tf.Tensor, ...shape: readonly unknown[]): boolean => tensor.shape.join() === shape.join()
  const isWrong =
    queries.rank !== 5 || one !== 1 || lanes.length === 0 || !fits(keys, n, k, 1, 1, h) || !fits(values, n, k, 1, 1, h)
  const wrong = lanes.findIndex((lane) => {
    const rows = lane.rows === undefined ? n : lane.rows.shape[0]
    const places = lane.keys.shape[3]
    const cached = [rows, k, 1, places, h]
    const isCache = fits(lane.keys, ...cached) && fits(lane.values, ...cached)
    return !(isCache && fits(lane.bias, rows, 1, 1, 1, places) && fits(lane.self, 1, 1, 1, 1, places))
  })
  if (!isWrong && wrong < 0) return
  const list = (...tensors: readonly tf.Tensor[]): string => tensors.map((x) => `[${x.shape.join()}]`).join(' ')
  const lane = lanes[Math.max(0, wrong)]
  const cache = lane && ` and lane ${Math.max(0, wrong)} with ${list(lane.keys, lane.values, lane.bias, lane.self)}`
  throw new Error(`decodeAttention: queries, keys and values ${list(queries, keys, values)}${cache ?? ''} do not fit`)
}

/**
 * Computes attention of one new position of each row over its cached positions and itself, as in a
 * decoding step. Each cache is read once and never copied: the position's own score is put into the
 * reserved position, and its value is added afterwards with the resulting weight. `softCap` limits
 * scores to `cap * tanh(score / cap)` before the bias; null does not limit them.
 *
 * Shapes   see `DecodeAttentionInput`; result `[N, K, R, 1, H]`, the rows of lane after lane.
 * Errors   throws if shapes do not fit, naming them.
 * Effects  none. Not differentiable: training uses `attention`.
 * Cost     one pass over the caches: the time is that of reading them.
 * Source   Vaswani et al. 2017, arXiv:1706.03762, section 3.2.
 */
export const decodeAttention = (input: DecodeAttentionInput, softCap: number | null): tf.Tensor => {
  checkShapes(input)
  const { queries, keys, values, lanes } = input
  const own = tf.sum(tf.mul(queries, keys), -1, true)
  const parts = lanes.map((lane) => {
    const pick = (x: tf.Tensor): tf.Tensor => (lane.rows === undefined ? x : tf.gather(x, lane.rows as tf.Tensor1D)) // [S] by contract
    const scores = tf.add(rowProducts(pick(queries), lane.keys, { transposeB: true }), tf.mul(pick(own), lane.self))
    const capped = softCap === null ? scores : tf.mul(tf.tanh(tf.div(scores, softCap)), softCap)
    const weights = tf.softmax(tf.add(capped, lane.bias))
    return {
      mixed: rowProducts(weights, lane.values),
      first: tf.gather(weights, tf.tensor1d([0], 'int32'), 4),
    }
  })
  const mixed = joined(parts.map((part) => part.mixed))
  const first = joined(parts.map((part) => part.first))
  return tf.add(mixed, tf.mul(first, values))
}
