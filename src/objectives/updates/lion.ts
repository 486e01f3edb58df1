import { checkOptions } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import type { NamedTensors } from '../../data/weights.js'
import { LION_OPTIONS } from '../optionKinds.js'
import { configured, type RateOptions } from './learningRate.js'
import { checkNumbers, decayed, mapNamed, type Optimizer } from './optimizer.js'

export interface LionOptions extends RateOptions {
  /** Share of the momentum in the direction. Default 0.9. */
  readonly beta1?: number
  /** Decay of the momentum. Default 0.99. */
  readonly beta2?: number
  /** Default 0. */
  readonly weightDecay?: number
}

export interface LionState {
  readonly momentum: NamedTensors
}

/**
 * Creates Lion: every weight moves by the learning rate, in the direction of the sign of momentum
 * and gradient combined.
 *
 * `p <- p (1 - lr wd) - lr sign(b1 m + (1 - b1) g)`; `m <- b2 m + (1 - b2) g`. Learning rates are 3
 * to 10 times smaller than AdamW's.
 *
 * Equation $p \leftarrow p (1 - \eta \lambda) - \eta \operatorname{sgn}(\beta_1 m + (1 - \beta_1)
 *          g)$, $m \leftarrow \beta_2 m + (1 - \beta_2) g$
 * When     to keep one state for each weight instead of two.
 * Used by  arXiv:2302.06675
 * Errors   throws RangeError for betas that are not in [0, 1) or a negative decay.
 * Source   Chen et al. 2023, arXiv:2302.06675, algorithm 2.
 *
 * @example
 * lion().name // 'lion'
 */
export const lion = (options: LionOptions = {}): Optimizer<LionState> => {
  checkOptions('lion', options, LION_OPTIONS)
  const { beta1 = 0.9, beta2 = 0.99, weightDecay = 0 } = options
  checkNumbers('lion', { share: { beta1, beta2 }, positive: { weightDecay } })
  const mix = (beta: number) => (g?: tf.Tensor, m?: tf.Tensor) => tf.add(tf.mul(m!, beta), tf.mul(g!, 1 - beta))
  return configured<LionState>(
    {
      name: 'lion',
      init: (params) => ({ momentum: mapNamed(params, (p) => tf.zerosLike(p!)) }),
      update: (grads, { momentum }, params, learningRate) => {
        const direction = mapNamed(grads, mix(beta1), momentum)
        return {
          params: mapNamed(
            params,
            (p, d) => tf.sub(decayed(p!, weightDecay, learningRate), tf.mul(tf.sign(d!), learningRate)),
            direction,
          ),
          state: { momentum: mapNamed(grads, mix(beta2), momentum) },
        }
      },
    },
    options,
  )
}
