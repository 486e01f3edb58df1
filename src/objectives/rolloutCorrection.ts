/**
 * Corrections for tokens that were sampled by another policy than the trained one: engines round
 * differently, and policies become stale.
 */
import { checkOptions } from '@tandem-rl/base'
import { checkShapes, lengthsOf, type TokenAdvantages, type TokenRows, underMask } from './advantages/rows.js'
import {
  ROLLOUT_CORRECTION_OPTIONS,
  ROLLOUT_CORRECTION_REJECT_OPTIONS,
  ROLLOUT_CORRECTION_WEIGHTS_OPTIONS,
} from './optionKinds.js'

/** Weights of tokens by `w = pi_train / pi_sampler`, of the token or of the whole completion. */
export interface CorrectionWeights {
  readonly level: 'token' | 'sequence'
  /**
   * One number caps the weights from above (truncated importance sampling); two set weights outside
   * the range to 0 (IcePop).
   */
  readonly limit: number | readonly [low: number, high: number]
  /** Divides by the mean weight of tokens or of completions. Default `no`. */
  readonly normalized?: 'yes' | 'no'
}

/**
 * The statistic of a rejection: of a token (`token`), or of a completion: the sum, the mean or the
 * maximum over its tokens. With `x = log pi_train - log pi_sampler`, `k1` is `-x`, `k2` is `x^2 /
 * 2`, `k3` is `e^x - 1 - x`.
 */
export type RejectionStatistic =
  | 'token-k1'
  | 'token-k2'
  | 'token-k3'
  | 'sequence-sum-k1'
  | 'sequence-sum-k2'
  | 'sequence-sum-k3'
  | 'sequence-mean-k1'
  | 'sequence-mean-k2'
  | 'sequence-mean-k3'
  | 'sequence-max-k2'
  | 'sequence-max-k3'

export interface Rejection {
  readonly statistic: RejectionStatistic
  /**
   * For k1 the bounds of the ratio, `[low, high]`, or `high` for `[1 / high, high]`; for k2 and k3
   * the largest value.
   */
  readonly limit: number | readonly [low: number, high: number]
}

export interface RolloutCorrectionOptions {
  readonly weights?: CorrectionWeights
  /** Rejections. A token is kept if each of them keeps it. */
  readonly reject?: readonly Rejection[]
}

/** Metrics over the tokens that were unmasked before. */
export interface CorrectionMetrics {
  readonly meanWeight: number
  readonly deviation: number
  readonly smallest: number
  readonly largest: number
  /** Effective sample size as a share: `1 / mean((w / mean w)^2)`. */
  readonly ess: number
  /** Shares of tokens whose weight was above or below the limits. */
  readonly above: number
  readonly below: number
  /** Share of tokens that were rejected. */
  readonly rejected: number
}

/** The `weights` and `mask` for a policy loss. */
export interface RolloutCorrection {
  readonly weights: TokenAdvantages
  readonly mask: TokenAdvantages
  readonly metrics: CorrectionMetrics
}

const LARGEST = 20

const power = (x: number): number => Math.exp(Math.min(LARGEST, Math.max(-LARGEST, x)))

const sum = (xs: readonly number[]): number => xs.reduce((a, b) => a + b, 0)
const mean = (xs: readonly number[]): number => (xs.length === 0 ? 0 : sum(xs) / xs.length)

const divergence = (form: string, x: number): number => {
  if (form === 'k1') return -x
  return form === 'k2' ? 0.5 * x * x : Math.exp(x) - 1 - x
}

/** Returns a test that is true if a value of the statistic is kept. */
const keeps = ({ statistic, limit }: Rejection): ((value: number) => boolean) => {
  if (!statistic.endsWith('k1')) return (value) => value <= (limit as number) // checked by `checkCorrection`
  const [low, high] = typeof limit === 'number' ? [1 / limit, limit] : limit
  return (value) => value >= Math.log(low) && value <= Math.log(high)
}

const rowStatistic = (statistic: RejectionStatistic, values: readonly number[]): number => {
  if (statistic.startsWith('sequence-sum')) return sum(values)
  return statistic.startsWith('sequence-mean') ? mean(values) : values.reduce((a, b) => Math.max(a, b), 0)
}

