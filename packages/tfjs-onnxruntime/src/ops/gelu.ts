import * as tf from '@tensorflow/tfjs-core'

/** A scalar function and its derivative, from x. */
interface Curve {
  readonly value: (x: tf.Tensor) => tf.Tensor
  readonly slope: (x: tf.Tensor) => tf.Tensor
}

const differentiable =
  ({ value, slope }: Curve) =>
  (x: tf.Tensor): tf.Tensor =>
    tf.customGrad((input, save) => {
      const x = input as tf.Tensor // tfjs types the arguments of a custom gradient as tensors or the save function
      ;(save as tf.GradSaveFunc)([x])
      return { value: value(x), gradFunc: (dy: tf.Tensor, saved: tf.Tensor[]) => tf.mul(dy, slope(saved[0]!)) }
    })(x)

/** Computes the share of a standard normal distribution below x. */
const below = (x: tf.Tensor): tf.Tensor => tf.mul(tf.add(tf.erf(tf.mul(x, Math.SQRT1_2)), 1), 0.5)

/**
 * Computes `gelu(x) = x * P(X <= x)` for a standard normal X.
 *
 * Shapes   x of any shape; result the same.
 * Cost     a few passes forward; the gradient keeps only x.
 * Source   Hendrycks and Gimpel 2016, arXiv:1606.08415.
 *
 * @example
 * gelu(tf.tensor1d([0, 1])).dataSync() // [0, 0.8413]
 */
export const gelu: (x: tf.Tensor) => tf.Tensor = differentiable({
  value: (x) => tf.mul(x, below(x)),
  slope: (x) => {
    const density = tf.mul(tf.exp(tf.mul(tf.square(x), -0.5)), 1 / Math.sqrt(2 * Math.PI))
    return tf.add(below(x), tf.mul(x, density))
  },
})

const ROOT = Math.sqrt(2 / Math.PI)
const CUBIC = 0.044715

const bent = (x: tf.Tensor): tf.Tensor => tf.tanh(tf.mul(tf.mul(x, tf.add(tf.mul(tf.square(x), CUBIC), 1)), ROOT))

/**
 * Computes `gelu` by tanh: `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))`, as in GPT-2 and
 * Gemma.
 *
 * Shapes   x of any shape; result the same.
 * Cost     a few passes forward; the gradient keeps only x.
 * Source   Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2.
 *
 * @example
 * geluTanh(tf.tensor1d([0, 1])).dataSync() // [0, 0.8412]
 */
export const geluTanh: (x: tf.Tensor) => tf.Tensor = differentiable({
  value: (x) => tf.mul(tf.mul(x, 0.5), tf.add(bent(x), 1)),
  slope: (x) => {
    const t = bent(x)
    const inner = tf.mul(tf.add(tf.mul(tf.square(x), 3 * CUBIC), 1), ROOT)
    const curved = tf.mul(tf.mul(tf.mul(x, 0.5), tf.sub(1, tf.square(t))), inner)
    return tf.add(tf.mul(tf.add(t, 1), 0.5), curved)
  },
})
