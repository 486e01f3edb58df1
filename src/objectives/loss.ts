/** The contract of losses, and the one way to define them. */
import { checkOptions, exportOf, type Json, type ModuleExport } from '@tandem-rl/base'
import type * as tf from '@tensorflow/tfjs-core'
import { add } from '@tensorflow/tfjs-core'
import type { TensorDict } from '../data/tensorDict/tensorDict.js'
import { completionRows, type EntriesOf, entryOf, type LossRows } from './lossRows.js'
import { DEFINE_LOSS_OPTIONS } from './optionKinds.js'
import type { LossCounts } from './tokenLosses/aggregation.js'

/**
 * The model's numbers for the tokens of a micro-batch. Axes: B completions, T tokens, V vocabulary.
 * Each is computed when a loss reads it, and gradients flow through it.
 */
export interface ModelOutputs {
  /** `[B, T]`: the log-probability of each token at the temperature of the rows, in nats. */
  readonly logProbs: tf.Tensor
  /** `[B, T]`: the entropy of each token's distribution, in nats. Declared by `needs.entropy`. */
  readonly entropy: tf.Tensor
  /** `[B, T]`: the value before each token. Declared by `needs.head`. */
  readonly values: tf.Tensor
  /** `[B, T]`: 1 where the token is the most probable one. Absent if a server runs the model. */
  readonly greedy?: tf.Tensor
  /** `[B * T, V]`: logits divided by the temperature. Absent if a server runs the model. */
  readonly logits?: tf.Tensor
}

/** The tensors that every loss receives with those that it reads. */
export interface LossTensors {
  /** `[B, T]`: 1 for a token to learn from. */
  readonly mask: tf.Tensor
  /** Divisors of the whole mini-batch, with which the losses of micro-batches add up. */
  readonly counts: LossCounts
}

/** Measures of single tokens, `[B, T]`. Log-probabilities and entropies in nats. */
export interface TokenTensors {
  readonly logProbs: tf.Tensor
  readonly entropies: tf.Tensor
  /** Ratios of the trained to the old probability; 1 for masked tokens. */
  readonly ratios: tf.Tensor
  /** 1 for tokens whose gradient was clipped to 0. */
  readonly clipped: tf.Tensor
}

/**
 * The results of a loss for a micro-batch. The loss is the scalar `loss`, or else the sum of those
 * named `lossX`, as TorchRL sums `loss_x`. All other scalars are metrics. Other tensors are not
 * used.
 */
export interface LossOutput {
  readonly [name: string]: tf.Tensor | undefined
}

/** The combination of a metric's micro-batches. */
export type MetricReduction = 'sum' | 'max' | 'logSumExp'

/** Metrics of a step that every loss has. */
export interface LossMetrics {
  readonly loss: number
  /** Norm of the gradient before clipping. */
  readonly gradNorm: number
}

/** The scalars of a step, combined over its micro-batches, and its size. */
export interface StepSums {
  readonly sums: Readonly<Record<string, number>> & { readonly loss: number }
  readonly gradNorm: number
  /**
   * Number of places that the layers computed outside of attention, or `null` if a server computed
   * them.
   */
  readonly places: number | null
}

/** The inputs of a loss besides log-probabilities and entries of the batch. */
export interface LossNeeds {
  /** `metric` is cheaper: it has no gradient. Default `none`. */
  readonly entropy?: 'none' | 'metric' | 'differentiable'
  /** `uniform`: random numbers in [0, 1) for each token, in the list `noise`. Default `none`. */
  readonly noise?: 'none' | 'uniform'
  /** `value`: the model has a value head, which is trained too. Default `none`. */
  readonly head?: 'none' | 'value'
}

type LogProbsOnly = Pick<ModelOutputs, 'logProbs'>