const rejectRows = (rejection: Rejection, x: TokenAdvantages, mask: TokenRows): TokenAdvantages => {
  const form = rejection.statistic.slice(-2)
  const isKept = keeps(rejection)
  return x.map((row, b) => {
    const each = row.map((value) => divergence(form, value))
    if (rejection.statistic.startsWith('token'))
      return each.map((value, t) => (mask[b]![t] !== 0 && isKept(value) ? 1 : 0))
    const own = each.filter((_, t) => mask[b]![t] !== 0)
    const verdict = own.length > 0 && isKept(rowStatistic(rejection.statistic, own))
    return row.map((_, t) => (mask[b]![t] !== 0 && verdict ? 1 : 0))
  })
}

/** Returns the weights before any limit. */
const rawWeights = (level: CorrectionWeights['level'], x: TokenAdvantages, mask: TokenRows): TokenAdvantages =>
  x.map((row, b) => {
    const whole = level === 'sequence' ? power(sum(row)) : 0
    return row.map((value, t) => (mask[b]![t] === 0 ? 0 : level === 'token' ? power(value) : whole))
  })

const limitedWeight = (limit: CorrectionWeights['limit'], w: number): number => {
  if (typeof limit === 'number') return Math.min(w, limit)
  return w >= limit[0] && w <= limit[1] ? w : 0
}

const counted = (rows: TokenAdvantages, mask: TokenRows): readonly number[] =>
  rows.flatMap((row, b) => row.filter((_, t) => mask[b]![t] !== 0))

const normalizer = ({ level }: CorrectionWeights, weights: TokenAdvantages, mask: TokenRows): number => {
  if (level === 'token') return mean(counted(weights, mask))
  const lengths = lengthsOf(mask)
  const rows = weights.flatMap((row, b) => (lengths[b] === 0 ? [] : [sum(row) / lengths[b]!]))
  return mean(rows)
}

const metricsOf = (
  weights: readonly number[],
  raw: readonly number[],
  limit: CorrectionWeights['limit'] | undefined,
): Omit<CorrectionMetrics, 'rejected'> => {
  const average = mean(weights)
  const [low, high] =
    limit === undefined ? [0, Number.POSITIVE_INFINITY] : typeof limit === 'number' ? [0, limit] : limit
  return {
    meanWeight: average,
    deviation: Math.sqrt(mean(weights.map((w) => (w - average) ** 2))),
    smallest: weights.reduce((a, b) => Math.min(a, b), weights[0] ?? 0),
    largest: weights.reduce((a, b) => Math.max(a, b), 0),
    ess: average === 0 ? 0 : 1 / mean(weights.map((w) => (w / average) ** 2)),
    above: mean(raw.map((w) => (w > high ? 1 : 0))),
    below: mean(raw.map((w) => (w < low ? 1 : 0))),
  }
}

const isPair = (limit: number | readonly [number, number]): limit is readonly [number, number] =>
  typeof limit !== 'number'

/** All statistics by which completions and tokens can be rejected. */
export const REJECTION_STATISTICS: readonly RejectionStatistic[] = [
  ...(['token-k1', 'token-k2', 'token-k3', 'sequence-sum-k1', 'sequence-sum-k2', 'sequence-sum-k3'] as const),
  ...(['sequence-mean-k1', 'sequence-mean-k2', 'sequence-mean-k3', 'sequence-max-k2', 'sequence-max-k3'] as const),
]

/** Checks the types of the settings, the weights and each rejection. Errors: as `checkOptions`. */
const checkKinds = (options: RolloutCorrectionOptions): void => {
  checkOptions('rolloutCorrection', options, ROLLOUT_CORRECTION_OPTIONS)
  if (options.weights !== undefined)
    checkOptions('rolloutCorrection, weights', options.weights, ROLLOUT_CORRECTION_WEIGHTS_OPTIONS)
  for (const rejection of options.reject ?? [])
    checkOptions('rolloutCorrection, reject', rejection, ROLLOUT_CORRECTION_REJECT_OPTIONS)
}

