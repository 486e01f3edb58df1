import { checkOptions } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import type { NamedTensors } from '../../data/weights.js'
import { ADAM_W_OPTIONS } from '../optionKinds.js'
import { configured, type RateOptions } from './learningRate.js'
import { checkNumbers, decayed, mapNamed, type Optimizer } from './optimizer.js'

export interface AdamWOptions extends RateOptions {
  /** Decay of the mean of gradients. Default 0.9. */
  readonly beta1?: number
  /** Decay of the mean of squared gradients. Default 0.999. */
  readonly beta2?: number
  /** Default 1e-8. */
  readonly epsilon?: number
  /** Default 0. */
  readonly weightDecay?: number
}

export interface AdamWState {
  /** The number of updates so far, a scalar. */
  readonly step: tf.Tensor
  readonly mean: NamedTensors
  readonly square: NamedTensors
}

/**
 * Creates Adam with decoupled weight decay.
 *
 * `m <- b1 m + (1 - b1) g`, `v <- b2 v + (1 - b2) g^2`, `p <- p (1 - lr wd) - lr (m / (1 - b1^t)) /
 * (sqrt(v / (1 - b2^t)) + eps)` with t counted from 1.
 *
 * Equation $m \leftarrow \beta_1 m + (1 - \beta_1) g$,
 *          $v \leftarrow \beta_2 v + (1 - \beta_2) g^2$, $p \leftarrow p (1 - \eta \lambda) - \eta
 *          \frac{m / (1 - \beta_1^t)}{\sqrt{v / (1 - \beta_2^t)} + \epsilon}$
 * When     the first choice.
 * Used by  nearly all language models; `torch.optim.AdamW`
 * Source   Loshchilov and Hutter 2019, arXiv:1711.05101, algorithm 2; the arithmetic of
 *          `torch.optim.AdamW`.
 */
export const adamW = (options: AdamWOptions = {}): Optimizer<AdamWState> => {
  checkOptions('adamW', options, ADAM_W_OPTIONS)
  const { beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weightDecay = 0 } = options
  checkNumbers('adamW', { share: { beta1, beta2 }, positive: { epsilon, weightDecay } })
  return configured<AdamWState>(
    {
      name: 'adamW',
      init: (params) => ({
        step: tf.scalar(0),
        mean: mapNamed(params, (p) => tf.zerosLike(p!)),
        square: mapNamed(params, (p) => tf.zerosLike(p!)),
      }),
      update: (grads, state, params, learningRate) => {
        const step = tf.add(state.step, 1)
        // 1 - beta^t = -expm1(t log beta), computed with tanh: the difference from 1 would lose
        // half the digits in the first steps.
        const correction = (beta: number): tf.Tensor => {
          const half = tf.tanh(tf.mul(step, Math.log(beta) / 2))
          return tf.div(tf.mul(half, -2), tf.sub(1, half))
        }
        const [correction1, correction2] = [correction(beta1), correction(beta2)]
        const mean = mapNamed(grads, (g, m) => tf.add(tf.mul(m!, beta1), tf.mul(g!, 1 - beta1)), state.mean)
        const square = mapNamed(
          grads,
          (g, v) => tf.add(tf.mul(v!, beta2), tf.mul(tf.square(g!), 1 - beta2)),
          state.square,
        )
        const rate = tf.div(learningRate, correction1)
        const next = mapNamed(
          params,
          (p, m, v) => {
            const scale = tf.add(tf.sqrt(tf.div(v!, correction2)), epsilon)
            return tf.sub(decayed(p!, weightDecay, learningRate), tf.mul(rate, tf.div(m!, scale)))
          },
          mean,
          square,
        )
        return { params: next, state: { step, mean, square } }
      },
    },
    options,
  )
}
