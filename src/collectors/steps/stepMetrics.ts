/** Metrics of a training step, and their combination over micro-batches. */
import type * as tf from '@tensorflow/tfjs-core'
import { essOf } from '../../objectives/grpoLoss.js'
import type { PolicyLossOutput } from '../../objectives/policyLoss.js'
import type { StepPart } from './stepGradients.js'

/** Means over the tokens of a step, without unit unless stated. */
export interface StepMetrics {
  readonly loss: number
  /**
   * Share of tokens whose ratio is outside the clip range, and of those that lost their gradient.
   */
  readonly clipFraction: number
  readonly pgClipFraction: number
  /** Nats. */
  readonly klApprox: number
  /** Nats, or `null` without a reference. */
  readonly klToRef: number | null
  readonly ess: number
  /** Nats. */
  readonly entropy: number
  readonly gradNorm: number
  /** Number of tokens that are learned from. */
  readonly tokens: number
  /**
   * Number of places that the layers compute outside of attention: prompts once for each group,
   * completions, and padding. `null` if a server computes the gradients.
   */
  readonly computedPlaces: number | null
  /** Tokens that are learned from, as a share of the computed places, or `null`. */
  readonly learnedFraction: number | null
  /**
   * Largest gap between a token's sampled and recomputed log-probability before the update, in
   * nats.
   */
  readonly maxLogProbGap: number
}

/** Numbers of the tokens of a micro-batch, `[B, T]`. Log-probabilities and entropy in nats. */
export interface TokenTensors {
  readonly logProbs: tf.Tensor
  readonly entropies: tf.Tensor
  /** Ratios of the trained to the old probability; 1 for masked tokens. */
  readonly ratios: tf.Tensor
  /** 1 for tokens whose gradient was clipped to 0. */
  readonly clipped: tf.Tensor
}

/** The metrics of a policy loss on a micro-batch. */
export interface PolicyMeasures {
  readonly output: PolicyLossOutput
  readonly gap: tf.Tensor
}

/** The measures of an optimizer step of a policy loss, which also has those of each token. */
export interface PolicyStepMeasures extends PolicyMeasures {
  readonly tokens: TokenTensors
}

/** A micro-batch, and the number of its computed places, if it is known. */
interface PolicyPart extends StepPart<PolicyMeasures> {
  readonly places: number | null
}

/** Returns the metrics of parts with `tokens` learned tokens in all. */
const placeMetrics = (
  tokens: number,
  places: readonly (number | null)[],
): Pick<StepMetrics, 'computedPlaces' | 'learnedFraction'> => {
  const computedPlaces = places.reduce((sum, count) => (sum === null || count === null ? null : sum + count), 0)
  return { computedPlaces, learnedFraction: computedPlaces === null ? null : tokens / Math.max(1, computedPlaces) }
}

/** Combines the metrics of micro-batches. Losses and means are already scaled to the whole step. */
export const combineMetrics = (parts: readonly PolicyPart[], gradNorm: number): StepMetrics => {
  const numbers = (f: (part: StepPart<PolicyMeasures>) => tf.Tensor | undefined): readonly number[] =>
    parts.flatMap((part) => {
      const tensor = f(part)
      return tensor === undefined ? [] : [tensor.dataSync()[0]!]
    })
  const sum = (f: (part: StepPart<PolicyMeasures>) => tf.Tensor | undefined): number =>
    numbers(f).reduce((a, b) => a + b, 0)
  const logSum = (f: (part: StepPart<PolicyMeasures>) => tf.Tensor): number => {
    const logs = numbers(f)
    const highest = Math.max(...logs)
    return highest + Math.log(logs.reduce((total, x) => total + Math.exp(x - highest), 0))
  }
  const tokens = sum((part) => part.aux.output.tokens)
  return {
    loss: sum((part) => part.loss),
    clipFraction: sum((part) => part.aux.output.clipFraction),
    pgClipFraction: sum((part) => part.aux.output.pgClipFraction),
    klApprox: sum((part) => part.aux.output.klApprox),
    klToRef: parts[0]?.aux.output.klToRef === undefined ? null : sum((part) => part.aux.output.klToRef),
    ess: essOf({
      tokens,
      logSumWeights: logSum((part) => part.aux.output.logSumWeights),
      logSumSquaredWeights: logSum((part) => part.aux.output.logSumSquaredWeights),
    }),
    entropy: sum((part) => part.aux.output.entropy),
    gradNorm,
    tokens,
    ...placeMetrics(
      tokens,
      parts.map(({ places }) => places),
    ),
    maxLogProbGap: Math.max(...numbers((part) => part.aux.gap)),
  }
}

const MEANS = [
  'clipFraction',
  'pgClipFraction',
  'klApprox',
  'ess',
  'entropy',
] as const satisfies readonly (keyof StepMetrics)[]

/**
 * Combines the metrics of several updates: means over all tokens, sums of tokens and places, and
 * means of loss and gradient norm over updates. `maxLogProbGap` is taken from the first update,
 * because later updates no longer have the policy that sampled.
 *
 * Edges    without any update, all metrics are 0 and `klToRef` is `null`.
 */
export const combineUpdates = (updates: readonly StepMetrics[]): StepMetrics => {
  const total = updates.reduce((sum, { tokens }) => sum + tokens, 0)
  const byToken = (f: (update: StepMetrics) => number): number =>
    updates.reduce((sum, update) => sum + f(update) * update.tokens, 0) / Math.max(1, total)
  const byUpdate = (f: (update: StepMetrics) => number): number =>
    updates.reduce((sum, update) => sum + f(update), 0) / Math.max(1, updates.length)
  const [first, ...more] = updates
  if (first !== undefined && more.length === 0) return first
  const means = Object.fromEntries(MEANS.map((name) => [name, byToken((update) => update[name])])) as Pick<
    StepMetrics,
    (typeof MEANS)[number]
  > // by MEANS
  return {
    ...means,
    loss: byUpdate((update) => update.loss),
    klToRef: first === undefined || first.klToRef === null ? null : byToken((update) => update.klToRef ?? 0),
    gradNorm: byUpdate((update) => update.gradNorm),
    tokens: total,
    ...placeMetrics(
      total,
      updates.map(({ computedPlaces }) => computedPlaces),
    ),
    maxLogProbGap: first?.maxLogProbGap ?? 0,
  }
}
