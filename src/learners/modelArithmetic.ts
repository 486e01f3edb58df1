/**
 * The arithmetic of training by losses of single tokens: compiled losses, gradients and optimizer
 * steps for all models of one decoder.
 */
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import type { NamedTensors } from '../data/weights.js'
import type { DecoderConfig } from '../modules/transformer/config.js'
import { headScores } from '../modules/transformer/headScores.js'
import type { LossRows } from '../objectives/lossRows.js'
import { type AdamWOptions, type AdamWState, adamW } from '../objectives/updates/adamW.js'
import { gradientSum, type OptimizerStep, optimizerStep, type TrainerState } from './steps/optimizerStep.js'
import { type StepGradients, type StepLoss, stepGradients } from './steps/stepGradients.js'
import { tensorsOfRows, tokenNumbers } from './steps/tokenRows.js'

/** The terms of a loss of single tokens. */
interface LossTerms {
  /** The log-probability of each place's token in the list `targets`, `[B, T]`, in nats. */
  readonly logProbs: tf.Tensor
  /** Returns a list of the rows: `[B, T]`, or `[B, 1]` for one number for each row. */
  readonly input: (list: string) => tf.Tensor
}

/** The loss of each place, `[B, T]`. The loss of rows is their sum. */
export type PlaceLoss = (terms: LossTerms) => tf.Tensor

/** A micro-batch. Its lists have the tokens to predict at each place as `targets`. */
interface PlaceRows {
  readonly rows: LossRows
  /** Rows behind these are padding, so that few sizes are compiled. */
  readonly count: number
}

/** A loss of rows to compute, with its gradient or without. */
export interface PlaceRequest {
  readonly loss: string
  readonly parts: readonly PlaceRows[]
  readonly mode: 'forward' | 'backward'
}

/** The log-probability and the loss of each place of a row. */
export interface MeasuredPlaces {
  readonly logProbs: ArrayLike<number>
  readonly losses: ArrayLike<number>
}

/** The settings of an optimizer step. A gradient whose norm is above `maxGradNorm` is clipped. */
export interface AdamStep extends Required<Omit<AdamWOptions, 'learningRate'>> {
  readonly learningRate: number
  readonly maxGradNorm: number
}

/** The parameters of a model that are trained, and Adam's memory of them. */
export type TrainedState = TrainerState<AdamWState>

/** The weights of a model: trained and frozen. */
interface ModelWeights {
  readonly params: NamedTensors
  readonly frozen: NamedTensors
}

/** The tensors of `MeasuredPlaces`, `[B, T]`. */
interface PlaceMeasures {
  readonly logProbs: tf.Tensor
  readonly losses: tf.Tensor
}

/** Compiled optimizer steps of different settings, at most. */
const COMPILED_STEPS = 8

/** The loss of a micro-batch as a function of the decoder's states. */
const placeStepLoss =
  (config: DecoderConfig, loss: PlaceLoss): StepLoss<PlaceMeasures> =>
  (readout, rows) => {
    const { mask, lists } = rows
    const ids = tf.reshape(tf.cast(lists.targets!, 'int32'), [-1])
    const scored = { states: readout.states, ids, inverseTemperature: rows.inverseTemperature }
    const logProbs = tf.reshape(headScores(readout.weights, config, scored).logProbs, mask.shape)
    const losses = loss({ logProbs, input: (list) => lists[list]! })
    return { value: tf.sum(losses), aux: { logProbs, losses } }
  }

/**
 * Makes the arithmetic for models of one decoder, by these losses.
 *
 * Effects  keeps compiled graphs until `release`.
 * Cost     gradients of one micro-batch are in memory at a time.
 */
export const makeArithmetic = (config: DecoderConfig, losses: Readonly<Record<string, PlaceLoss>>) => {
  const gradients = new Map<string, StepGradients<PlaceMeasures>>()
  const learners = new Map<string, OptimizerStep<AdamWState>>()
  const add = gradientSum()

  const kept = <T>(all: Map<string, T>, name: string, make: () => T): T => {
    const made = all.get(name) ?? make()
    all.set(name, made)
    return made
  }
  const gradientsOf = (name: string) =>
    kept(gradients, name, () => stepGradients(config, placeStepLoss(config, losses[name]!), 'none'))
  const learnerOf = ({ learningRate: _, maxGradNorm, ...settings }: AdamStep) => {
    const name = JSON.stringify({ ...settings, maxGradNorm: String(maxGradNorm) })
    const [oldest] = learners.keys()
    if (!learners.has(name) && learners.size >= COMPILED_STEPS && oldest !== undefined) {
      learners.get(oldest)!.release()
      learners.delete(oldest)
    }
    return kept(learners, name, () => optimizerStep(adamW(settings), maxGradNorm))
  }

  return {
    /** Computes a loss, and its gradients unless `mode` is `forward`. */
    compute: ({ params, frozen }: ModelWeights, { loss, parts, mode }: PlaceRequest) => {
      let grads = null as Owned<NamedTensors> | null // closures change it
      const keep = (more: NamedTensors): void => {
        const before = grads
        grads = own(before === null ? more : add(before.value, more))
        before?.release()
      }
      const measure = (rows: LossRows): PlaceMeasures => {
        const counts = { tokens: tf.scalar(1), completions: tf.scalar(1) } // no loss of places reads them
        const input = { params, frozen, counts, ...tensorsOfRows(rows, config) }
        if (mode === 'forward') return gradientsOf(loss).measure(input).aux
        const computed = gradientsOf(loss).run(input)
        keep(computed.grads)
        return computed.aux
      }
      try {
        const rows = parts.flatMap(({ rows: part, count }) =>
          scope(() => {
            const measured = measure(part)
            const each = tokenNumbers(measured.losses, part.completions)
            return tokenNumbers(measured.logProbs, part.completions)
              .slice(0, count)
              .map((logProbs, i): MeasuredPlaces => ({ logProbs, losses: each[i]! }))
          }),
        )
        return { rows, grads }
      } catch (error) {
        grads?.release()
        throw error
      }
    },
    /** Adds gradients and frees them. */
    add: (a: NamedTensors, b: NamedTensors) => own(scope(() => add(a, b))),
    /**
     * Takes a step of Adam, and frees state and gradients. The norm is that of the gradient before
     * it is clipped.
     */
    step: (state: TrainedState, grads: NamedTensors, adam: AdamStep) =>
      scope(() => {
        const { measure, learn } = learnerOf(adam)
        const { norm, factor } = measure(grads)
        const gradNorm = norm.dataSync()[0]!
        const input = { state, grads, factor, learningRate: tf.scalar(adam.learningRate) }
        return { state: own(learn(input, [state, grads])), norm: gradNorm }
      }),
    release: () => {
      add.release()
      for (const compiled of [...gradients.values(), ...learners.values()]) compiled.release()
    },
  }
}

/** The arithmetic of models of one decoder. */
export type ModelArithmetic = ReturnType<typeof makeArithmetic>
