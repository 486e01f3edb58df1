import { checkOptions } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import type { NamedTensors } from '../../data/weights.js'
import { ADAFACTOR_OPTIONS } from '../optionKinds.js'
import { configured, type RateOptions } from './learningRate.js'
import { checkNumbers, decayed, mapNamed, type Optimizer } from './optimizer.js'

export interface AdafactorOptions extends RateOptions {
  /** The exponent of the mean of squares, which is updated with weight `t^decay`. Default -0.8. */
  readonly decay?: number
  /** The minimum mean of squares. Default: the distance from 1 to the next float32. */
  readonly epsilon1?: number
  /** The minimum root mean square of a parameter for the scale of its steps. Default 1e-3. */
  readonly epsilon2?: number
  /** The maximum root mean square of a step before scaling. Default 1. */
  readonly clip?: number
  /** Default 0. */
  readonly weightDecay?: number
}

export interface AdafactorState {
  /** The number of updates so far, a scalar. */
  readonly step: tf.Tensor
  /**
   * Mean squares by row, `[..., n, 1]`, for parameters with two or more axes; mean squares by
   * element for the others.
   */
  readonly rows: NamedTensors
  /** Mean squares by column, `[..., 1, m]`, for parameters with two or more axes. */
  readonly columns: NamedTensors
}

const rootMeanSquare = (x: tf.Tensor): tf.Tensor => tf.sqrt(tf.mean(tf.square(x)))

const FLOAT32_EPSILON = 2 ** -23

/**
 * Creates Adafactor: AdamW's second moment in the memory of its rows and columns, no first moment,
 * steps relative to the size of the parameter.
 *
 * `R <- R + t^decay (mean of g^2 by row - R)`, `C` likewise by column, `V = R C / mean(R)`;
 * `u = g / sqrt(max(V, eps1^2))`; `p <- p (1 - lr wd) - max(eps2, rms(p)) min(lr, 1 / sqrt(t)) u /
 * max(1, rms(u) / clip)`.
 *
 * Equation $V = R C / \operatorname{mean}(R)$, $u = g / \sqrt V$, $p \leftarrow p (1 - \eta
 *          \lambda) - \max(\epsilon_2, \operatorname{rms}(p)) \min(\eta, t^{-1/2}) \frac{u}{\max(1,
 *          \operatorname{rms}(u) / c)}$
 * When     if the states of AdamW do not fit into memory.
 * Used by  T5 (arXiv:1910.10683), PaLM (arXiv:2204.02311); `torch.optim.Adafactor`
 * Errors   throws RangeError for a decay that is not negative, or other settings that are.
 * Source   Shazeer and Stern 2018, arXiv:1804.04235, algorithms 4 and 5; the arithmetic of
 *          `torch.optim.Adafactor`.
 *
 * @example
 * adafactor().name // 'adafactor'
 */
export const adafactor = (options: AdafactorOptions = {}): Optimizer<AdafactorState> => {
  checkOptions('adafactor', options, ADAFACTOR_OPTIONS)
  const { decay = -0.8, epsilon1 = FLOAT32_EPSILON, epsilon2 = 1e-3, clip = 1, weightDecay = 0 } = options
  checkNumbers('adafactor', { positive: { epsilon1, epsilon2, clip, weightDecay } })
  if (!(clip > 0)) throw new RangeError(`adafactor: clip must be positive, got ${clip}`)
  if (!(decay < 0)) throw new RangeError(`adafactor: decay must be negative, got ${decay}`)
  const factored = (params: NamedTensors): NamedTensors =>
    Object.fromEntries(Object.entries(params).filter(([, p]) => p.rank >= 2))

  const toward = (old: tf.Tensor, now: tf.Tensor, share: tf.Tensor): tf.Tensor =>
    tf.add(old, tf.mul(share, tf.sub(now, old)))

  const estimate = (rows: tf.Tensor, columns: tf.Tensor | undefined): tf.Tensor => {
    if (columns === undefined) return rows
    return tf.div(tf.mul(rows, columns), tf.maximum(tf.mean(rows, -2, true), epsilon1))
  }

  return configured<AdafactorState>(
    {
      name: 'adafactor',
      init: (params) => ({
        step: tf.scalar(0),
        rows: mapNamed(params, (p) => (p!.rank >= 2 ? tf.zeros([...p!.shape.slice(0, -1), 1]) : tf.zerosLike(p!))),
        columns: mapNamed(factored(params), (p) => tf.zeros([...p!.shape.slice(0, -2), 1, p!.shape.at(-1)!])),
      }),
      update: (grads, state, params, learningRate) => {
        const step = tf.add(state.step, 1)
        const share = tf.pow(step, decay)
        const rate = tf.minimum(learningRate, tf.div(1, tf.sqrt(step)))
        const rows = mapNamed(
          grads,
          (g, old) => toward(old!, g!.rank >= 2 ? tf.mean(tf.square(g!), -1, true) : tf.square(g!), share),
          state.rows,
        )
        const columns = mapNamed(
          factored(grads),
          (g, old) => toward(old!, tf.mean(tf.square(g!), -2, true), share),
          state.columns,
        )
        const moved = Object.entries(params).map(([name, p]) => {
          const variance = tf.maximum(estimate(rows[name]!, columns[name]), epsilon1 ** 2)
          const update = tf.div(grads[name]!, tf.sqrt(variance))
          const size = tf.mul(tf.maximum(rootMeanSquare(p), epsilon2), rate)
          const scale = tf.div(size, tf.maximum(tf.div(rootMeanSquare(update), clip), 1))
          return [name, tf.sub(decayed(p, weightDecay, learningRate), tf.mul(update, scale))] as const
        })
        return { params: Object.fromEntries(moved), state: { step, rows, columns } }
      },
    },
    options,
  )
}
