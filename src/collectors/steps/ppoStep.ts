/** The training step and rows of PPO, with a value head on the policy's own decoder. */
import * as tf from '@tensorflow/tfjs-core'
import type { DecoderConfig } from '../../modules/transformer/config.js'
import type { PolicyLoss } from '../../objectives/policyLoss.js'
import type { ValueLoss } from '../../objectives/valueLoss.js'
import type { StepCase } from './lossStep.js'
import { type PolicyList, policyCase } from './policyStep.js'
import { summed } from './readout.js'
import { combineMetrics, type PolicyStepMeasures, type StepMetrics } from './stepMetrics.js'
import type { TrainingRows } from './stepRows.js'
import { type ValueList, type ValueMeasures, type ValueMetrics, valueMetrics, valueTerms } from './valueStep.js'

/** Rows of a policy loss with advantages and target values for each token. */
export interface PPORows extends TrainingRows {
  /** Per token: its target value. */
  readonly returns: readonly ArrayLike<number>[]
  /** Per token: its value at the time of sampling. */
  readonly oldValues: readonly ArrayLike<number>[]
}

/** The metrics of policy and value. `loss` is the total. */
export type PPOMetrics = StepMetrics & ValueMetrics

interface PPOMeasures {
  readonly policy: PolicyStepMeasures
  readonly value: ValueMeasures
}

interface PPOLosses {
  readonly policy: PolicyLoss
  readonly value: ValueLoss
  readonly valueCoefficient: number
}

/** Returns the step case of PPO. */
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
    tokens: ({ policy: { tokens } }) => tokens,
    metrics: (parts, gradNorm) => ({
      ...combineMetrics(
        parts.map(({ loss, aux, places }) => ({ loss, aux: aux.policy, places })),
        gradNorm,
      ),
      ...valueMetrics(summed(parts.map(({ loss, aux }) => ({ loss, aux: aux.value })))),
    }),
  }
}
