/** A pure optimizer step of any loss on rows of tokens. */
import { notAWeight, refuse } from '@tandem-rl/base'
import { jit } from '@tandem-rl/tfjs-onnxruntime'
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { distinctPrompts } from '../../data/completions.js'
import type { NamedTensors } from '../../data/weights.js'
import type { DecoderConfig } from '../../modules/transformer/config.js'
import { completionStates, computedPlaces } from '../../modules/transformer/score.js'
import type { Loss, LossMetrics } from '../../objectives/loss.js'
import type { LossRows } from '../../objectives/lossRows.js'
import type { LossCounts } from '../../objectives/tokenLosses/aggregation.js'
import { clipByGlobalNorm, mapNamed, type Optimizer } from '../../objectives/updates/optimizer.js'
import { type MicroBatch, microBatches } from './microBatches.js'
import { gradientSum, type LearnInput, optimizerStep, type TrainerState } from './optimizerStep.js'
import { checkApart, checkStepOptions } from './stepChecks.js'
import {
  type ComputedGradients,
  type ComputedPart,
  computedGradients,
  type GradInput,
  type Recompute,
  stepGradients,
  wholeGradients,
} from './stepGradients.js'
import { countedTokens, hasNoAdvantage, type StepMeasures, stepLoss, stepSums } from './stepLoss.js'
import {
  checkTokenRows,
  learnedTokens,
  OF_ANY_PLACES,
  type RowTensors,
  type StepRows,
  stepRows,
  tensorsOfRows,
} from './tokenRows.js'
import { stepTokens, type TrainedTokens } from './trainedTokens.js'
import { makeChooser } from './wholeChoice.js'

/** The settings of a training step that do not depend on its loss. */
export interface LossStepOptions<S> {
  readonly config: DecoderConfig
  readonly optimizer: Optimizer<S>
  /** Largest gradient norm; larger ones are clipped. Infinity: no limit. Default 1. */
  readonly maxGradNorm?: number
  /**
   * Approximate tokens per forward and backward pass. The gradients of several passes are added.
   * Infinity: one pass. Default 4096.
   */
  readonly microBatchTokens?: number
  /**
   * Weights that the model needs but the step does not train, such as the base of an adapter and
   * its scalings. They get no gradient. They are kept until `release`.
   */
  readonly frozen?: NamedTensors
  /**
   * Activations to recompute in the backward pass. Saves memory, takes about a third more time.
   * Default `none`.
   */
  readonly recompute?: Recompute
  /**
   * Use of the memory of a state by the next one. With `consumed`, `update` frees the tensors of
   * the state once the gradients are known to be finite, so that weights and optimizer state are
   * there once. Default `kept`.
   */
  readonly state?: 'kept' | 'consumed'
}

/** A training step of a loss with the metrics `M`. */
export interface LossStep<S, M> {
  /** Returns parameters with a fresh optimizer state. The tensors belong to the enclosing scope. */
  readonly init: (params: NamedTensors) => TrainerState<S>
  /**
   * Performs one step. The caller owns the tensors of `state` and of the result.
   *
   * Errors   throws RangeError for rows that do not match each other, for an empty batch, and for a
   *          learning rate that is negative or not finite. Throws NonFiniteLoss for NaN, before any
   *          change.
   */
  readonly update: (
    state: TrainerState<S>,
    rows: LossRows,
    learningRate: number,
  ) => {
    readonly state: Owned<TrainerState<S>>
    readonly metrics: M
    /** Numbers of the tokens before the step, for losses that measure them. */
    readonly tokens?: TrainedTokens
  }
  readonly release: () => void
}

/** The loss or the gradient is NaN or infinite. */
export class NonFiniteLoss extends Error {
  constructor(loss: number, gradNorm: number) {
    super(`the loss is ${loss} and the gradient norm ${gradNorm}: lower the learning rate, or check the batch`)
    this.name = 'NonFiniteLoss'
  }
}

