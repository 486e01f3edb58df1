/** The loss of PPO: a policy loss and a value loss on one decoder. */
import { checkOptions, moduleExport, notAWeight, refuse } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import { defineLoss, type Loss, type LossOutput, type ModelOutputs } from './loss.js'
import { completionRows, type EntriesOf } from './lossRows.js'
import { PPO_LOSS_OPTIONS } from './optionKinds.js'
import {
  type PolicyLoss,
  type PolicyLossInput,
  type PolicyLossOutput,
  type PolicyOutputs,
  policyLoss,
} from './policyLoss.js'
import { combineUpdates, policyMetrics, type StepMetrics } from './policyMetrics.js'
import {
  combineValues,
  type ValueLoss,
  type ValueLossInput,
  type ValueLossOutput,
  type ValueMetrics,
  valueLoss,
  valueMetrics,
} from './valueLoss.js'

export interface PPOLossOptions {
  /**
   * Default: the clipped surrogate, `policyLoss()`. An entropy bonus and KL terms are its settings.
   */
  readonly policy?: PolicyLoss
  /** Default `valueLoss({ clipEpsilon: 0.2 })`. */
  readonly value?: ValueLoss
  /** Weight of the value loss. Default 0.1. */
  readonly valueCoefficient?: number
}

/** The batch of PPO. */
export type PPOBatch = EntriesOf<'oldLogProbs' | 'advantages' | 'returns' | 'oldValues'>

/** The tensors of both losses. */
export type PPOLossInput = PolicyLossInput & ValueLossInput

/** The outputs of both losses. `lossValue` has its weight, and `valueLoss` has not. */
export type PPOLossOutput = PolicyLossOutput & ValueLossOutput & LossOutput & { readonly valueLoss: tf.Tensor }

/** The metrics of policy and value. `loss` is the total. */
export type PPOMetrics = StepMetrics & ValueMetrics

/** A policy loss and a value loss. */
export interface PPOLoss extends Loss<PPOBatch, PPOMetrics, PPOLossInput> {
  readonly apply: (model: PolicyOutputs & Pick<ModelOutputs, 'values'>, batch: PPOLossInput) => PPOLossOutput
}

/**
 * Combines the losses of a policy and of a value head on its decoder.
 *
 * Equation $L = L_{policy} + c \, L_{value}$
 * Gradient the sum of both
 * When     with advantages of `gae`: policy and value function share the decoder and its forward
 *          pass.
 * Used by  PPO for InstructGPT (arXiv:2203.02155); TRL `PPOTrainer` with `vf_coef`
 * Errors   throws RangeError for a coefficient that is negative or not finite.
 * Source   Schulman et al. 2017, arXiv:1707.06347, equation 9; the default coefficient is that of
 *          TRL's `PPOTrainer`.
 *
 * @example
 * ppoLoss().needs.head // 'value'
 */
export const ppoLoss = (options: PPOLossOptions = {}): PPOLoss => {
  checkOptions('ppoLoss', options, PPO_LOSS_OPTIONS)
  const { policy = policyLoss(), value = valueLoss({ clipEpsilon: 0.2 }), valueCoefficient = 0.1 } = options
  refuse('ppoLoss', [notAWeight('valueCoefficient', valueCoefficient)])
  const apply: PPOLoss['apply'] = (model, batch) => {
    const { lossValue, ...measures } = value.apply(model, batch)
    const weighted = { valueLoss: lossValue, lossValue: tf.mul(lossValue, valueCoefficient) }
    return { ...policy.apply(model, batch), ...measures, ...weighted }
  }
  const { selection, measures, needs } = policy
  const loss = defineLoss<never, PPOMetrics, PPOLossInput, PPOBatch>({
    name: 'ppoLoss',
    options: { policy: { name: policy.name, options: policy.options }, value: value.options, valueCoefficient },
    ...(policy.module &&
      value.module && {
        module: moduleExport(import.meta.url, 'ppoLoss', {
          policy: policy.module,
          value: value.module,
          valueCoefficient,
        }),
      }),
    needs: { ...needs, head: 'value' },
    rows: completionRows(['oldLogProbs', 'advantages', 'refLogProbs', 'weights', 'returns', 'oldValues']),
    apply,
    selection: { ...selection, atZeroAdvantage: 'computed' }, // values learn anyway
    measures: {
      ...measures,
      metrics: (step) => ({ ...policyMetrics(step), ...valueMetrics(step.sums, step.sums.valueLoss!) }), // `apply` has it
      combine: (steps: readonly PPOMetrics[]) => ({ ...combineUpdates(steps), ...combineValues(steps) }),
    },
  })
  return { ...loss, reads: [...policy.reads, 'returns', 'values'], apply }
}
