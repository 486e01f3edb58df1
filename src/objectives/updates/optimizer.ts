/** Optimizers as pairs of pure functions over named tensors. */
import type { Json, Schedule } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import type { NamedTensors } from '../../data/weights.js'

/**
 * An optimizer. `init` creates the state for parameters; `update` takes gradients and returns the
 * next parameters and the next state. Both are pure functions of their arguments, so they can be
 * compiled, stored and replayed.
 */
export interface Optimizer<S> {
  readonly name: string
  readonly init: (params: NamedTensors) => S
  readonly update: (
    grads: NamedTensors,
    state: S,
    params: NamedTensors,
    learningRate: tf.Tensor,
  ) => { readonly params: NamedTensors; readonly state: S }
  /** The learning rate of a learner, by the number of earlier updates. */
  readonly learningRate?: Schedule
  /** The settings of the optimizer. */
  readonly options?: Json
}

/**
 * Applies `f` to the tensors of equal names. Errors: throws Error for a name that is missing in
 * another argument.
 */
export const mapNamed = (
  first: NamedTensors,
  f: (...tensors: readonly tf.Tensor[]) => tf.Tensor,
  ...others: readonly NamedTensors[]
): NamedTensors =>
  Object.fromEntries(
    Object.entries(first).map(([name, tensor]) => {
      const rest = others.map((other) => {
        const found = Object.hasOwn(other, name) ? other[name] : undefined
        if (found === undefined) throw new Error(`mapNamed: '${name}' is missing in one of the arguments`)
        return found
      })
      return [name, f(tensor, ...rest)]
    }),
  )

/**
 * Computes `sqrt(sum of all squares)` over all tensors, a scalar.
 *
 * Equation $\|g\| = \sqrt{\sum_i g_i^2}$ over all tensors
 * When     as a metric of every step.
 * Used by  `clipByGlobalNorm`
 */
export const globalNorm = (tensors: NamedTensors): tf.Tensor =>
  tf.sqrt(tf.sum(tf.stack(Object.values(tensors).map((tensor) => tf.sum(tf.square(tensor))))))

/** Returns the factor of `clipByGlobalNorm` for gradients of this norm, a scalar. */
export const clipFactor = (norm: tf.Tensor, maxNorm: number): tf.Tensor =>
  tf.minimum(tf.div(maxNorm, tf.add(norm, 1e-6)), 1)

/** Multiplies all tensors by a scalar. */
export const scaled = (tensors: NamedTensors, factor: tf.Tensor): NamedTensors =>
  mapNamed(tensors, (tensor) => tf.mul(tensor!, factor))

/**
 * Scales all gradients by one factor so that their global norm is at most `maxNorm`.
 *
 * Equation $g \leftarrow g \min(1, \frac{c}{\|g\| + 10^{-6}})$
 * When     always, with 1 or below: a bad batch moves the weights no further than a good one.
 * Used by  `torch.nn.utils.clip_grad_norm_`; verl `grad_clip`; Transformers `max_grad_norm`
 * Errors   throws RangeError for a `maxNorm` that is not positive.
 * Source   Pascanu et al. 2013, arXiv:1211.5063, algorithm 1; `norm + 1e-6` in the denominator as
 *          in PyTorch's `clip_grad_norm_`.
 */
export const clipByGlobalNorm = (
  grads: NamedTensors,
  maxNorm: number,
): { readonly grads: NamedTensors; readonly norm: tf.Tensor } => {
  if (!(maxNorm > 0)) throw new RangeError(`clipByGlobalNorm: maxNorm must be positive, got ${maxNorm}`)
  const norm = globalNorm(grads)
  return { grads: scaled(grads, clipFactor(norm, maxNorm)), norm }
}

/** Applies decoupled weight decay to a parameter: `p (1 - lr wd)`. */
export const decayed = (parameter: tf.Tensor, weightDecay: number, learningRate: tf.Tensor): tf.Tensor =>
  weightDecay === 0 ? parameter : tf.mul(parameter, tf.sub(1, tf.mul(learningRate, weightDecay)))

/**
 * Throws RangeError, naming optimizer and option, for a share outside [0, 1), or a number that is
 * negative or not finite.
 */
export const checkNumbers = (
  optimizer: string,
  {
    share = {},
    positive = {},
  }: { readonly share?: Readonly<Record<string, number>>; readonly positive?: Readonly<Record<string, number>> },
): void => {
  const badShare = Object.entries(share).find(([, x]) => !(x >= 0 && x < 1))
  if (badShare !== undefined)
    throw new RangeError(`${optimizer}: ${badShare[0]} must be from 0 to below 1, got ${badShare[1]}`)
  const badNumber = Object.entries(positive).find(([, x]) => !(x >= 0 && Number.isFinite(x)))
  if (badNumber !== undefined)
    throw new RangeError(`${optimizer}: ${badNumber[0]} must not be negative, got ${badNumber[1]}`)
}
