/** One optimizer step of a policy loss on a collected batch: pure in, pure out. */
import * as tf from '@tensorflow/tfjs'
import type { NamedTensors } from '../data/weights.js'
import { jit } from '../engine/jit.js'
import { gatherLogProbs } from '../engine/ops/logProbs.js'
import { discard, type Owned, own, scope } from '../engine/scope.js'
import type { DecoderConfig } from '../modules/transformer/config.js'
import { temperedLogits } from '../modules/transformer/score.js'
import type { LossCounts } from '../objectives/aggregation.js'
import { GRPOLoss, type GRPOLossOptions } from '../objectives/grpoLoss.js'
import type { PolicyLoss } from '../objectives/policyLoss.js'
import { clipByGlobalNorm, mapNamed, type Optimizer } from '../objectives/updates/optimizer.js'
import {
  type GradBatch,
  type GradInput,
  type GradOutput,
  type Recompute,
  stepGradients,
  wholeGradients,
} from './stepGradients.js'
import { combineMetrics, type PartOutput, type StepMetrics } from './stepMetrics.js'
import { checkRows, learnedTokens, microBatches, type TrainingRows, tensorsOfRows } from './stepRows.js'

/** Everything that training changes: weights that are not frozen, and what the optimizer remembers of them. */
export interface TrainerState<S> {
  readonly params: NamedTensors
  readonly optimizer: S
}

export interface TrainStepOptions<S> {
  readonly config: DecoderConfig
  readonly optimizer: Optimizer<S>
  /** Any policy loss, or settings of GRPO's. Default: GRPO's with its defaults. */
  readonly loss?: GRPOLossOptions | PolicyLoss
  /** Default 1. */
  readonly maxGradNorm?: number
  /** About how many tokens are computed in one run; gradients of several runs are added up. Default 4096. */
  readonly microBatchTokens?: number
  /**
   * Weights that the model needs and that the step leaves alone, such as the base of an adapter and its scalings. No gradient of them is
   * computed. They are kept until `release`.
   */
  readonly frozen?: NamedTensors
  /** What is computed again for the gradient instead of being kept: less memory for about a third more time. Default none. */
  readonly recompute?: Recompute
}

export interface TrainStep<S> {
  /** Parameters with a fresh optimizer. The tensors belong to the enclosing scope. */
  readonly init: (params: NamedTensors) => TrainerState<S>
  /**
   * One step. Tensors of `state` are not freed: the caller owns them, and the result.
   *
   * Errors   throws RangeError for rows that do not fit each other or for no rows; throws NonFiniteLoss for NaN, before anything is changed.
   */
  readonly update: (
    state: TrainerState<S>,
    rows: TrainingRows,
    learningRate: number,
  ) => { readonly state: Owned<TrainerState<S>>; readonly metrics: StepMetrics }
  readonly release: () => void
}

/** The loss or the gradient is NaN or infinite. */
export class NonFiniteLoss extends Error {
  constructor(loss: number, gradNorm: number) {
    super(`the loss is ${loss} and the gradient norm ${gradNorm}: lower the learning rate, or look at the batch`)
    this.name = 'NonFiniteLoss'
  }
}

type CountInput = Pick<GradInput, 'params' | 'batch' | 'mask' | 'oldLogProbs' | 'inverseTemperature'>

interface LearnInput<S> {
  readonly state: TrainerState<S>
  readonly grads: NamedTensors
  readonly learningRate: tf.Tensor
}

interface LearnOutput<S> {
  readonly state: TrainerState<S>
  readonly norm: tf.Tensor
}

const lossOf = (loss: GRPOLossOptions | PolicyLoss = {}): PolicyLoss => ('apply' in loss ? loss : GRPOLoss(loss))

/** Names that are to be trained and frozen at once: none may be. */
const checkApart = (params: NamedTensors, frozen: NamedTensors): void => {
  const both = Object.keys(params).filter((name) => Object.hasOwn(frozen, name))
  if (both.length > 0)
    throw new RangeError(`trainStep: ${both.map((name) => `'${name}'`).join(', ')} cannot be trained: it is frozen`)
}

/**
 * Makes the training step: forward and backward pass in micro-batches, gradient clipping, optimizer.
 *
 * Gradients are normalized by the tokens and completions of the whole mini-batch, so that the size of micro-batches changes nothing but
 * rounding. Neighbouring rows with the same prompt share its computation, forward and backward. What is frozen has neither gradients nor
 * optimizer state, and is no part of the trainer's state.
 *
 * Effects  keeps `frozen` and the compiled graphs until `release`.
 */
