/** One optimizer step of PPO with a value head on the policy's own decoder, and the rows that it learns from. */
import * as tf from '@tensorflow/tfjs'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import type { DecoderConfig } from '../../modules/transformer/config.js'
import type { DegenerateGroup } from '../../objectives/advantages/groupAdvantage.js'
import { type GAEOptions, gae } from '../../objectives/advantages/temporal.js'
import { type PolicyLoss, policyLoss } from '../../objectives/policyLoss.js'
import { type ValueLoss, valueLoss } from '../../objectives/valueLoss.js'
import { combineMetrics, type PolicyMeasures, type StepMetrics } from '../stepMetrics.js'
import type { TrainingRows } from '../stepRows.js'
import { type PolicyList, policyCase } from '../trainStep.js'
import { type LossStep, type LossStepOptions, lossStep, type StepCase } from './lossStep.js'
import { summed } from './readout.js'
import { type ValueList, type ValueMeasures, type ValueMetrics, valueMetrics, valueTerms } from './valueStep.js'

/** Rows of a policy loss with an advantage for each token, and what its value is to become. */
export interface PPORows extends TrainingRows {
  /** Per token. */
  readonly returns: readonly ArrayLike<number>[]
  /** Per token: its value when it was sampled. */
  readonly oldValues: readonly ArrayLike<number>[]
}

/** What trajectories earned, and what their tokens were thought to be worth. */
export interface ValuedRewards {
  /** One for each row: it is earned with the last token that counts. Or one for each token of each row. */
  readonly rewards: readonly number[] | readonly ArrayLike<number>[]
  /** Per token: see `makeValuer`. */
  readonly values: readonly ArrayLike<number>[]
}

const tokenRewards = (
  rewards: ValuedRewards['rewards'],
  masks: readonly ArrayLike<number>[],
): readonly ArrayLike<number>[] =>
  rewards.length > 0 && typeof rewards[0] !== 'number'
    ? (rewards as readonly ArrayLike<number>[]) // not numbers
    : masks.map((mask, i) => {
        const last = Array.from(mask).lastIndexOf(1)
        return Array.from(mask, (_, t) => (t === last ? (rewards as readonly number[])[i]! : 0)) // numbers
      })

/**
 * Rows for `ppoStep`, with the advantages and returns of `gae` from sampled rewards and values. What advantages the rows have is replaced.
 *
 * Errors   `Left(DegenerateGroup)` for rewards or values that are NaN or infinite; throws RangeError for rows that do not fit, and as `gae`.
 * Effects  none.
 *
 * @example
 * const rows = { prompts: [[1]], completions: [[2, 3]], oldLogProbs: [[-1, -1]], temperature: 1 }
 * ppoRows(rows, { rewards: [1], values: [[0.5, 0.5]] }, { whitened: 'no' }).right.advantages // [[0.5, 0.5]]
 */
export const ppoRows = (
  rows: Omit<TrainingRows, 'advantages'>,
  { rewards, values }: ValuedRewards,
  options: GAEOptions = {},
): E.Either<DegenerateGroup, PPORows> => {
  const { completions } = rows
  const masks = rows.masks ?? completions.map((row) => Array.from(row, () => 1))
  if (rewards.length !== completions.length)
    throw new RangeError(`ppoRows: ${completions.length} completions but ${rewards.length} rewards`)
  const rewarded = { groups: completions.map((_, i) => `${i}`), rewards: tokenRewards(rewards, masks), mask: masks }
  return pipe(
    gae(rewarded, values, options),
    E.map(({ advantages, returns }) => ({ ...rows, advantages, returns, oldValues: values })),
  )
}

export interface PPOStepOptions<S> extends LossStepOptions<S> {
  /** Default: the clipped surrogate, `policyLoss()`. An entropy bonus and divergences are settings of it. */
  readonly policy?: PolicyLoss
  /** Default `valueLoss({ clipEpsilon: 0.2 })`. */
  readonly value?: ValueLoss
  /** Weight of the value loss. Default 0.1. */
  readonly valueCoefficient?: number
}

/** `loss` is all of it. */
export type PPOMetrics = StepMetrics & ValueMetrics

interface PPOMeasures {
  readonly policy: PolicyMeasures
  readonly value: ValueMeasures
}

interface PPOLosses {
  readonly policy: PolicyLoss
  readonly value: ValueLoss
  readonly valueCoefficient: number
}

/** What makes a step of PPO. */
export const ppoCase = (
  config: DecoderConfig,
  { policy, value, valueCoefficient }: PPOLosses,
): StepCase<PPORows, PolicyList | ValueList, PPOMeasures, PPOMetrics> => {
  const policyPart = policyCase(config, policy)
  return {
    ...policyPart,
    name: 'ppoStep',
    rows: ({ returns, oldValues, ...rows }) => {
      const both = policyPart.rows(rows)
      return { ...both, lists: { ...both.lists, returns, oldValues } }
    },
    loss: (readout, rows) => {
      const actor = policyPart.loss(readout, rows)
      const critic = valueTerms(readout, rows, value)
      return {
        value: tf.add(actor.value, tf.mul(critic.valueLoss, valueCoefficient)),
        aux: { policy: actor.aux, value: critic },
      }
    },
    metrics: (parts, gradNorm) => ({
      ...combineMetrics(
        parts.map(({ loss, aux }) => ({ loss, aux: aux.policy })),
        gradNorm,
      ),
      ...valueMetrics(summed(parts.map(({ loss, aux }) => ({ loss, aux: aux.value })))),
    }),
  }
}

/**
 * Makes the training step of PPO where policy and value function share a decoder: `loss = policy + valueCoefficient * value`. The value head
 * (`initialValueHead`) is among the parameters. For a value function with a backbone of its own take `trainStep` and `valueStep`. See `lossStep`.
 *
 * Errors   as `lossStep`; throws RangeError for a coefficient that is negative or not finite; `update` throws RangeError without a value head.
 * Effects  keeps `frozen` and the compiled graphs until `release`.
 * Source   Schulman et al. 2017, arXiv:1707.06347, equation 9; the default coefficient is that of TRL's `PPOTrainer`.
 */
export const ppoStep = <S>({
  policy = policyLoss(),
  value = valueLoss({ clipEpsilon: 0.2 }),
  valueCoefficient = 0.1,
  ...options
}: PPOStepOptions<S>): LossStep<S, PPORows, PPOMetrics> => {
  if (!(valueCoefficient >= 0 && Number.isFinite(valueCoefficient)))
    throw new RangeError(`ppoStep: valueCoefficient must not be negative, got ${valueCoefficient}`)
  return lossStep(ppoCase(options.config, { policy, value, valueCoefficient }), options)
}
