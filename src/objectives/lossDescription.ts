/** Conversion of losses to JSON and back, for run folders and other threads. */
import type { Json } from '../data/codecs/plainValues.js'
import { DistillationLoss } from './distillationLoss.js'
import { type DPOLoss, dpoLoss } from './dpoLoss.js'
import { GRPOLoss } from './grpoLoss.js'
import { type PolicyLoss, type PolicyLossOptions, policyLoss } from './policyLoss.js'
import { type PPOLoss, ppoLoss } from './ppoLoss.js'
import { type RewardModelLoss, rewardModelLoss } from './rewardModelLoss.js'
import { SFTLoss } from './sftLoss.js'
import { cispo } from './tokenLosses/cispo.js'
import { clippedSurrogate } from './tokenLosses/clippedSurrogate.js'
import { clipCov, klCov } from './tokenLosses/covariance.js'
import { dppo } from './tokenLosses/dppo.js'
import { dro } from './tokenLosses/dro.js'
import { gmpo } from './tokenLosses/gmpo.js'
import { gspo } from './tokenLosses/gspo.js'
import { luspo } from './tokenLosses/luspo.js'
import { policyGradient } from './tokenLosses/policyGradient.js'
import { sapo } from './tokenLosses/sapo.js'
import type { TokenObjective } from './tokenLosses/tokenObjective.js'
import { vespo } from './tokenLosses/vespo.js'
import { type ValueLoss, valueLoss } from './valueLoss.js'

/** Any loss that can be described. */
export type AnyLoss = PolicyLoss | PPOLoss | ValueLoss | SFTLoss | DPOLoss | DistillationLoss | RewardModelLoss

/** The function that creates a loss, and its settings. */
export interface LossDescription {
  readonly name: string
  readonly options: { readonly [setting: string]: Json }
}

type Make<T> = (options: never) => T

/** The objectives of `policyLoss`, by the name of the function that creates them. */
const OBJECTIVES: ReadonlyMap<string, Make<TokenObjective>> = new Map<string, Make<TokenObjective>>(
  Object.entries({
    cispo,
    clipCov,
    clippedSurrogate,
    dppo,
    dro,
    gmpo,
    gspo,
    klCov,
    luspo,
    policyGradient,
    sapo,
    vespo,
  }),
)

type Described = LossDescription | { readonly own: string }

const plain = (options: object): LossDescription['options'] =>
  Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as LossDescription['options'] // settings are JSON

const describedObjective = (objective: TokenObjective): Described =>
  OBJECTIVES.has(objective.name) && objective.options !== undefined
    ? { name: objective.name, options: objective.options as LossDescription['options'] } // a record of settings
    : { own: `the objective ${objective.name} is not one of ${[...OBJECTIVES.keys()].join(', ')}` }

const describedPolicy = (loss: PolicyLoss): Described => {
  const options = loss.options as PolicyLossOptions // of `policyLoss`, or of `GRPOLoss`, which has no objective
  if (loss.name === 'GRPOLoss') return { name: 'GRPOLoss', options: plain(options) }
  const { objective = clippedSurrogate(), ...rest } = options
  const described = describedObjective(objective)
  if ('own' in described) return described
  return { name: 'policyLoss', options: plain({ ...rest, objective: described }) }
}

const describedLoss = (loss: AnyLoss): Described => {
  switch (loss.kind) {
    case 'policy':
      return describedPolicy(loss)
    case 'ppo': {
      const policy = describedPolicy(loss.policy)
      if ('own' in policy) return policy
      const { valueCoefficient, value } = loss
      return { name: 'ppoLoss', options: plain({ policy, value: describedLoss(value), valueCoefficient }) }
    }
    default:
      return { name: loss.name, options: plain(loss.options) }
  }
}

/**
 * Describes a loss as JSON.
 *
 * Errors   throws RangeError for a loss with a custom objective, which has no description.
 *
 * @example
 * lossDescription(GRPOLoss({ clipEpsilon: 0.3 })) // { name: 'GRPOLoss', options: { clipEpsilon: 0.3 } }
 */
export const lossDescription = (loss: AnyLoss): LossDescription => {
  const described = describedLoss(loss)
  if ('own' in described) throw new RangeError(`lossDescription: ${described.own}`)
  return described
}

const made = <T>(makers: ReadonlyMap<string, Make<T>>, { name, options }: LossDescription): T => {
  const make = makers.get(name)
  if (make === undefined)
    throw new RangeError(`lossOfDescription: unknown name '${name}', expected one of ${[...makers.keys()].join(', ')}`)
  return make(options as never) // the makers check their settings
}

const policyOf = ({ objective, ...options }: LossDescription['options']): PolicyLoss =>
  policyLoss({ ...options, objective: made(OBJECTIVES, objective as unknown as LossDescription) }) // by `describedPolicy`

const LOSSES: ReadonlyMap<string, Make<AnyLoss>> = new Map<string, Make<AnyLoss>>(
  Object.entries({
    GRPOLoss,
    policyLoss: policyOf,
    ppoLoss: ({
      policy,
      value,
      valueCoefficient,
    }: Readonly<Record<'policy' | 'value', LossDescription>> & { readonly valueCoefficient: number }) =>
      ppoLoss({
        policy: made(LOSSES, policy) as PolicyLoss, // as described
        value: made(LOSSES, value) as ValueLoss,
        valueCoefficient,
      }),
    valueLoss,
    SFTLoss,
    dpoLoss,
    DistillationLoss,
    rewardModelLoss,
  }),
)

/**
 * Creates the loss of a description: the inverse of `lossDescription`.
 *
 * Errors   throws RangeError for an unknown name or invalid settings.
 *
 * @example
 * lossOfDescription({ name: 'GRPOLoss', options: {} }).name // 'GRPOLoss'
 */
export const lossOfDescription = (description: LossDescription): AnyLoss => made(LOSSES, description)
