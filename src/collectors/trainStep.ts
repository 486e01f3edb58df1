/** One optimizer step of GRPO on a collected batch: pure in, pure out. */
import * as tf from '@tensorflow/tfjs'
import type { NamedTensors } from '../data/weights.js'
import { jit } from '../engine/jit.js'
import { gatherLogProbs, tokenScores } from '../engine/ops/logProbs.js'
import { discard, type Owned, own, scope } from '../engine/scope.js'
import { valueAndGrad } from '../engine/valueAndGrad.js'
import type { DecoderConfig } from '../modules/transformer/config.js'
import { completionBatch, groupPrompts, type PackedCompletions, packCompletions } from '../modules/transformer/pack.js'
import { type ScoredBatch, temperedLogits } from '../modules/transformer/score.js'
import { promptsPerRun } from '../modules/transformer/scorer.js'
import {
  essOf,
  type GRPOCounts,
  GRPOLoss,
  type GRPOLossOptions,
  type GRPOLossOutput,
  totalLoss,
} from '../objectives/grpoLoss.js'
import { clipByGlobalNorm, mapNamed, type Optimizer } from '../objectives/updates/optimizer.js'

/** Everything that training changes. */
export interface TrainerState<S> {
  readonly params: NamedTensors
  readonly optimizer: S
}

/** Rows to learn from, on the host. All lists have one element for each row. */
export interface TrainingRows {
  readonly prompts: readonly ArrayLike<number>[]
  readonly completions: readonly ArrayLike<number>[]
  /** Per token, under the policy that sampled. */
  readonly oldLogProbs: readonly ArrayLike<number>[]
  readonly refLogProbs?: readonly ArrayLike<number>[]
  /** One for each row. */
  readonly advantages: readonly number[]
  /** At which the rows were sampled: their log-probabilities are compared at it. */
  readonly temperature: number
}

/** Means over the tokens of the step. Pure numbers unless said. */
export interface StepMetrics {
  readonly loss: number
  readonly clipFraction: number
  /** Nats. */
  readonly klApprox: number
  /** Nats; present when a reference is given. */
  readonly klToRef: number | null
  readonly ess: number
  /** Nats. */
  readonly entropy: number
  readonly gradNorm: number
  readonly tokens: number
  /** Largest difference between sampled and recomputed log-probability of a token, before the update. Nats. */
  readonly maxLogProbGap: number
}