/** Returns whether so many trained weights may be updated in the graph of their gradients. */
export const updatesWhole = (trained: number): boolean => trained <= 2 ** 24

const sizeOf = (tensors: NamedTensors): number => Object.values(tensors).reduce((sum, { size }) => sum + size, 0)

/** Compiles the number of trained tokens of a micro-batch. */
const compiledCount = (config: DecoderConfig, loss: Parameters<typeof countedTokens>[1]) =>
  jit(({ params, ...rows }: { readonly params: NamedTensors } & Omit<RowTensors, 'counts'>) => {
    const readout = { states: completionStates(params, config, rows.batch), weights: params }
    return countedTokens(config, loss, { readout, rows })
  }, OF_ANY_PLACES)

/** Makes tensors of the counts, for a loss. They belong to the enclosing scope. */
export const countTensors = ({ tokens, completions }: StepPlan['counts']): LossCounts => ({
  tokens: tf.scalar(tokens),
  completions: tf.scalar(completions),
})

/** A mini-batch divided into micro-batches, and the divisors of its gradients. */
export interface StepPlan {
  readonly micros: readonly MicroBatch[]
  readonly counts: { readonly tokens: number; readonly completions: number }
}

/** The numbers that an update needs in addition to the state. */
interface StepNumbers {
  readonly counts: LossCounts
  readonly learningRate: tf.Tensor
}

/** The micro-batches of an update, and what was computed of each. */
interface StepComputed {
  readonly parts: readonly ComputedPart<StepMeasures>[]
  readonly micros: readonly MicroBatch[]
}

/** The building blocks of an update, for one thread or for gradients of several threads. */
export interface StepPieces<S, M> {
  readonly init: LossStep<S, M>['init']
  /**
   * Checks an update and divides its rows into micro-batches. Their number is a multiple of
   * `multipleOf` if there are enough groups.
   *
   * Errors   those of `LossStep.update`.
   */
  readonly plan: (
    params: NamedTensors,
    given: { readonly rows: LossRows; readonly learningRate: number },
    multipleOf: number,
  ) => StepPlan
  /**
   * Computes the gradients of a micro-batch, added to `sum`, whose tensors are freed. The results
   * belong to the enclosing scope.
   */
  readonly run: (
    params: NamedTensors,
    micro: MicroBatch,
    given: { readonly counts: LossCounts; readonly sum: NamedTensors | null },
  ) => ComputedGradients<StepMeasures>
  /** Adds two sets of gradients and frees them. The result belongs to the enclosing scope. */
  readonly add: (sum: NamedTensors, part: NamedTensors) => NamedTensors
  /**
   * Clips gradients, frees them, and updates the state. Null is a gradient of zero.
   *
   * Errors   throws NonFiniteLoss before any change.
   */
  readonly learn: (
    input: Omit<LearnInput<S>, 'grads'> & Pick<ComputedGradients<StepMeasures>, 'grads'>,
    computed: StepComputed,
  ) => ReturnType<LossStep<S, M>['update']>
  /**
   * Computes gradients and update in one graph, for a single micro-batch, or `undefined` if the
   * step cannot.
   *
   * Errors   throws NonFiniteLoss.
   */
  readonly whole: (
    state: TrainerState<S>,
    micros: readonly MicroBatch[],
    numbers: StepNumbers,
  ) => ReturnType<LossStep<S, M>['update']> | undefined
  readonly release: () => void
}

/**
 * Makes the building blocks of a training step.
 *
 * Errors   throws RangeError that lists all problems: a `maxGradNorm` that is not positive, or
 *          `microBatchTokens` below 1.
 * Effects  keeps `frozen` and the compiled graphs until `release`.
 */
