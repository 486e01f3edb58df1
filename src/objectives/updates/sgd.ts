import { checkOptions } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import type { NamedTensors } from '../../data/weights.js'
import { SGD_OPTIONS } from '../optionKinds.js'
import { configured, type RateOptions } from './learningRate.js'
import { checkNumbers, mapNamed, type Optimizer } from './optimizer.js'

export interface SGDOptions extends RateOptions {
  /** Default 0: none. */
  readonly momentum?: number
  /** `nesterov` looks one step ahead. Default `classical`. */
  readonly form?: 'classical' | 'nesterov'
  /** The factor of the weight that is added to the gradient. Default 0. */
  readonly weightDecay?: number
}

export interface SGDState {
  /** One tensor for each parameter; empty without momentum. */
  readonly momentum: NamedTensors
}

/**
 * Creates stochastic gradient descent.
 *
 * `g <- g + wd p`; `m <- mu m + g`; `p <- p - lr m`, or `p - lr (g + mu m)` in Nesterov's form.
 *
 * Equation $g \leftarrow g + \lambda p$, $m \leftarrow \mu m + g$, $p \leftarrow p - \eta m$;
 *          `nesterov`: $p \leftarrow p - \eta (g + \mu m)$
 * When     if memory is short, and in tests, because a step is the gradient itself.
 * Used by  `torch.optim.SGD`
 * Errors   throws RangeError for a momentum that is not in [0, 1) or a negative decay.
 * Source   Sutskever et al. 2013, "On the importance of initialization and momentum", equations 1
 *          to 4; the arithmetic of `torch.optim.SGD`.
 *
 * @example
 * sgd({ momentum: 0.9 }).name // 'sgd'
 */
export const sgd = (options: SGDOptions = {}): Optimizer<SGDState> => {
  checkOptions('sgd', options, SGD_OPTIONS)
  const { momentum = 0, form = 'classical', weightDecay = 0 } = options
  checkNumbers('sgd', { share: { momentum }, positive: { weightDecay } })
  return configured<SGDState>(
    {
      name: 'sgd',
      init: (params) => ({ momentum: momentum === 0 ? {} : mapNamed(params, (p) => tf.zerosLike(p!)) }),
      update: (given, state, params, learningRate) => {
        const grads = weightDecay === 0 ? given : mapNamed(given, (g, p) => tf.add(g!, tf.mul(p!, weightDecay)), params)
        const step = (p: tf.Tensor, d: tf.Tensor): tf.Tensor => tf.sub(p, tf.mul(d, learningRate))
        if (momentum === 0) return { params: mapNamed(params, (p, g) => step(p!, g!), grads), state }
        const next = mapNamed(grads, (g, m) => tf.add(tf.mul(m!, momentum), g!), state.momentum)
        const direction =
          form === 'classical' ? next : mapNamed(grads, (g, m) => tf.add(g!, tf.mul(m!, momentum)), next)
        return { params: mapNamed(params, (p, d) => step(p!, d!), direction), state: { momentum: next } }
      },
    },
    options,
  )
}