export const trainStep = <S>(options: TrainStepOptions<S>): TrainStep<S> => {
  const { config, optimizer, maxGradNorm = 1, microBatchTokens = 4096, recompute = 'none' } = options
  const loss = lossOf(options.loss)
  const kept = options.frozen && own(options.frozen)
  const frozen = options.frozen ?? {}
  const gradients = stepGradients(config, loss, recompute)
  const compiledCount = jit((input: CountInput) => {
    const logits = temperedLogits(input.params, config, input)
    const logProbs = tf.reshape(gatherLogProbs(logits, tf.reshape(input.batch.completionIds, [-1])), input.mask.shape)
    return tf.sum(loss.counted({ ...input, logProbs }))
  })
  const add = jit(({ a, b }: { readonly a: NamedTensors; readonly b: NamedTensors }) =>
    mapNamed(a, (x, y) => tf.add(x!, y!), b),
  )
  const learn = ({ state, grads, learningRate }: LearnInput<S>): LearnOutput<S> => {
    const clipped = clipByGlobalNorm(grads, maxGradNorm)
    const next = optimizer.update(clipped.grads, state.optimizer, state.params, learningRate)
    return { state: { params: next.params, optimizer: next.state }, norm: clipped.norm }
  }
  const compiledLearn = jit(learn, { memory: recompute === 'none' ? 'kept' : 'returned' })
  /** Forward, backward and optimizer in one graph: the gradients never leave it. */
  const compiledWhole = jit((input: Omit<GradInput, 'params'> & Omit<LearnInput<S>, 'grads'>) => {
    const { state, learningRate, ...batch } = input
    const { grads, ...part } = wholeGradients(config, loss)({ ...batch, params: state.params })
    return { part, ...learn({ state, learningRate, grads }) }
  })

  const countPart = (params: NamedTensors, rows: TrainingRows): number =>
    scope(() => compiledCount({ params: { ...frozen, ...params }, ...tensorsOfRows(rows, config) }).dataSync()[0]!)

  /** The tokens that count, of the whole mini-batch. Which ones do is known beforehand, unless a threshold decides. */
  const tokensThatCount = (params: NamedTensors, micros: readonly TrainingRows[]): number =>
    loss.counting === 'mask'
      ? micros.reduce((sum, micro) => sum + learnedTokens(micro), 0)
      : micros.reduce((sum, micro) => sum + countPart(params, micro), 0)

  const gradBatch = (rows: TrainingRows, counts: LossCounts): GradBatch => ({
    counts,
    ...tensorsOfRows(rows, config),
  })

  /** Gradients of each micro-batch, added up; one set of them is alive at a time. */
  const accumulate = (
    params: NamedTensors,
    micros: readonly TrainingRows[],
    counts: LossCounts,
  ): { readonly grads: NamedTensors; readonly parts: readonly PartOutput[] } => {
    const run = (rows: TrainingRows): GradOutput =>
      scope(() => gradients.run({ params, frozen, ...gradBatch(rows, counts) }))
    const first = run(micros[0]!)
    return micros.slice(1).reduce(
      (sum, rows) => {
        const part = run(rows)
        const grads = add({ a: sum.grads, b: part.grads })
        discard([sum.grads, part.grads], grads)
        return { grads, parts: [...sum.parts, part] }
      },
      { grads: first.grads, parts: [first] as readonly PartOutput[] },
    )
  }

  const learnFrom = (
    state: TrainerState<S>,
    micros: readonly TrainingRows[],
    { counts, learningRate }: { readonly counts: LossCounts; readonly learningRate: tf.Tensor },
  ): LearnOutput<S> & { readonly parts: readonly PartOutput[] } => {
    const [only, ...more] = micros
    if (recompute === 'none' && only !== undefined && more.length === 0) {
      const { part, ...learned } = compiledWhole({
        state,
        frozen,
        learningRate,
        ...gradBatch(only, counts),
      })
      return { parts: [part], ...learned }
    }
    const { grads, parts } = accumulate(state.params, micros, counts)
    return { parts, ...compiledLearn({ state, grads, learningRate }) }
  }

  return {
    init: (params) => {
      checkApart(params, frozen)
      return { params, optimizer: optimizer.init(params) }
    },
    update: (state, rows, learningRate) => {
      checkRows(rows)
      checkApart(state.params, frozen)
      return scope(() => {
        const micros = microBatches(rows, microBatchTokens)
        const tokens = tokensThatCount(state.params, micros)
        const counts = { tokens: tf.scalar(tokens), completions: tf.scalar(rows.completions.length) }
        const { parts, ...learned } = learnFrom(state, micros, { counts, learningRate: tf.scalar(learningRate) })
        const metrics = combineMetrics(parts, learned.norm.dataSync()[0]!)
        if (!Number.isFinite(metrics.loss) || !Number.isFinite(metrics.gradNorm)) {
          throw new NonFiniteLoss(metrics.loss, metrics.gradNorm)
        }
        return { state: own(learned.state), metrics }
      })
    },
    release: () => {
      kept?.release()
      gradients.release()
      for (const graph of [compiledCount, compiledLearn, compiledWhole, add]) graph.release()
    },
  }
}
