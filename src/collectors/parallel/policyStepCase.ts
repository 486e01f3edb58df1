/** The case of a policy loss from plain values, so that every thread can make it. */
import type { DecoderConfig } from '../../modules/transformer/config.js'
import { type AlgorithmName, type AlgorithmOptions, algorithmLoss } from '../../objectives/algorithms.js'
import { policyCase } from '../trainStep.js'
import type { StepCaseModule } from './messages.js'

/** A policy loss by its name. */
export interface NamedPolicyLoss {
  readonly config: DecoderConfig
  readonly algorithm: AlgorithmName
  readonly options: AlgorithmOptions
}

/** The case of the loss of an algorithm. Errors: throws RangeError for options that the algorithm cannot have. */
export const namedPolicyCase = ({ config, algorithm, options }: NamedPolicyLoss) =>
  policyCase(config, algorithmLoss(algorithm, options))

/** What makes `namedPolicyCase` in another thread. */
export const policyStepCase = (input: NamedPolicyLoss): StepCaseModule => ({
  module: import.meta.url,
  exportName: 'namedPolicyCase',
  input,
})
