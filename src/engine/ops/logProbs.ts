import * as tf from '@tensorflow/tfjs-core'

/** The scores of each token, `[N]` each, in nats. */
export interface TokenScores {
  readonly logProbs: tf.Tensor
  readonly entropy: tf.Tensor
}

export interface TokenScoresOptions {
  /**
   * With `differentiable`, gradients flow through the entropy. A metric costs nothing in the
   * backward pass. Default `metric`.
   */
  readonly entropy?: 'metric' | 'differentiable'
}

const checkShapes = (name: string, logits: tf.Tensor, ids: tf.Tensor): readonly [number, number] => {
  const [rows, vocabulary] = logits.shape as [number, number] // checked here
  if (logits.rank !== 2 || ids.rank !== 1 || ids.shape[0] !== rows) {
    throw new Error(`${name}: logits [${logits.shape.join()}] and ids [${ids.shape.join()}] do not fit [N, V] and [N]`)
  }
  if (rows * vocabulary > 2 ** 31 - 1) {
    throw new RangeError(`${name}: ${rows} x ${vocabulary} logits are more than int32 indices reach; use fewer rows`)
  }
  return [rows, vocabulary]
}

interface Softmax {
  readonly highest: tf.Tensor
  readonly exponentials: tf.Tensor
  readonly sums: tf.Tensor
}

const exponentiate = (x: tf.Tensor): Softmax => {
  const highest = tf.max(x, -1, true)
  const exponentials = tf.exp(tf.sub(x, highest))
  return { highest, exponentials, sums: tf.sum(exponentials, -1, true) }
}

/** Computes `logits[n, ids[n]] - logsumexp(logits[n])`, `[N, 1]`. */
const chosenLogProbs = (x: tf.Tensor, ids: tf.Tensor, { highest, sums }: Softmax): tf.Tensor => {
  const [rows, vocabulary] = x.shape as [number, number] // checked by the callers
  const flat = tf.reshape(x, [rows * vocabulary])
  const places = tf.add(tf.mul(tf.range(0, rows, 1, 'int32'), tf.scalar(vocabulary, 'int32')), ids)
  const chosen = tf.reshape(tf.gather(flat, tf.cast(places, 'int32')), [rows, 1])
  return tf.sub(tf.sub(chosen, highest), tf.log(sums))
}

/**
 * Computes the gradient of `chosenLogProbs` for a column of incoming gradients: `(one-hot(ids) -
 * softmax(logits)) * column`.
 */
const chosenGradient = (
  exponentials: tf.Tensor,
  sums: tf.Tensor,
  hit: { readonly ids: tf.Tensor; readonly column: tf.Tensor },
): tf.Tensor => {
  const { ids, column } = hit
  // Not `oneHot`, whose float32 form is wrong on the wasm backend of tfjs 4.22.
  const places = tf.range(0, exponentials.shape[1]!, 1, 'int32')
  const hits = tf.cast(tf.equal(tf.expandDims(ids, 1), tf.expandDims(places, 0)), 'float32')
  return tf.sub(tf.mul(hits, column), tf.mul(exponentials, tf.div(column, sums)))
}

/**
 * Computes the log-probability of one token at each position: `logits[n, ids[n]] -
 * logsumexp(logits[n])`.
 *
 * Shapes   logits `[N, V]`, ids `[N]` int32 with every id in `[0, V)`; result `[N]`. Units: nats.
 * Cost     keeps the exponentials `[N, V]` for the gradient, `one-hot(ids) - softmax(logits)` times
 *          the incoming gradient.
 *
 * @example
 * gatherLogProbs(tf.tensor2d([[0, 0]]), tf.tensor1d([1], 'int32')).dataSync() // [-0.6931]
 */