export const stepPieces = <S, M extends LossMetrics>(
  loss: Loss<never, M, never>,
  options: LossStepOptions<S>,
): StepPieces<S, M> => {
  const { config, optimizer, maxGradNorm = 1, microBatchTokens = 4096, recompute = 'none' } = options
  checkStepOptions(loss.name, { maxGradNorm, microBatchTokens })
  const kept = options.frozen && own(options.frozen)
  const frozen = options.frozen ?? {}
  const { counted, choose, atZeroAdvantage } = loss.selection
  const computed = stepLoss(config, loss)
  const gradients = stepGradients(config, computed, recompute)
  const count = counted && compiledCount(config, { name: loss.name, counted })
  const chooser = choose && makeChooser(config, choose)
  const add = gradientSum()
  const step = optimizerStep(optimizer, maxGradNorm)
  /** Forward pass, backward pass and optimizer in one graph, so that gradients never leave it. */
  const compiledWhole = jit(
    (input: Omit<GradInput, 'params'> & Omit<LearnInput<S>, 'grads'>) => {
      const { state, learningRate, ...rows } = input
      const { grads, ...part } = wholeGradients(config, computed)({ ...rows, params: state.params })
      const clipped = clipByGlobalNorm(grads, maxGradNorm)
      const { params, state: next } = optimizer.update(clipped.grads, state.optimizer, state.params, learningRate)
      return { part, state: { params, optimizer: next }, norm: clipped.norm }
    },
    { ...OF_ANY_PLACES, results: 'device' },
  )
  /** Returns the measures of a step. Throws NonFiniteLoss. */
  const measured = ({ parts, micros }: StepComputed, norm: tf.Tensor) => {
    const gradNorm = norm.dataSync()[0]!
    const places = parts.reduce((sum, part) => sum + part.places, 0)
    const metrics = loss.measures.metrics({ sums: stepSums(loss, parts), gradNorm, places })
    if (!Number.isFinite(metrics.loss) || !Number.isFinite(metrics.gradNorm)) {
      throw new NonFiniteLoss(metrics.loss, metrics.gradNorm)
    }
    const numbers = parts.flatMap(({ aux }) => (aux.tokens === undefined ? [] : [aux.tokens]))
    const tokens = numbers.length === 0 ? undefined : stepTokens(numbers, micros)
    return { metrics, ...(tokens && { tokens }) }
  }
  const tensorsOf = (rows: StepRows): Omit<RowTensors, 'counts'> => tensorsOfRows(rows, config)

  /**
   * Counts the trained tokens of the mini-batch. The mask determines them, unless the loss selects
   * tokens.
   */
  const tokensThatCount = (params: NamedTensors, micros: readonly MicroBatch[]): number =>
    micros.reduce(
      (sum, { rows }) =>
        sum +
        (count === undefined
          ? learnedTokens(rows)
          : scope(() => count({ params: { ...frozen, ...params }, ...tensorsOf(rows) }).dataSync()[0]!)),
      0,
    )

  /**
   * Divides rows into micro-batches. Decisions over the whole mini-batch are made first, unless
   * there is only one micro-batch.
   */
  const inMicroBatches = (params: NamedTensors, rows: StepRows, multipleOf: number): readonly MicroBatch[] => {
    const cut = { tokens: microBatchTokens, multipleOf }
    const isZero = chooser === undefined && atZeroAdvantage === 'none' ? hasNoAdvantage(rows) : undefined
    const { prompts, shared } = rows
    const micros = microBatches(
      rows,
      cut,
      isZero &&
        distinctPrompts(prompts, shared).map((_, i) => isZero.slice(i * shared, (i + 1) * shared).every(Boolean)),
    )
    return chooser === undefined || micros.length === 1
      ? micros
      : microBatches(chooser.choose({ ...frozen, ...params }, rows, micros), cut)
  }

  return {
    init: (params) => {
      checkApart(loss.name, params, frozen)
      return { params, optimizer: optimizer.init(params) }
    },
    plan: (params, { rows: given, learningRate }, multipleOf) => {
      const rows = stepRows(given)
      checkTokenRows(loss.name, rows, config.vocabularySize)
      checkApart(loss.name, params, frozen)
      refuse(loss.name, [notAWeight('the learning rate', learningRate)])
      const micros = inMicroBatches(params, rows, multipleOf)
      return { micros, counts: { tokens: tokensThatCount(params, micros), completions: rows.completions.length } }
    },
    run: (params, { rows, gradient }, { counts, sum }) =>
      computedGradients(
        gradients,
        { params, frozen, counts, ...tensorsOf(rows) },
        { gradient, ...(sum !== null && { collect: (part) => add(sum, part) }) },
      ),
    add,
    learn: ({ grads: given, state, learningRate }, computed) => {
      const grads = given ?? mapNamed(state.params, (param) => tf.zerosLike(param!))
      const { norm, factor } = step.measure(grads)
      const measures = measured(computed, norm)
      const consumed = options.state === 'consumed' ? [grads, state] : [grads]
      return { state: own(step.learn({ state, grads, factor, learningRate }, consumed)), ...measures }
    },
    whole: (state, micros, numbers) => {
      const [only, ...more] = micros
      const isSmall = recompute === 'none' && updatesWhole(sizeOf(state.params))
      if (!isSmall || only?.gradient !== 'computed' || more.length > 0) return undefined
      const tensors = tensorsOf(only.rows)
      const { part, norm, state: next } = compiledWhole({ state, frozen, ...numbers, ...tensors })
      const parts = [{ ...part, places: computedPlaces(tensors.batch) }]
      return { ...measured({ parts, micros }, norm), state: own(next) }
    },
    release: () => {
      kept?.release()
      gradients.release()
      chooser?.release()
      for (const graph of [count, step, compiledWhole, add]) graph?.release()
    },
  }
}

