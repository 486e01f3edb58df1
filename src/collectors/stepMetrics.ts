/** What a training step measures, and how the measures of micro-batches are put together. */
import type * as tf from '@tensorflow/tfjs'
import { essOf } from '../objectives/grpoLoss.js'
import type { PolicyLossOutput } from '../objectives/policyLoss.js'
import type { StepPart } from './stepGradients.js'

/** Means over the tokens of the step. Pure numbers unless said. */
export interface StepMetrics {
  readonly loss: number
  /** Share of tokens whose ratio is outside the objective's range, and of those that lost their gradient by it. */
  readonly clipFraction: number
  readonly cutFraction: number
  /** Nats. */
  readonly klApprox: number
  /** Nats; present when a reference is given. */
  readonly klToRef: number | null
  readonly ess: number
  /** Nats. */
  readonly entropy: number
  readonly gradNorm: number
  readonly tokens: number
  /** Largest difference between the sampler's and the recomputed log-probability of a token, before the update. Nats. */
  readonly maxLogProbGap: number
}

/** What a policy loss measures of a micro-batch. */
export interface PolicyMeasures {
  readonly output: PolicyLossOutput
  readonly gap: tf.Tensor
}

/** Sums of the metrics of the micro-batches: losses and means are parts of the whole, the rest is combined. */
export const combineMetrics = (parts: readonly StepPart<PolicyMeasures>[], gradNorm: number): StepMetrics => {
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
    cutFraction: sum((part) => part.aux.output.cutFraction),
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
    maxLogProbGap: Math.max(...numbers((part) => part.aux.gap)),
  }
}

const MEANS = [
  'clipFraction',
  'cutFraction',
  'klApprox',
  'ess',
  'entropy',
] as const satisfies readonly (keyof StepMetrics)[]

/**
 * The metrics of several updates as those of one: means over all of their tokens, sums of tokens, and means over the updates of loss and gradient
 * norm. `maxLogProbGap` is the first update's: only there the policy is still the one that sampled.
 *
 * Edges    without any update, as for a batch without a group to learn from, everything is 0 and there is no divergence.
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
    maxLogProbGap: first?.maxLogProbGap ?? 0,
  }
}
