/** Gradients of a loss on a micro-batch, through the whole decoder at once or layer by layer. */
import { jit, valueAndGrad } from '@tandem-rl/tfjs-onnxruntime'
import type * as tf from '@tensorflow/tfjs-core'
import type { NamedTensors } from '../../data/weights.js'
import type { DecoderConfig } from '../../modules/transformer/config.js'
import { type LossOfStates, makeLayerwise } from '../../modules/transformer/layerwise.js'
import { completionStates, computedPlaces } from '../../modules/transformer/score.js'
import type { MicroBatch } from './microBatches.js'
import { OF_ANY_PLACES, type RowTensors } from './tokenRows.js'

/** Activations to recompute in the backward pass: none, or those inside each layer. */
export type Recompute = 'none' | 'layers'

/** A micro-batch and the weights. */
export interface GradInput extends RowTensors {
  readonly params: NamedTensors
  readonly frozen: NamedTensors
}

/** The loss of a micro-batch, and auxiliary results. */
export interface StepPart<X> {
  readonly loss: tf.Tensor
  readonly aux: X
}

/** A micro-batch whose gradient was computed. */
export interface ComputedPart<X> extends StepPart<X> {
  /** Number of places that the layers computed outside of attention. */
  readonly places: number
}

/** Gradients by name, with the loss and its metrics. */
export interface GradOutput<X> extends StepPart<X> {
  readonly grads: NamedTensors
}

/** A computed micro-batch, with its gradients by name, or null if they are zero. */
export interface ComputedGradients<X> extends ComputedPart<X> {
  readonly grads: NamedTensors | null
}

/** A loss as a function of the decoder's states and a micro-batch. */
export type StepLoss<X> = LossOfStates<RowTensors, X>

/** Computes gradients in one pass through the whole decoder, for `params` but not for `frozen`. */
export const wholeGradients =
  <X>(config: DecoderConfig, loss: StepLoss<X>) =>
  ({ params, frozen, ...rows }: GradInput): GradOutput<X> => {
    const { value, grads, aux } = valueAndGrad(params, (trained) => {
      const weights = { ...frozen, ...trained }
      return loss({ states: completionStates(weights, config, rows.batch), weights }, rows)
    })
    return { loss: value, grads, aux }
  }

/** Takes gradients of some weights, and returns those in their place. */
export type Collect = (part: NamedTensors) => NamedTensors

/** Compiled gradients of micro-batches. The results belong to the enclosing scope. */
export interface StepGradients<X> {
  /** `collect` takes gradients once they are known: those of all weights, or of each layer. */
  readonly run: (input: GradInput, collect?: Collect) => GradOutput<X> & ComputedPart<X>
  /** Computes the loss without gradients. */
  readonly measure: (input: GradInput) => ComputedPart<X>
  readonly release: () => void
}

/** Computes a micro-batch. */
export const computedGradients = <X>(
  { run, measure }: StepGradients<X>,
  input: GradInput,
  { gradient, collect }: Pick<MicroBatch, 'gradient'> & { readonly collect?: Collect },
): ComputedGradients<X> => (gradient === 'zero' ? { ...measure(input), grads: null } : run(input, collect))

/** Compiles gradients. `recompute` affects only memory, time and rounding. */
export const stepGradients = <X>(config: DecoderConfig, loss: StepLoss<X>, recompute: Recompute): StepGradients<X> => {
  const gradients = recompute === 'none' ? wholeModel(config, loss) : byLayers(config, loss)
  const alone = jit(({ params, frozen, ...rows }: GradInput): StepPart<X> => {
    const weights = { ...frozen, ...params }
    const { value, aux } = loss({ states: completionStates(weights, config, rows.batch), weights }, rows)
    return { loss: value, aux }
  }, OF_ANY_PLACES)
  return {
    run: gradients.run,
    measure: (input) => ({ ...alone(input), places: computedPlaces(input.batch) }),
    release: () => {
      gradients.release()
      alone.release()
    },
  }
}

type ModelGradients<X> = Pick<StepGradients<X>, 'run' | 'release'>

const wholeModel = <X>(config: DecoderConfig, loss: StepLoss<X>): ModelGradients<X> => {
  const compiled = jit(wholeGradients(config, loss), OF_ANY_PLACES)
  return {
    run: (input, collect = (part) => part) => {
      const { grads, ...part } = compiled(input)
      return { ...part, grads: collect(grads), places: computedPlaces(input.batch) }
    },
    release: compiled.release,
  }
}

const byLayers = <X>(config: DecoderConfig, loss: StepLoss<X>): ModelGradients<X> => {
  const layerwise = makeLayerwise(config, loss)
  return {
    run: ({ params, frozen, ...given }, collect) => {
      const { filled: _, ...batch } = given.batch // graphs of layers compute all places
      const rows = { ...given, batch }
      const { value, grads, aux } = layerwise.run({ params, frozen, batch: rows.batch, rest: rows }, collect)
      return { loss: value, grads, aux, places: computedPlaces(batch) }
    },
    release: layerwise.release,
  }
}