/**
 * Makes a training step: forward and backward pass in micro-batches, gradient clipping, optimizer.
 *
 * Gradients are normalized by the tokens and rows of the whole mini-batch, so the size of
 * micro-batches affects only rounding. Micro-batches whose gradient is known to be zero have no
 * backward pass. Rows with the same prompt share its computation, forward and backward. Frozen
 * weights have no gradients or optimizer state and are not part of the trainer's state.
 *
 * Errors   throws RangeError that lists all problems: a `maxGradNorm` that is not positive, or
 *          `microBatchTokens` below 1.
 * Effects  keeps `frozen` and the compiled graphs until `release`.
 */
export const lossStep = <S, M extends LossMetrics>(
  loss: Loss<never, M, never>,
  options: LossStepOptions<S>,
): LossStep<S, M> => {
  const pieces = stepPieces(loss, options)

  /** Adds up the gradients of the micro-batches. */
  const accumulate = (
    params: NamedTensors,
    micros: readonly MicroBatch[],
    counts: LossCounts,
  ): { readonly grads: NamedTensors | null; readonly parts: readonly ComputedPart<StepMeasures>[] } =>
    micros.reduce<{ grads: NamedTensors | null; parts: readonly ComputedPart<StepMeasures>[] }>(
      (sum, micro) => {
        const { grads, ...part } = scope(() => pieces.run(params, micro, { counts, sum: sum.grads }))
        return { grads: grads ?? sum.grads, parts: [...sum.parts, part] }
      },
      { grads: null, parts: [] },
    )

  return {
    init: pieces.init,
    update: (state, rows, learningRate) =>
      scope(() => {
        const { micros, counts } = pieces.plan(state.params, { rows, learningRate }, 1)
        const numbers = { counts: countTensors(counts), learningRate: tf.scalar(learningRate) }
        const whole = pieces.whole(state, micros, numbers)
        if (whole !== undefined) return whole
        const { grads, parts } = accumulate(state.params, micros, numbers.counts)
        return pieces.learn({ state, grads, learningRate: numbers.learningRate }, { parts, micros })
      }),
    release: pieces.release,
  }
}
