/** The loss of PPO: a policy loss and a value loss on one decoder. */
import { aNumber, aRecord, checkOptions, notAWeight, refuse } from '../core/options.js'
import { type PolicyLoss, policyLoss } from './policyLoss.js'
import { type ValueLoss, valueLoss } from './valueLoss.js'

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

/** A policy loss, a value loss and its weight. */
export interface PPOLoss extends Required<PPOLossOptions> {
  readonly kind: 'ppo'
  readonly name: 'ppoLoss'
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
 * ppoLoss().valueCoefficient // 0.1
 */
export const ppoLoss = (options: PPOLossOptions = {}): PPOLoss => {
  checkOptions('ppoLoss', options, { policy: aRecord, value: aRecord, valueCoefficient: aNumber })
  const { policy = policyLoss(), value = valueLoss({ clipEpsilon: 0.2 }), valueCoefficient = 0.1 } = options
  refuse('ppoLoss', [notAWeight('valueCoefficient', valueCoefficient)])
  return { kind: 'ppo', name: 'ppoLoss', policy, value, valueCoefficient }
}