const checkCorrection = (options: RolloutCorrectionOptions): void => {
  checkKinds(options)
  const { weights, reject = [] } = options
  for (const limit of [...(weights ? [weights.limit] : []), ...reject.map((rejection) => rejection.limit)]) {
    const isWrong = isPair(limit) ? !(limit[0] >= 0 && limit[0] < limit[1]) : !(limit > 0)
    if (isWrong) throw new RangeError(`rolloutCorrection: limits must be positive and in order, got ${String(limit)}`)
  }
  const narrow = reject.find(({ statistic, limit }) => statistic.endsWith('k1') && !isPair(limit) && limit < 1)
  if (narrow !== undefined)
    throw new RangeError(
      `rolloutCorrection: one limit L of ${narrow.statistic} means 1/L to L and must be at least 1, got ${String(narrow.limit)}`,
    )
  const wrong = reject.find(({ statistic, limit }) => !statistic.endsWith('k1') && isPair(limit))
  if (wrong !== undefined) throw new RangeError(`rolloutCorrection: ${wrong.statistic} has one limit, not two`)
}

/**
 * Computes weights and a mask for a batch from the difference between trainer and sampler, for
 * `policyLoss`.
 *
 * With `x = log pi_train - log pi_sampler`: `w = e^x` of a token, or `e^(sum x)` of a completion,
 * with x and its sum limited to 20 nats. Call it with the whole mini-batch, before it is split into
 * micro-batches.
 *
 * Equation $u_t = \min(w_t, c)$ (truncated) or $w_t [l \le w_t \le h]$ (IcePop), with
 *          $w_t = \frac{\pi_{train}}{\pi_{sampler}}$ of the token, or of the completion
 *          $\exp(\sum_t \log w_t)$
 * When     if different engines sample and train, because the same weights give different
 *          log-probabilities there. Token weights are biased and low in variance; completion
 *          weights are unbiased and noisy.
 * Used by  Ring-1T (IcePop, arXiv:2510.18855); verl `rollout_correction`; TRL
 *          `vllm_importance_sampling_correction`
 * Shapes   `difference`, x, and `mask` are rows of equal lengths; masked values have no effect.
 * Errors   throws RangeError for invalid limits, or rows that do not fit.
 * Edges    without weights all are 1. A completion without tokens is ignored.
 * Source   truncated importance sampling: Yao et al. 2025, "Your Efficient RL Framework Secretly
 *          Brings You Off-Policy RL Training"; IcePop: Ling Team 2025, arXiv:2510.18855, section 3;
 *          verl's rollout correction.
 *
 * @example
 * rolloutCorrection([[0, Math.log(4)]], [[1, 1]], { weights: { level: 'token', limit: 2 } }).weights // [[1, 2]]
 */
export const rolloutCorrection = (
  difference: TokenRows,
  mask: TokenRows,
  options: RolloutCorrectionOptions,
): RolloutCorrection => {
  checkCorrection(options)
  checkShapes('rolloutCorrection', mask, { difference })
  const x = underMask(difference, mask)
  const { weights: how, reject = [] } = options
  const ones = mask.map((row) => Array.from(row, (m) => (m === 0 ? 0 : 1)))
  const kept = reject
    .map((rejection) => rejectRows(rejection, x, mask))
    .reduce((all, one) => all.map((row, b) => row.map((k, t) => k * one[b]![t]!)), ones as TokenAdvantages)
  const raw = how === undefined ? ones : rawWeights(how.level, x, mask)
  const limited = how === undefined ? ones : raw.map((row) => row.map((w) => limitedWeight(how.limit, w)))
  const scale = how?.normalized === 'yes' ? 1 / (normalizer(how, limited, mask) + 1e-8) : 1
  const [before, after] = [counted(ones, mask).length, counted(kept, kept).length]
  return {
    weights: limited.map((row) => row.map((w) => w * scale)),
    mask: kept,
    metrics: {
      ...metricsOf(counted(limited, mask), counted(raw, mask), how?.limit),
      rejected: before === 0 ? 0 : 1 - after / before,
    },
  }
}
