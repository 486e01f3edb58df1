import * as tf from '@tensorflow/tfjs'

/**
 * Log-probability of one token at each position: `logits[n, ids[n]] - logsumexp(logits[n])`.
 *
 * Shapes   logits `[N, V]`, ids `[N]` int32 with every id in `[0, V)`; result `[N]`. Units: nats.
 * Cost     keeps the exponentials `[N, V]` for the gradient, `one-hot(ids) - softmax(logits)` times the incoming one.
 *
 * @example
 * gatherLogProbs(tf.tensor2d([[0, 0]]), tf.tensor1d([1], 'int32')).dataSync() // [-0.6931]
 */
export const gatherLogProbs = (logits: tf.Tensor, ids: tf.Tensor): tf.Tensor => {
  const [rows, vocabulary] = logits.shape as [number, number] // checked below
  if (logits.rank !== 2 || ids.rank !== 1 || ids.shape[0] !== rows) {
    throw new Error(
      `gatherLogProbs: logits [${logits.shape.join()}] and ids [${ids.shape.join()}] do not fit [N, V] and [N]`,
    )
  }
  if (rows * vocabulary > 2 ** 31 - 1) {
    throw new RangeError(
      `gatherLogProbs: ${rows} x ${vocabulary} logits are more than int32 indices reach; use fewer rows`,
    )
  }
  return tf.customGrad((input, save) => {
    const x = input as tf.Tensor // tfjs types the arguments of a custom gradient as tensors or the save function
    const highest = tf.max(x, -1, true)
    const exponentials = tf.exp(tf.sub(x, highest))
    const sums = tf.sum(exponentials, -1, true)
    const flat = tf.reshape(x, [rows * vocabulary])
    const places = tf.add(tf.mul(tf.range(0, rows, 1, 'int32'), tf.scalar(vocabulary, 'int32')), ids)
    const chosen = tf.reshape(tf.gather(flat, tf.cast(places, 'int32')), [rows, 1])
    ;(save as tf.GradSaveFunc)([exponentials, sums, ids])
    const gradFunc = (dy: tf.Tensor, saved: tf.Tensor[]): tf.Tensor => {
      const [exponentials, sums, ids] = [saved[0]!, saved[1]!, saved[2]!]
      const column = tf.reshape(dy, [rows, 1])
      const hits = tf.mul(tf.oneHot(tf.cast(ids, 'int32') as tf.Tensor1D, vocabulary, 1, 0, 'float32'), column)
      return tf.sub(hits, tf.mul(exponentials, tf.div(column, sums)))
    }
    const value = tf.reshape(tf.sub(tf.sub(chosen, highest), tf.log(sums)), [rows])
    return { value, gradFunc }
  })(logits)
}

/**
 * Entropy of each row's distribution: `-sum_v p_v log p_v` with `p = softmax(logits)`.
 *
 * Shapes   logits `[N, V]`; result `[N]`. Units: nats. Differentiable.
 *
 * @example
 * entropy(tf.tensor2d([[0, 0]])).dataSync() // [0.6931]
 */
export const entropy = (logits: tf.Tensor): tf.Tensor => {
  const logProbs = tf.logSoftmax(logits)
  return tf.neg(tf.sum(tf.mul(tf.exp(logProbs), logProbs), -1))
}
