import * as tf from '@tensorflow/tfjs-core'
import { runFused } from './fused.js'

const forward = (x: tf.Tensor): tf.Tensor => runFused('Silu', { x }) ?? tf.mul(x, tf.sigmoid(x))

/** Computes d silu / d x = sigmoid * (1 + x - silu), given sigmoid and silu of x. */
const slopeOf = (x: tf.Tensor, probability: tf.Tensor, activated: tf.Tensor): tf.Tensor =>
  tf.mul(probability, tf.add(tf.sub(x, activated), 1))

/**
 * Computes `x * sigmoid(x)`.
 *
 * Shapes   x of any shape; result the same.
 * Cost     one pass forward; the gradient recomputes the sigmoid and keeps only x.
 * Source   Ramachandran et al. 2017, arXiv:1710.05941.
 *
 * @example
 * silu(tf.tensor1d([0, 100])).dataSync() // [0, 100]
 */
export const silu = (x: tf.Tensor): tf.Tensor =>
  tf.customGrad((input, save) => {
    const x = input as tf.Tensor // tfjs types the arguments of a custom gradient as tensors or the save function
    ;(save as tf.GradSaveFunc)([x])
    const gradFunc = (dy: tf.Tensor, saved: tf.Tensor[]): tf.Tensor => {
      const x = saved[0]!
      const probability = tf.sigmoid(x)
      return tf.mul(dy, slopeOf(x, probability, tf.mul(x, probability)))
    }
    return { value: forward(x), gradFunc }
  })(x)

/**
 * Computes the gated activation `silu(gate) * up` with `silu(x) = x * sigmoid(x)`.
 *
 * Shapes   gate, up `[..., F]`; result the same.
 * Cost     two passes forward; the gradient recomputes the sigmoid and keeps only the two inputs.
 * Source   Shazeer 2020, arXiv:2002.05202, SwiGLU.
 *
 * @example
 * swiGlu(tf.tensor1d([0, 100]), tf.tensor1d([5, 2])).dataSync() // [0, 200]
 */
export const swiGlu = (gate: tf.Tensor, up: tf.Tensor): tf.Tensor =>
  tf.customGrad((first, second, save) => {
    // Casts: tfjs types the arguments of a custom gradient as a mixed list of tensors and the save
    // function.
    const [gate, up] = [first as tf.Tensor, second as tf.Tensor]
    ;(save as tf.GradSaveFunc)([gate, up])
    const gradFunc = (dy: tf.Tensor, saved: tf.Tensor[]): tf.Tensor[] => {
      const [gate, up] = [saved[0]!, saved[1]!]
      const probability = tf.sigmoid(gate)
      const activated = tf.mul(gate, probability)
      return [tf.mul(tf.mul(dy, up), slopeOf(gate, probability, activated)), tf.mul(dy, activated)]
    }
    return { value: tf.mul(forward(gate), up), gradFunc }
  })(gate, up)