export const gatherLogProbs = (logits: tf.Tensor, ids: tf.Tensor): tf.Tensor => {
  const [rows] = checkShapes('gatherLogProbs', logits, ids)
  return tf.customGrad((input, save) => {
    const x = input as tf.Tensor // tfjs types the arguments of a custom gradient as tensors or the save function
    const softmax = exponentiate(x)
    ;(save as tf.GradSaveFunc)([softmax.exponentials, softmax.sums, ids])
    const gradFunc = (dy: tf.Tensor, saved: tf.Tensor[]): tf.Tensor =>
      chosenGradient(saved[0]!, saved[1]!, { ids: saved[2]!, column: tf.reshape(dy, [rows, 1]) })
    return { value: tf.reshape(chosenLogProbs(x, ids, softmax), [rows]), gradFunc }
  })(logits)
}

/**
 * Computes `gatherLogProbs` and `entropy` together, from one set of exponentials. The
 * log-probabilities are those of `gatherLogProbs`, bit for bit.
 *
 * Shapes   logits `[N, V]`, ids `[N]` int32 with every id in `[0, V)`; results `[N]`. Units: nats.
 * Cost     as `gatherLogProbs`, plus one pass over `[N, V]`.
 *
 * @example
 * tokenScores(tf.tensor2d([[0, 0]]), tf.tensor1d([1], 'int32')).entropy.dataSync() // [0.6931]
 */
export const tokenScores = (logits: tf.Tensor, ids: tf.Tensor, options: TokenScoresOptions = {}): TokenScores => {
  const [rows] = checkShapes('tokenScores', logits, ids)
  const both = tf.customGrad((input, save) => {
    const x = input as tf.Tensor // as in `gatherLogProbs`
    const softmax = exponentiate(x)
    const { highest, exponentials, sums } = softmax
    const mean = tf.div(tf.sum(tf.mul(exponentials, tf.sub(x, highest)), -1, true), sums)
    const spread = tf.sub(tf.log(sums), mean)
    ;(save as tf.GradSaveFunc)([exponentials, sums, ids, x, highest, spread])
    const gradFunc = (dy: tf.Tensor, saved: tf.Tensor[]): tf.Tensor => {
      const [exponentials, sums, ids, x, highest, spread] = saved as [
        tf.Tensor,
        tf.Tensor,
        tf.Tensor,
        tf.Tensor,
        tf.Tensor,
        tf.Tensor,
      ] // as saved
      const column = (i: number): tf.Tensor => tf.slice(dy, [0, i], [rows, 1])
      const chosen = chosenGradient(exponentials, sums, { ids, column: column(0) })
      if (options.entropy !== 'differentiable') return chosen
      // dH / dx = -p (log p + H)
      const logs = tf.sub(tf.sub(x, highest), tf.log(sums))
      return tf.sub(chosen, tf.mul(tf.mul(exponentials, tf.add(logs, spread)), tf.div(column(1), sums)))
    }
    return { value: tf.concat([chosenLogProbs(x, ids, softmax), spread], 1), gradFunc }
  })(logits)
  const part = (i: number): tf.Tensor => tf.reshape(tf.slice(both, [0, i], [rows, 1]), [rows])
  return { logProbs: part(0), entropy: part(1) }
}

/**
 * Computes the entropy of each row's distribution: `-sum_v p_v log p_v` with `p = softmax(logits)`.
 *
 * Equation $H = -\sum_v p_v \log p_v$
 * Gradient $\partial H / \partial x_v = -p_v (\log p_v + H)$ with respect to the logit of v
 * When     as a bonus against early collapse, with a small coefficient; always as a metric.
 * Used by  `policyLoss`; verl `entropy_coeff`; TorchRL `entropy_coeff`
 * Shapes   logits `[N, V]`; result `[N]`. Units: nats. Differentiable.
 *
 * @example
 * entropy(tf.tensor2d([[0, 0]])).dataSync() // [0.6931]
 */
export const entropy = (logits: tf.Tensor): tf.Tensor => {
  const logProbs = tf.logSoftmax(logits)
  return tf.neg(tf.sum(tf.mul(tf.exp(logProbs), logProbs), -1))
}
