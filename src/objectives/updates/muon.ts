import { checkOptions, refuse } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import type { NamedTensors } from '../../data/weights.js'
import { MUON_OPTIONS } from '../optionKinds.js'
import { configured, type RateOptions } from './learningRate.js'
import { checkNumbers, decayed, mapNamed, type Optimizer } from './optimizer.js'

export interface MuonOptions extends RateOptions {
  /** Default 0.95. */
  readonly momentum?: number
  /** Default `nesterov`. */
  readonly form?: 'classical' | 'nesterov'
  /** Default 0.1. */
  readonly weightDecay?: number
  /** Newton-Schulz iterations. Default 5. */
  readonly iterations?: number
  /**
   * The scale of the learning rate by the shape `[n, m]` of a matrix: `original` multiplies by
   * `sqrt(max(1, n / m))`; `match-adamw` by `0.2 sqrt(max(n, m))`, so that AdamW's learning rates
   * fit. Default `original`.
   */
  readonly scale?: 'original' | 'match-adamw'
}

export interface MuonState {
  readonly momentum: NamedTensors
}

/** The coefficients of the iteration, which make the slope at 0 as steep as possible. */
const [A, B, C] = [3.4445, -4.775, 2.0315]

/**
 * Approximates the nearest matrix whose singular values are all near 1 (0.7 to 1.2), by
 * Newton-Schulz iterations `X <- a X + (b S + c S S) X`, `S = X X^T`.
 *
 * Equation $X \leftarrow a X + (b S + c S^2) X$ with $S = X X^\top$, from $X = G / \|G\|$
 * When     inside of `muon`.
 * Used by  `muon`
 * Shapes   `[n, m]` to `[n, m]`. Cost: three matrix products for each iteration.
 * Source   Jordan et al. 2024, "Muon: An optimizer for hidden layers in neural networks".
 *
 * @example
 * orthogonalized(tf.tensor2d([[2]]), 1).shape // [1, 1]
 */
export const orthogonalized = (matrix: tf.Tensor, iterations: number): tf.Tensor => {
  const [n, m] = matrix.shape as [number, number] // checked by `muon`
  const wide = n > m ? tf.transpose(matrix) : matrix
  const norm = tf.sqrt(tf.sum(tf.square(wide)))
  let x = tf.div(wide, tf.maximum(norm, 1e-7))
  for (let i = 0; i < iterations; i++) {
    const square = tf.matMul(x, x, false, true)
    const mixed = tf.add(tf.mul(square, B), tf.mul(tf.matMul(square, square), C))
    x = tf.add(tf.mul(x, A), tf.matMul(mixed, x))
  }
  return n > m ? tf.transpose(x) : x
}

/**
 * Creates Muon: momentum with orthogonalized matrices, so that all directions of a layer learn
 * equally. For the matrices of hidden layers: embeddings, the head, gains and biases need another
 * optimizer, by `grouped`.
 *
 * `m <- mu m + (1 - mu) g`; `d = orthogonalized(m)`, in Nesterov's form of `(1 - mu) g + mu m`;
 * `p <- p (1 - lr wd) - lr scale d`.
 *
 * Equation $m \leftarrow \mu m + (1 - \mu) g$, $d = \operatorname{orth}((1 - \mu) g + \mu m)$,
 *          $p \leftarrow p (1 - \eta \lambda) - \eta \, scale \, d$
 * When     for the matrices of hidden layers, the rest by `adamW` in `grouped`.
 * Used by  Moonlight (arXiv:2502.16982), Kimi K2 (arXiv:2507.20534); `torch.optim.Muon`
 * Errors   `init` throws RangeError for a parameter that is not a matrix, with its name; `muon` for
 *          invalid options.
 * Source   Jordan et al. 2024; the arithmetic of `torch.optim.Muon`, which iterates in bfloat16;
 *          `match-adamw`: Liu et al. 2025, arXiv:2502.16982.
 *
 * @example
 * muon({ scale: 'match-adamw' }).name // 'muon'
 */
export const muon = (options: MuonOptions = {}): Optimizer<MuonState> => {
  checkOptions('muon', options, MUON_OPTIONS)
  const { momentum = 0.95, form = 'nesterov', weightDecay = 0.1, iterations = 5, scale = 'original' } = options
  checkNumbers('muon', { share: { momentum }, positive: { weightDecay } })
  refuse('muon', [
    (!Number.isInteger(iterations) || iterations < 1) && `iterations must be a whole number from 1, got ${iterations}`,
  ])
  const scaleOf = ([n = 1, m = 1]: readonly number[]): number =>
    scale === 'original' ? Math.sqrt(Math.max(1, n / m)) : 0.2 * Math.sqrt(Math.max(n, m))
  const toward = (g: tf.Tensor, m: tf.Tensor): tf.Tensor => tf.add(tf.mul(m, momentum), tf.mul(g, 1 - momentum))
  return configured<MuonState>(
    {
      name: 'muon',
      init: (params) => {
        const wrong = Object.entries(params).find(([, p]) => p.rank !== 2)
        if (wrong !== undefined)
          throw new RangeError(
            `muon: '${wrong[0]}' is not a matrix, it is [${wrong[1].shape.join()}]: group it with another`,
          )
        return { momentum: mapNamed(params, (p) => tf.zerosLike(p!)) }
      },
      update: (grads, state, params, learningRate) => {
        const next = mapNamed(grads, (g, m) => toward(g!, m!), state.momentum)
        const direction = form === 'classical' ? next : mapNamed(grads, (g, m) => toward(g!, m!), next)
        return {
          params: mapNamed(
            params,
            (p, d) => {
              const step = tf.mul(orthogonalized(d!, iterations), scaleOf(p!.shape))
              return tf.sub(decayed(p!, weightDecay, learningRate), tf.mul(step, learningRate))
            },
            direction,
          ),
          state: { momentum: next },
        }
      },
    },
    options,
  )
}
