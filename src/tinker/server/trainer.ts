/**
 * The arithmetic of training: compiled losses, gradients and optimizer steps for all models of one
 * decoder.
 */
import { type Jitted, jit } from '@tandem-rl/tfjs-onnxruntime'
import { discard, type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import type { NamedTensors } from '../../data/weights.js'
import { type StepGradients, stepGradients } from '../../learners/steps/stepGradients.js'
import { OF_ANY_PLACES, type RowTensors, tensorsOfRows, tokenNumbers } from '../../learners/steps/tokenRows.js'
import type { DecoderConfig } from '../../modules/transformer/config.js'
import { completionStates } from '../../modules/transformer/score.js'
import { type AdamWState, adamW } from '../../objectives/updates/adamW.js'
import { clipByGlobalNorm, globalNorm, mapNamed } from '../../objectives/updates/optimizer.js'
import type { AdamParams } from '../protocol/jsonWire.js'
import { type ForwardBackwardOutput, type ForwardBackwardRequest, floatTensor } from '../protocol/values.js'
import { builtInStepLoss, type DatumMeasures, lossRows } from './builtInLosses.js'

/** The parameters of a model that are trained, and Adam's memory of them. */
export interface TrainedState {
  readonly params: NamedTensors
  readonly optimizer: AdamWState
}

/** The weights of a model: trained and frozen. */
interface ModelWeights {
  readonly params: NamedTensors
  readonly frozen: NamedTensors
}

/** The result of a loss. `grads` is null for a forward pass. */
interface Computed {
  readonly output: ForwardBackwardOutput
  readonly grads: Owned<NamedTensors> | null
}

export interface Trainer {
  /** Computes a loss of checked data in micro-batches. */
  readonly compute: (weights: ModelWeights, request: Omit<ForwardBackwardRequest, 'modelId' | 'seqId'>) => Computed
  readonly add: (a: NamedTensors, b: NamedTensors) => Owned<NamedTensors>
  /** One step of Adam, and the norm of the gradient before it is clipped. */
  readonly step: (
    state: TrainedState,
    grads: NamedTensors,
    adam: AdamParams,
  ) => { readonly state: Owned<TrainedState>; readonly norm: number }
  readonly release: () => void
}

interface LearnInput {
  readonly state: TrainedState
  readonly grads: NamedTensors
  readonly learningRate: tf.Tensor
}

type ForwardInput = Omit<RowTensors, 'counts'> & { readonly params: NamedTensors }

type Learned = { readonly state: TrainedState; readonly norm: tf.Tensor }

/** Compiled optimizer steps of different settings, at most. */
const COMPILED_STEPS = 8

const sumOf = (numbers: ArrayLike<number>): number => Array.from(numbers).reduce((sum, x) => sum + x, 0)

/** A step of Adam with these settings. The learning rate is an input. */
const learnWith =
  ({ beta1, beta2, eps, weight_decay, grad_clip_norm }: AdamParams) =>
  ({ state, grads, learningRate }: LearnInput): Learned => {
    const optimizer = adamW({ beta1, beta2, epsilon: eps, weightDecay: weight_decay })
    const clipped = grad_clip_norm > 0 ? clipByGlobalNorm(grads, grad_clip_norm) : { grads, norm: globalNorm(grads) }
    const next = optimizer.update(clipped.grads, state.optimizer, state.params, learningRate)
    return { state: { params: next.params, optimizer: next.state }, norm: clipped.norm }
  }

/**
 * Makes the arithmetic for models of one decoder.
 *
 * Effects  keeps compiled graphs until `release`.
 * Cost     gradients of one micro-batch of about `microBatchTokens` tokens are in memory at a time.
 */
export const makeArithmetic = (config: DecoderConfig, microBatchTokens: number): Trainer => {
  const gradients = new Map<string, StepGradients<DatumMeasures>>()
  const forwards = new Map<string, Jitted<ForwardInput, DatumMeasures>>()
  const learners = new Map<string, Jitted<LearnInput, Learned>>()
  const add = jit(({ a, b }: { readonly a: NamedTensors; readonly b: NamedTensors }) =>
    mapNamed(a, (x, y) => tf.add(x!, y!), b),
  )

  const kept = <T>(all: Map<string, T>, name: string, make: () => T): T => {
    const made = all.get(name) ?? make()
    all.set(name, made)
    return made
  }
  const gradientsOf = (name: string) =>
    kept(gradients, name, () => stepGradients(config, builtInStepLoss(config, name), 'none'))
  const forwardOf = (name: string) =>
    kept(forwards, name, () => {
      const loss = builtInStepLoss(config, name)
      return jit(({ params, ...rows }: ForwardInput): DatumMeasures => {
        const readout = { states: completionStates(params, config, rows.batch), weights: params }
        return loss(readout, { ...rows, counts: noCounts() }).aux
      }, OF_ANY_PLACES)
    })
  const learnerOf = (adam: AdamParams) => {
    const { learning_rate: _, ...settings } = adam
    const name = JSON.stringify(settings)
    const [oldest] = learners.keys()
    if (!learners.has(name) && learners.size >= COMPILED_STEPS && oldest !== undefined) {
      learners.get(oldest)!.release()
      learners.delete(oldest)
    }
    return kept(learners, name, () => jit(learnWith(adam)))
  }
  const noCounts = () => ({ tokens: tf.scalar(1), completions: tf.scalar(1) })

  return {
    compute: ({ params, frozen }, { data, lossFn, lossConfig, mode }) => {
      const outputs: ForwardBackwardOutput['outputs'][number][] = []
      let loss = 0
      let grads = null as Owned<NamedTensors> | null // closures change it
      const keep = (more: NamedTensors): void => {
        const before = grads
        grads = own(before === null ? more : add({ a: before.value, b: more }))
        before?.release()
      }
      const measure = (tensors: Omit<RowTensors, 'counts'>): DatumMeasures => {
        if (mode === 'forward') return forwardOf(lossFn)({ params: { ...frozen, ...params }, ...tensors })
        const computed = gradientsOf(lossFn).run({ params, frozen, counts: noCounts(), ...tensors })
        keep(computed.grads)
        return computed.aux
      }
      try {
        for (const { rows, count } of lossRows({ data, lossFn, lossConfig }, microBatchTokens))
          scope(() => {
            const measured = measure(tensorsOfRows(rows, config))
            const losses = tokenNumbers(measured.losses, rows.completions)
            for (const [i, row] of tokenNumbers(measured.logProbs, rows.completions).slice(0, count).entries()) {
              outputs.push({ logprobs: floatTensor(row), elementwise_loss: floatTensor(losses[i]!) })
              loss += sumOf(losses[i]!)
            }
          })
      } catch (error) {
        grads?.release()
        throw error
      }
      return { output: { outputs, metrics: { 'loss:sum': loss } }, grads }
    },
    add: (a, b) => own(scope(() => add({ a, b }))),
    step: (state, grads, adam) =>
      scope(() => {
        const learned = learnerOf(adam)({ state, grads, learningRate: tf.scalar(adam.learning_rate) })
        const norm = learned.norm.dataSync()[0]!
        discard(learned.norm)
        return { state: own(learned.state), norm }
      }),
    release: () => {
      add.release()
      for (const compiled of [...gradients.values(), ...forwards.values(), ...learners.values()]) compiled.release()
    },
  }
}
