/** The gradient of a loss on a micro-batch: of the whole decoder at once, or layer by layer. */
import type * as tf from '@tensorflow/tfjs'
import type { NamedTensors } from '../data/weights.js'
import { jit } from '../engine/jit.js'
import { valueAndGrad } from '../engine/valueAndGrad.js'
import type { DecoderConfig } from '../modules/transformer/config.js'
import { type LossOfStates, makeLayerwise } from '../modules/transformer/layerwise.js'
import { completionStates } from '../modules/transformer/score.js'
import type { RowTensors } from './steps/tokenRows.js'

/** What is computed again for the gradient instead of being kept: nothing, or the inside of each layer. */
export type Recompute = 'none' | 'layers'

/** A micro-batch and the weights. */
export interface GradInput<K extends string> extends RowTensors<K> {
  readonly params: NamedTensors
  readonly frozen: NamedTensors
}

/** The loss of a micro-batch, and what else was computed on the way. */
export interface StepPart<X> {
  readonly loss: tf.Tensor
  readonly aux: X
}

/** Gradients by name, with the loss and its metrics. */
export interface GradOutput<X> extends StepPart<X> {
  readonly grads: NamedTensors
}

/** A loss as a function of the decoder's states and a micro-batch. */
export type StepLoss<K extends string, X> = LossOfStates<RowTensors<K>, X>

/** Gradients by one pass through the whole decoder: of `params`, and of nothing that is frozen. */
export const wholeGradients =
  <K extends string, X>(config: DecoderConfig, loss: StepLoss<K, X>) =>
  ({ params, frozen, ...rows }: GradInput<K>): GradOutput<X> => {
    const { value, grads, aux } = valueAndGrad(params, (trained) => {
      const weights = { ...frozen, ...trained }
      return loss({ states: completionStates(weights, config, rows.batch), weights }, rows)
    })
    return { loss: value, grads, aux }
  }

/** Compiled gradients of micro-batches. */
export interface StepGradients<K extends string, X> {
  /** The results belong to the enclosing scope. */
  readonly run: (input: GradInput<K>) => GradOutput<X>
  readonly release: () => void
}

/** Compiles gradients. What is computed again changes nothing but memory, time and rounding. */
export const stepGradients = <K extends string, X>(
  config: DecoderConfig,
  loss: StepLoss<K, X>,
  recompute: Recompute,
): StepGradients<K, X> => {
  if (recompute === 'none') {
    const compiled = jit(wholeGradients(config, loss))
    return { run: compiled, release: compiled.release }
  }
  const layerwise = makeLayerwise(config, loss)
  return {
    run: ({ params, frozen, ...rows }) => {
      const { value, grads, aux } = layerwise.run({ params, frozen, batch: rows.batch, rest: rows })
      return { loss: value, grads, aux }
    },
    release: layerwise.release,
  }
}
