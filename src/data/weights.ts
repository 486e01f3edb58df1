/** Moving weights from the trainer to whoever samples. */
import type * as tf from '@tensorflow/tfjs-core'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'

/** New weights were refused or did not arrive; the old ones are still in use. */
export interface WeightFailure {
  readonly _tag: 'WeightFailure'
  readonly receiver: string
  readonly reason: string
}

/** An engine that samples and can be given other weights. */
export interface WeightReceiver<in W> {
  /** The version of the weights it samples with now. */
  readonly version: () => number
  /** All of the weights or none: answers with the version in use from now on. */
  readonly load: (weights: W, version: number) => TaskEither<WeightFailure, number>
}

/** Tensors by name, in an immutable record: parameters, gradients, moments. */
export type NamedTensors = Readonly<Record<string, tf.Tensor>>