/** The tokens that a loss trains on, if they depend on more than the mask. */
export interface LossSelection<in T = never> {
  /** Returns the trained tokens, `[B, T]`, from log-probabilities. No gradient. */
  readonly counted?: (model: LogProbsOnly, batch: T) => tf.Tensor
  /**
   * Chooses tokens of the whole mini-batch, `[B, T]`. Micro-batches get them as the list `chosen`.
   * No gradient.
   */
  readonly choose?: (model: LogProbsOnly, batch: T) => tf.Tensor
  /**
   * `none` if completions whose advantages are all 0 get no gradient. Then only their loss is
   * computed. Default `computed`.
   */
  readonly atZeroAdvantage?: 'none' | 'computed'
}

/** The numbers that a step of a loss reports. */
export interface LossMeasures<M extends LossMetrics, in T = never> {
  /** The combination of the scalars that are not sums over micro-batches. */
  readonly reduce: Readonly<Record<string, MetricReduction>>
  /** Computes the metrics of a step. */
  readonly metrics: (step: StepSums) => M
  /** Combines the metrics of several steps. */
  combine(steps: readonly M[]): M
  /** Returns the measures of single tokens. No gradient. */
  readonly tokens?: (model: ModelOutputs, batch: T, output: LossOutput) => TokenTensors
}

/** A loss: a pure function of model outputs and a batch. `T` are the tensors that it reads. */
export interface Loss<in B = never, out M extends LossMetrics = LossMetrics, in T = never> {
  readonly name: string
  /** Its settings. Runs store them, and compare them when they resume. */
  readonly options: Json
  /** The export that other threads load. Without it, one thread computes gradients. */
  readonly module?: ModuleExport | undefined
  /** Dotted names of the entries that every batch must have. */
  readonly reads: readonly string[]
  readonly needs: Required<LossNeeds>
  /** Reads the rows of a batch. */
  readonly rows: (batch: TensorDict<B>) => LossRows
  /** Computes loss and metrics of a micro-batch. */
  readonly apply: (model: ModelOutputs, batch: T) => LossOutput
  readonly selection: LossSelection<T>
  readonly measures: LossMeasures<M, T>
}

/** A loss with erased types, for code that passes it the rows that it made itself. */
export type AnyLoss = Loss<never, LossMetrics, never>

/** The metrics of a loss that has no `metrics` function: all scalars by name. */
export type ScalarMetrics = LossMetrics & { readonly [name: string]: number }

/** The settings of `defineLoss`. `R` are the names of the lists that the loss reads. */
export interface LossOptions<R extends string, M extends LossMetrics, T, B = EntriesOf<R>> {
  /** Also the name of its export, if `module` is a URL. */
  readonly name: string
  /**
   * The lists that batches must have, by the names of `LossLists`, or else by the dotted name of an
   * entry with one number for each row or each token.
   */
  readonly reads?: readonly R[]
  /** Lists that are read where batches have them. */
  readonly optional?: readonly string[]
  readonly apply: (model: ModelOutputs, batch: T) => LossOutput
  /** The settings of the loss. Default: none. */
  readonly options?: object
  /**
   * `import.meta.url` of the module that exports the loss under its name, or a function of
   * `options` that returns it. Required for more than one thread.
   */
  readonly module?: string | ModuleExport
  readonly needs?: LossNeeds
  /** Default: completions with the lists of `reads` and `optional`. */
  readonly rows?: Loss<B>['rows']
  readonly selection?: LossSelection<T>
  /** Default: all scalars are sums, and steps are averaged, except that `tokens` are added up. */
  readonly measures?: Partial<LossMeasures<M, T>>
}

/** The tensors of a loss that reads these lists. */
export type TensorsOf<R extends string> = LossTensors & { readonly [N in R]: tf.Tensor }

/** Returns the scalars of an output, by name. */
export const scalarsOf = (output: LossOutput): Readonly<Record<string, tf.Tensor>> =>
  Object.fromEntries(
    Object.entries(output).flatMap(([name, value]) => (value === undefined || value.rank > 0 ? [] : [[name, value]])),
  )

