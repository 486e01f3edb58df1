/** Estimators of the KL divergence from the log-probabilities of sampled tokens. */
import { stopGradient } from '@tandem-rl/tfjs-onnxruntime'
import * as tf from '@tensorflow/tfjs-core'

/**
 * An estimator. With `d = log pi - log q` for the trained policy and another one: `k1` is `d`,
 * `abs` `|d|`, `k2` `d^2 / 2`, `k3` `e^-d - 1 + d`, `k3-limited` the same with `-d` limited to 20
 * and the value to 10. A trailing `+` means the value of the form with the gradient of k2.
 */
export type KLForm = (typeof KL_FORMS)[number]

export const KL_FORMS = ['k1', 'abs', 'k2', 'k3', 'k3-limited', 'k1+', 'abs+', 'k3+', 'k3-limited+'] as const

const LARGEST_LOG = 20
const LARGEST_VALUE = 10

/** Computes `e^x - 1 - x` for `x = log q - log pi`: never negative. */
const k3Value = (x: tf.Tensor): tf.Tensor => tf.sub(tf.sub(tf.exp(x), 1), x)

/** Computes `|x|` with gradient 0 at 0, where tfjs has -1. */
export const absolute = (x: tf.Tensor): tf.Tensor => tf.mul(x, stopGradient(tf.sign(x)))

const formValue = (form: KLForm, difference: tf.Tensor): tf.Tensor => {
  switch (form) {
    case 'k1':
    case 'k1+':
      return difference
    case 'abs':
    case 'abs+':
      return absolute(difference)
    case 'k2':
      return tf.mul(tf.square(difference), 0.5)
    case 'k3':
    case 'k3+':
      return k3Value(tf.neg(difference))
    case 'k3-limited':
    case 'k3-limited+': {
      const limited = tf.clipByValue(tf.neg(difference), -LARGEST_LOG, LARGEST_LOG)
      return tf.clipByValue(k3Value(limited), -LARGEST_VALUE, LARGEST_VALUE)
    }
  }
}

/**
 * Estimates the divergence `KL(pi || q)` of each token, from tokens that `pi` sampled.
 *
 * k1 is unbiased and of either sign; k2 is biased and never negative; k3 is unbiased and never
 * negative. As a loss, k1 has gradient 1 at any distance; k2 has the gradient of the reverse KL
 * itself.
 *
 * Equation with $d = \log \pi - \log q$: k1 $d$; abs $|d|$; k2 $d^2 / 2$; k3 $e^{-d} - 1 + d$
 * Gradient $\partial k / \partial \log \pi$: k1 $1$; abs $\operatorname{sgn} d$; k2 $d$; k3
 * $1 - e^{-d}$; forms with a trailing `+` have that of k2
 * When     k3 in the loss as most implementations do, k2 or a `+` form for the gradient of the
 *          divergence, k1 for rewards and metrics.
 * Used by  k3: DeepSeekMath (arXiv:2402.03300), TRL `beta`, verl `kl_loss_type=low_var_kl`; k1,
 *          abs, k2: verl `kl`, `abs`, `mse`
 * Shapes   `difference`, `log pi - log q`, has any shape, and so has the result. In nats.
 * Source   Schulman 2020, "Approximating KL divergence"; verl `kl_penalty`, whose `low_var_kl` is
 *          `k3-limited`, for the limits and the `+` forms.
 *
 * @example
 * klTerm('k2', tf.tensor1d([2])).dataSync() // [2]
 */
export const klTerm = (form: KLForm, difference: tf.Tensor): tf.Tensor => {
  const value = formValue(form, difference)
  if (!form.endsWith('+')) return value
  const gradient = formValue('k2', difference)
  return tf.add(gradient, stopGradient(tf.sub(value, gradient)))
}
