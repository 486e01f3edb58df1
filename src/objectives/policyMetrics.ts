/** Metrics of a policy loss, and their combination over steps. */
import { essOf } from './ess.js'
import type { LossMetrics, MetricReduction, StepSums } from './loss.js'

/** Means over the tokens of a step, without unit unless stated. */
export interface StepMetrics extends LossMetrics {
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

/** Returns the metrics of parts with `tokens` learned tokens in all. */
const placeMetrics = (
  tokens: number,
  places: readonly (number | null)[],
): Pick<StepMetrics, 'computedPlaces' | 'learnedFraction'> => {
  const computedPlaces = places.reduce((sum, count) => (sum === null || count === null ? null : sum + count), 0)
  return { computedPlaces, learnedFraction: computedPlaces === null ? null : tokens / Math.max(1, computedPlaces) }
}

/** The combination of the scalars that are not sums over micro-batches. */
export const POLICY_REDUCTIONS: Readonly<Record<string, MetricReduction>> = {
  logSumWeights: 'logSumExp',
  logSumSquaredWeights: 'logSumExp',
  maxLogProbGap: 'max',
}

/** Computes the metrics of a step from its scalars, which are scaled to the whole mini-batch. */
export const policyMetrics = ({ sums, gradNorm, places }: StepSums): StepMetrics => {
  const { tokens = 0, logSumWeights = 0, logSumSquaredWeights = 0, klToRef = null, entropy = 0 } = sums
  return {
    loss: sums.loss,
    clipFraction: sums.clipFraction!, // a scalar of every policy loss, like the others
    pgClipFraction: sums.pgClipFraction!,
    klApprox: sums.klApprox!,
    klToRef,
    ess: essOf({ tokens, logSumWeights, logSumSquaredWeights }),
    entropy,
    gradNorm,
    tokens,
    ...placeMetrics(tokens, [places]),
    maxLogProbGap: sums.maxLogProbGap!,
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