/**
 * Returns the loss of an output: its scalar `loss`, or else the sum of those named `lossX`, in
 * their order.
 *
 * Equation $L = \sum_x L_x$
 * Gradient the sum of theirs
 * When     for the value to differentiate.
 * Used by  every training step; TorchRL sums the fields of a loss module by their prefix `loss_`
 * Errors   throws RangeError for an output without a loss.
 *
 * @example
 * totalLoss({ lossObjective: tf.scalar(1), lossEntropy: tf.scalar(2), tokens: tf.scalar(8) }).dataSync() // [3]
 */
export const totalLoss = (output: LossOutput): tf.Tensor => {
  const scalars = scalarsOf(output)
  if (scalars.loss !== undefined) return scalars.loss
  const [first, ...more] = Object.entries(scalars).flatMap(([name, value]) => (/^loss[A-Z]/.test(name) ? [value] : []))
  if (first === undefined)
    throw new RangeError(`a loss has no scalar named loss or lossX: it has ${Object.keys(output).join(', ')}`)
  return more.reduce((sum, term) => add(sum, term), first)
}

/**
 * Combines the metrics of several steps: means over the steps, and sums of `tokens`. Steps with
 * `null` are left out of the mean.
 */
export const meanMetrics = <M extends LossMetrics>(steps: readonly M[]): M => {
  const [first, ...more] = steps
  if (first === undefined) throw new RangeError('there are no steps to combine')
  if (more.length === 0) return first
  const combined = Object.keys(first).map((name) => {
    const all = steps.flatMap((step) => {
      const value = (step as Readonly<Record<string, unknown>>)[name]
      return typeof value === 'number' ? [value] : []
    })
    const total = all.reduce((sum, x) => sum + x, 0)
    return [name, name === 'tokens' ? total : all.length === 0 ? null : total / all.length] as const
  })
  return Object.fromEntries(combined) as unknown as M // the same names
}

/** Returns settings as JSON, without the fields that are undefined. */
export const plainSettings = (options: object): Json =>
  Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as Json // settings are JSON

/**
 * Defines a loss. All losses are made by it, those of this package included.
 *
 * `apply` is a function of tensors, differentiated by tfjs. It returns scalars: `loss`, or terms
 * named `lossX` that are added up to it, and metrics. Divide by `counts`, the counts of the
 * whole mini-batch, so that micro-batches add up: `tokenMean` does.
 *
 * Errors   throws RangeError for unknown options.
 *
 * @example
 * const loss = defineLoss({ name: 'reinforce', reads: ['advantages'], apply: ({ logProbs }, { advantages, ...batch }) => ({ loss: tokenMean(tf.neg(tf.mul(logProbs, advantages)), batch) }) })
 * loss.reads // ['tokens.prompt', 'tokens.response', 'advantage']
 */
export const defineLoss = <
  const R extends string = never,
  M extends LossMetrics = ScalarMetrics,
  T = TensorsOf<R>,
  B = EntriesOf<R>,
>(
  options: LossOptions<R, M, T, B>,
): Loss<NoInfer<B>, NoInfer<M>, NoInfer<T>> => {
  checkOptions('defineLoss', options, DEFINE_LOSS_OPTIONS)
  const { name, reads = [], optional = [], needs = {}, rows, apply, selection = {}, measures = {} } = options
  const found = exportOf(options)
  return {
    name,
    options: plainSettings(options.options ?? {}),
    apply,
    selection,
    ...(found && { module: found }),
    reads: ['tokens.prompt', 'tokens.response', ...reads.map(entryOf)],
    needs: { entropy: 'none', noise: 'none', head: 'none', ...needs },
    rows: rows ?? completionRows([...reads, ...optional]),
    measures: {
      reduce: {},
      metrics: ({ sums, gradNorm }) => ({ ...sums, gradNorm }) as unknown as M, // `ScalarMetrics` by default
      combine: meanMetrics,
      ...measures,
    },
  }
}
