/** Compiled pieces of an optimizer step that hold weights, gradients and state once. */
import { jit, jitConsuming } from '@tandem-rl/tfjs-onnxruntime'
import * as tf from '@tensorflow/tfjs-core'
import type { NamedTensors } from '../../data/weights.js'
import { clipFactor, globalNorm, type Optimizer, scaled } from '../../objectives/updates/optimizer.js'

/** The state that training changes: trained weights, and the optimizer's state. */
export interface TrainerState<S> {
  readonly params: NamedTensors
  readonly optimizer: S
}

/** A state, and the gradients along which it is updated. */
export interface LearnInput<S> {
  readonly state: TrainerState<S>
  readonly grads: NamedTensors
  readonly learningRate: tf.Tensor
}

/** Adds the gradients in `part` to those of equal names in `sum`, and frees both. */
export interface GradientSum {
  (sum: NamedTensors, part: NamedTensors): NamedTensors
  readonly release: () => void
}

/** Compiles the sums of gradients. Sets of equal shapes share a graph, whatever their names. */
export const gradientSum = (): GradientSum => {
  const add = jitConsuming((pairs: readonly (readonly tf.Tensor[])[]) => pairs.map(([a, b]) => tf.add(a!, b!)))
  const added = (sum: NamedTensors, part: NamedTensors): NamedTensors => {
    const pairs = Object.entries(part).map(([name, own]) => [sum[name]!, own]) // of the same weights
    const sums = add(pairs, pairs)
    return Object.fromEntries(Object.keys(part).map((name, i) => [name, sums[i]!]))
  }
  return Object.assign(added, { release: add.release })
}

/** Clipping and update, one after the other: between them the norm can be read. */
export interface OptimizerStep<S> {
  /** Computes the norm of gradients, and the factor by which it is clipped; scalars. */
  readonly measure: (grads: NamedTensors) => { readonly norm: tf.Tensor; readonly factor: tf.Tensor }
  /**
   * Scales gradients by a factor and updates the state. Frees the tensors in `consumed` that no
   * further owner has.
   */
  readonly learn: (input: LearnInput<S> & { readonly factor: tf.Tensor }, consumed: unknown) => TrainerState<S>
  readonly release: () => void
}

/**
 * Compiles the step of an optimizer. Infinity as `maxGradNorm` is no limit.
 *
 * Effects  keeps compiled graphs until `release`.
 */
export const optimizerStep = <S>(optimizer: Optimizer<S>, maxGradNorm: number): OptimizerStep<S> => {
  const measure = jit(
    (grads: NamedTensors) => {
      const norm = globalNorm(grads)
      return { norm, factor: clipFactor(norm, maxGradNorm) }
    },
    { memory: 'returned' },
  )
  const learn = jitConsuming(
    ({ state, grads, factor, learningRate }: Parameters<OptimizerStep<S>['learn']>[0]): TrainerState<S> => {
      const next = optimizer.update(scaled(grads, factor), state.optimizer, state.params, learningRate)
      return { params: next.params, optimizer: next.state }
    },
  )
  return {
    measure,
    learn,
    release: () => {
      measure.release()
      learn.release()
    },
  }
}
