import * as tf from '@tensorflow/tfjs'
import { runFused } from './fused.js'

const silu = (x: tf.Tensor): tf.Tensor => runFused('Silu', { x }) ?? tf.mul(x, tf.sigmoid(x))

/**
 * Gated activation `silu(gate) * up` with `silu(x) = x * sigmoid(x)`.
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
    // Casts: tfjs types the arguments of a custom gradient as a mixed list of tensors and the save function.
    const [gate, up] = [first as tf.Tensor, second as tf.Tensor]
    ;(save as tf.GradSaveFunc)([gate, up])
    const gradFunc = (dy: tf.Tensor, saved: tf.Tensor[]): tf.Tensor[] => {
      const [gate, up] = [saved[0]!, saved[1]!]
      const probability = tf.sigmoid(gate)
      const activated = tf.mul(gate, probability)
      // d silu / d gate = sigmoid * (1 + gate - silu)
      const slope = tf.mul(probability, tf.add(tf.sub(gate, activated), 1))
      return [tf.mul(tf.mul(dy, up), slope), tf.mul(dy, activated)]
    }
    return { value: tf.mul(silu(gate), up), gradFunc }
  })(gate, up)
