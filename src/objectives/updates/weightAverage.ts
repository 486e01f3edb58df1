import { checkOptions } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import type { NamedTensors } from '../../data/weights.js'
import { WEIGHT_AVERAGE_KINDS, WEIGHT_AVERAGE_OPTIONS } from '../optionKinds.js'
import { mapNamed } from './optimizer.js'

/** A running average of the weights, which changes less from step to step than they do. */
export interface WeightAverage {
  readonly init: (params: NamedTensors) => NamedTensors
  /** Returns the next average. `step` counts updates from 0. */
  readonly update: (average: NamedTensors, params: NamedTensors, step: number) => NamedTensors
}

/**
 * Computes `keep a + (1 - keep) p` as a step from the nearer end. The products of the equation
 * would let constant weights drift, because their factors do not add up to 1 in float32.
 */
const between = (a: tf.Tensor, p: tf.Tensor, keep: number): tf.Tensor =>
  keep < 0.5 ? tf.add(p, tf.mul(tf.sub(a, p), keep)) : tf.add(a, tf.mul(tf.sub(p, a), 1 - keep))

/**
 * Creates an average: `a <- d a + (1 - d) p` with the decay d (exponential), or the mean of all
 * weights so far (`uniform`).
 *
 * Equation $a \leftarrow d a + (1 - d) p$, or $a \leftarrow \frac{n a + p}{n + 1}$ (`uniform`)
 * When     for a policy to evaluate, or a slowly moving reference.
 * Used by  arXiv:1703.01780; `torch.optim.swa_utils`
 * Errors   throws RangeError for a decay that is not in [0, 1).
 * Source   Polyak and Juditsky 1992; exponential: Tarvainen and Valpola 2017, arXiv:1703.01780,
 *          equation 2.
 *
 * @example
 * weightAverage({ decay: 0 }).update({ w: tf.scalar(1) }, { w: tf.scalar(3) }, 0).w.dataSync() // [3]
 */
export const weightAverage = (kind: { readonly decay: number } | 'uniform'): WeightAverage => {
  if (typeof kind === 'object') checkOptions('weightAverage', kind, WEIGHT_AVERAGE_OPTIONS)
  else checkOptions('weightAverage', { kind }, WEIGHT_AVERAGE_KINDS)
  if (kind !== 'uniform' && !(kind.decay >= 0 && kind.decay < 1))
    throw new RangeError(`weightAverage: decay must be from 0 to below 1, got ${kind.decay}`)
  return {
    init: (params) => mapNamed(params, (p) => tf.clone(p!)),
    update: (average, params, step) => {
      const keep = kind === 'uniform' ? (step + 1) / (step + 2) : kind.decay
      return mapNamed(average, (a, p) => between(a!, p!, keep), params)
    },
  }
}