export interface TrainStepOptions<S> {
  readonly config: DecoderConfig
  readonly optimizer: Optimizer<S>
  readonly loss?: GRPOLossOptions
  /** Default 1. */
  readonly maxGradNorm?: number
  /** About how many tokens are computed in one run; gradients of several runs are added up. Default 4096. */
  readonly microBatchTokens?: number
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

interface GradInput extends ScoredBatch {
  readonly params: NamedTensors
  readonly mask: tf.Tensor
  readonly oldLogProbs: tf.Tensor
  readonly refLogProbs?: tf.Tensor
  readonly advantages: tf.Tensor
  readonly counts: GRPOCounts
}

type CountInput = Pick<GradInput, 'params' | 'batch' | 'mask' | 'oldLogProbs' | 'inverseTemperature'>

/** Loss and metrics of a micro-batch. */
interface PartOutput {
  readonly loss: tf.Tensor
  readonly output: GRPOLossOutput
  readonly gap: tf.Tensor
}

interface GradOutput extends PartOutput {
  readonly grads: NamedTensors
}

interface LearnInput<S> {
  readonly state: TrainerState<S>
  readonly grads: NamedTensors
  readonly learningRate: tf.Tensor
}

interface LearnOutput<S> {
  readonly state: TrainerState<S>
  readonly norm: tf.Tensor
}

const gradients =
  (config: DecoderConfig, loss: GRPOLoss) =>
  (input: GradInput): GradOutput => {
    const { mask, oldLogProbs, refLogProbs, advantages, counts } = input
    const { value, grads, aux } = valueAndGrad(input.params, (params) => {
      const scores = tokenScores(temperedLogits(params, config, input), tf.reshape(input.batch.completionIds, [-1]), {
        entropy: (loss.options.entropyCoefficient ?? 0) === 0 ? 'metric' : 'differentiable',
      })
      const logProbs = tf.reshape(scores.logProbs, mask.shape)
      const output = loss.apply({
        logProbs,
        oldLogProbs,
        advantages,
        mask,
        counts,
        entropy: tf.reshape(scores.entropy, mask.shape),
        ...(refLogProbs && { refLogProbs }),
      })
      const gap = tf.max(tf.mul(tf.abs(tf.sub(logProbs, oldLogProbs)), mask))
      return { value: totalLoss(output), aux: { output, gap } }
    })
    return { loss: value, grads, ...aux }
  }

/** Rows `from .. to - 1` of each list. */
const rowsBetween = (rows: TrainingRows, from: number, to: number): TrainingRows => ({
  temperature: rows.temperature,
  prompts: rows.prompts.slice(from, to),
  completions: rows.completions.slice(from, to),
  oldLogProbs: rows.oldLogProbs.slice(from, to),
  advantages: rows.advantages.slice(from, to),
  ...(rows.refLogProbs && { refLogProbs: rows.refLogProbs.slice(from, to) }),
})

const padded = (rows: readonly ArrayLike<number>[], packed: PackedCompletions): tf.Tensor => {
  const values = new Float32Array(rows.length * packed.completionLength)
  for (const [i, row] of rows.entries()) values.set(row, i * packed.completionLength)
  return tf.tensor2d(values, [rows.length, packed.completionLength])
}

/** The tensors of rows, prompts shared by neighbors. */
const tensorsOfRows = (rows: TrainingRows, config: DecoderConfig) => {
  const packed = packCompletions(groupPrompts(rows.prompts), rows.completions)
  return {
    batch: completionBatch(packed, config),
    mask: tf.tensor2d(packed.completionMask, [rows.completions.length, packed.completionLength]),
    oldLogProbs: padded(rows.oldLogProbs, packed),
    ...(rows.refLogProbs && { refLogProbs: padded(rows.refLogProbs, packed) }),
    inverseTemperature: tf.scalar(1 / rows.temperature),
  }
}

const checkRows = (rows: TrainingRows): void => {
  const count = rows.completions.length
  if (count === 0) throw new RangeError('trainStep: there are no rows to learn from')
  for (const [name, list] of Object.entries(rows)) {
    if (Array.isArray(list) && list.length !== count) {
      throw new RangeError(`trainStep: ${count} completions but ${list.length} ${name}`)
    }
  }
  const short = rows.refLogProbs?.findIndex((row, i) => row.length !== rows.completions[i]!.length) ?? -1
  if (short >= 0) throw new RangeError(`trainStep: row ${short} has another number of refLogProbs than of tokens`)
  const uneven = rows.completions.findIndex((row, i) => row.length !== rows.oldLogProbs[i]!.length)
  if (uneven >= 0)
    throw new RangeError(
      `trainStep: row ${uneven} has ${rows.completions[uneven]!.length} tokens but ${rows.oldLogProbs[uneven]!.length} log-probabilities`,
    )
}

/** Sums of the metrics of the micro-batches: losses and means are parts of the whole, the rest is combined. */
const combineMetrics = (parts: readonly PartOutput[], gradNorm: number): StepMetrics => {
  const numbers = (f: (part: PartOutput) => tf.Tensor | undefined): readonly number[] =>
    parts.flatMap((part) => {
      const tensor = f(part)
      return tensor === undefined ? [] : [tensor.dataSync()[0]!]
    })
  const sum = (f: (part: PartOutput) => tf.Tensor | undefined): number => numbers(f).reduce((a, b) => a + b, 0)
  const logSum = (f: (part: PartOutput) => tf.Tensor): number => {
    const logs = numbers(f)
    const highest = Math.max(...logs)
    return highest + Math.log(logs.reduce((total, x) => total + Math.exp(x - highest), 0))
  }
  const tokens = sum((part) => part.output.tokens)
  return {
    loss: sum((part) => part.loss),
    clipFraction: sum((part) => part.output.clipFraction),
    klApprox: sum((part) => part.output.klApprox),
    klToRef: parts[0]?.output.klToRef === undefined ? null : sum((part) => part.output.klToRef),
    ess: essOf({
      tokens,
      logSumWeights: logSum((part) => part.output.logSumWeights),
      logSumSquaredWeights: logSum((part) => part.output.logSumSquaredWeights),
    }),
    entropy: sum((part) => part.output.entropy),
    gradNorm,
    tokens,
    maxLogProbGap: Math.max(...numbers((part) => part.gap)),
  }
}

/**
 * Makes the training step: forward and backward pass in micro-batches, gradient clipping, optimizer.
 *
 * Gradients are normalized by the tokens and completions of the whole mini-batch, so that the size of micro-batches changes nothing but
 * rounding. Neighbouring rows with the same prompt share its computation, forward and backward.
 */
export const trainStep = <S>(options: TrainStepOptions<S>): TrainStep<S> => {
  const { config, optimizer, maxGradNorm = 1, microBatchTokens = 4096 } = options
  const loss = GRPOLoss(options.loss)
  const compiledGradients = jit(gradients(config, loss))
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
  const compiledLearn = jit(learn)
  /** Forward, backward and optimizer in one graph: the gradients never leave it. */
  const compiledWhole = jit((input: Omit<GradInput, 'params'> & Omit<LearnInput<S>, 'grads'>) => {
    const { grads, ...part } = gradients(config, loss)({ ...input, params: input.state.params })
    return { part, ...learn({ ...input, grads }) }
  })

  const countPart = (params: NamedTensors, rows: TrainingRows): number =>
    scope(() => compiledCount({ params, ...tensorsOfRows(rows, config) }).dataSync()[0]!)

  /** The tokens that count, of the whole mini-batch. Which ones do is known beforehand, unless a threshold decides. */
  const tokensThatCount = (params: NamedTensors, rows: TrainingRows): number =>
    options.loss?.klMaskThreshold === undefined
      ? rows.completions.reduce((sum, row) => sum + row.length, 0)
      : microBatches(rows).reduce((sum, micro) => sum + countPart(params, micro), 0)

  const gradInput = (rows: TrainingRows, counts: GRPOCounts): Omit<GradInput, 'params'> => ({
    counts,
    ...tensorsOfRows(rows, config),
    advantages: tf.tensor2d([...rows.advantages], [rows.advantages.length, 1]),
  })

  /** Gradients of each micro-batch, added up; one set of them is alive at a time. */
  const accumulate = (
    params: NamedTensors,
    micros: readonly TrainingRows[],
    counts: GRPOCounts,
  ): { readonly grads: NamedTensors; readonly parts: readonly PartOutput[] } => {
    const run = (rows: TrainingRows): GradOutput =>
      scope(() => compiledGradients({ params, ...gradInput(rows, counts) }))
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
    { counts, learningRate }: { readonly counts: GRPOCounts; readonly learningRate: tf.Tensor },
  ): LearnOutput<S> & { readonly parts: readonly PartOutput[] } => {
    const [only, ...more] = micros
    if (only !== undefined && more.length === 0) {
      const { part, ...learned } = compiledWhole({ state, learningRate, ...gradInput(only, counts) })
      return { parts: [part], ...learned }
    }
    const { grads, parts } = accumulate(state.params, micros, counts)
    return { parts, ...compiledLearn({ state, grads, learningRate }) }
  }

  const microBatches = (rows: TrainingRows): readonly TrainingRows[] => {
    const groups = groupPrompts(rows.prompts)
    const size = promptsPerRun(groups, rows.completions, microBatchTokens) * groups.group
    return Array.from({ length: Math.ceil(rows.completions.length / size) }, (_, i) =>
      rowsBetween(rows, i * size, Math.min((i + 1) * size, rows.completions.length)),
    )
  }

  return {
    init: (params) => ({ params, optimizer: optimizer.init(params) }),
    update: (state, rows, learningRate) => {
      checkRows(rows)
      return scope(() => {
        const tokens = tokensThatCount(state.params, rows)
        const counts = { tokens: tf.scalar(tokens), completions: tf.scalar(rows.completions.length) }
        const micros = microBatches(rows)
        const { parts, ...learned } = learnFrom(state, micros, { counts, learningRate: tf.scalar(learningRate) })
        const metrics = combineMetrics(parts, learned.norm.dataSync()[0]!)
        if (!Number.isFinite(metrics.loss) || !Number.isFinite(metrics.gradNorm)) {
          throw new NonFiniteLoss(metrics.loss, metrics.gradNorm)
        }
        return { state: own(learned.state), metrics }
      })
    },
    release: () => {
      compiledGradients.release()
      compiledCount.release()
      compiledLearn.release()
      compiledWhole.release()
      add.release()
    },
  }
}
