import * as tf from '@tensorflow/tfjs-core'
import { rowMax } from './rowMax.js'

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

/** A softmax, with the numbers from which logarithms of probabilities are made. */
interface Softmax {
  readonly highest: tf.Tensor
  readonly probabilities: tf.Tensor
  /** The logarithm of the sum of `exp(x - highest)`. */
  readonly logSum: tf.Tensor
}

const softmaxOf = (x: tf.Tensor): Softmax => {
  const probabilities = tf.softmax(x)
  return {
    highest: rowMax(x),
    probabilities,
    logSum: tf.neg(tf.log(rowMax(probabilities))), // the highest probability is exp(0) divided by the sum
  }
}

/** Computes `logits[n, ids[n]] - logsumexp(logits[n])`, `[N, 1]`. */
const chosenLogProbs = (x: tf.Tensor, ids: tf.Tensor, { highest, logSum }: Softmax): tf.Tensor => {
  const [rows, vocabulary] = x.shape as [number, number] // checked by the callers
  const flat = tf.reshape(x, [rows * vocabulary])
  const places = tf.add(tf.mul(tf.range(0, rows, 1, 'int32'), tf.scalar(vocabulary, 'int32')), ids)
  const chosen = tf.reshape(tf.gather(flat, tf.cast(places, 'int32')), [rows, 1])
  return tf.sub(tf.sub(chosen, highest), logSum)
}

/**
 * Computes the gradient of `chosenLogProbs` for a column of incoming gradients: `(one-hot(ids) -
 * softmax(logits)) * column`.
 */
const chosenGradient = (probabilities: tf.Tensor, ids: tf.Tensor, column: tf.Tensor): tf.Tensor => {
  // Not `oneHot`, whose float32 form is wrong on the wasm backend of tfjs 4.22.
  const places = tf.range(0, probabilities.shape[1]!, 1, 'int32')
  const hits = tf.cast(tf.equal(tf.expandDims(ids, 1), tf.expandDims(places, 0)), 'float32')
  return tf.mul(tf.sub(hits, probabilities), column)
}

/**
 * Computes the log-probability of one token at each position: `logits[n, ids[n]] -
 * logsumexp(logits[n])`.
 *
 * Shapes   logits `[N, V]`, ids `[N]` int32 with every id in `[0, V)`; result `[N]`. Units: nats.
 * Cost     keeps the probabilities `[N, V]` for the gradient, which is
 *          `one-hot(ids) - softmax(logits)` times the incoming gradient.
 *
 * @example
 * gatherLogProbs(tf.tensor2d([[0, 0]]), tf.tensor1d([1], 'int32')).dataSync() // [-0.6931]
 */
export const gatherLogProbs = (logits: tf.Tensor, ids: tf.Tensor): tf.Tensor => {
  const [rows] = checkShapes('gatherLogProbs', logits, ids)
  return tf.customGrad((input, save) => {
    const x = input as tf.Tensor // tfjs types the arguments of a custom gradient as tensors or the save function
    const softmax = softmaxOf(x)
    ;(save as tf.GradSaveFunc)([softmax.probabilities, ids])
    const gradFunc = (dy: tf.Tensor, saved: tf.Tensor[]): tf.Tensor =>
      chosenGradient(saved[0]!, saved[1]!, tf.reshape(dy, [rows, 1]))
    return { value: tf.reshape(chosenLogProbs(x, ids, softmax), [rows]), gradFunc }
  })(logits)
}

/**
 * Computes `gatherLogProbs` and `entropy` together, from one softmax. The
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
    const softmax = softmaxOf(x)
    const { highest, probabilities, logSum } = softmax
    const mean = tf.sum(tf.mul(probabilities, tf.sub(x, highest)), -1, true)
    const spread = tf.sub(logSum, mean)
    ;(save as tf.GradSaveFunc)([probabilities, ids, x, highest, logSum, spread])
    const gradFunc = (dy: tf.Tensor, saved: tf.Tensor[]): tf.Tensor => {
      const [probabilities, ids, x, highest, logSum, spread] = saved as [
        tf.Tensor,
        tf.Tensor,
        tf.Tensor,
        tf.Tensor,
        tf.Tensor,
        tf.Tensor,
      ] // as saved
      const column = (i: number): tf.Tensor => tf.slice(dy, [0, i], [rows, 1])
      const chosen = chosenGradient(probabilities, ids, column(0))
      if (options.entropy !== 'differentiable') return chosen
      // dH / dx = -p (log p + H)
      const logs = tf.sub(tf.sub(x, highest), logSum)
      return tf.sub(chosen, tf.mul(tf.mul(probabilities, tf.add(logs, spread)), column(1)))
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
