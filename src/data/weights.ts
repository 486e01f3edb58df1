/** Moving weights from the trainer to whoever samples. */
import type { WeightFailure } from '@tandem-rl/text'
import type * as tf from '@tensorflow/tfjs-core'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'

/** An engine that samples and can be given other weights. */
export interface WeightReceiver<in W> {
  /** The version of the weights it samples with now. */
  readonly version: () => number
  /** All of the weights or none: answers with the version in use from now on. */
  readonly load: (weights: W, version: number) => TaskEither<WeightFailure, number>
}

/** Tensors by name, in an immutable record: parameters, gradients, moments. */
export type NamedTensors = Readonly<Record<string, tf.Tensor>>
