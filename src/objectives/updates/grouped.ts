import { checkOptions, notAWeight, refuse } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import type { NamedTensors } from '../../data/weights.js'
import { GROUPED_OPTIONS, PARAMETER_GROUP_OPTIONS } from '../optionKinds.js'
import { configured, type RateOptions } from './learningRate.js'
import type { Optimizer } from './optimizer.js'

/** An optimizer with a state of unknown type. */
export interface AnyOptimizer extends Omit<Optimizer<object>, 'update'> {
  readonly update: (...input: [grads: NamedTensors, state: never, params: NamedTensors, learningRate: tf.Tensor]) => {
    readonly params: NamedTensors
    readonly state: object
  }
}

/** Parameters with an optimizer of their own. */
export interface ParameterGroup {
  readonly name: string
  /**
   * Returns true for parameters of the group. The last group may omit it, and gets all remaining
   * parameters.
   */
  readonly has?: (parameter: string, tensor: tf.Tensor) => boolean
  readonly optimizer: AnyOptimizer
  /** The factor of the group's learning rate. Default 1. */
  readonly learningRateScale?: number
}

/** The state of each group by its name. */
export type GroupedState = Readonly<Record<string, object>>

const membersOf = (groups: readonly ParameterGroup[], params: NamedTensors): ReadonlyMap<string, readonly string[]> => {
  const members = new Map<string, string[]>(groups.map(({ name }) => [name, []]))
  for (const [name, tensor] of Object.entries(params)) {
    const group = groups.find(({ has }) => has === undefined || has(name, tensor))
    if (group === undefined) throw new RangeError(`grouped: no group has the parameter '${name}'`)
    members.get(group.name)!.push(name)
  }
  return members
}

const select = (tensors: NamedTensors, names: readonly string[]): NamedTensors =>
  Object.fromEntries(names.map((name) => [name, tensors[name]!]))

/**
 * Combines optimizers: each parameter belongs to the first group that has it.
 *
 * Equation $p \leftarrow \operatorname{update}_{g(p)}(p)$ with the learning rate
 *          $\eta \, scale_{g(p)}$ of the first group that has it
 * When     if parameters need different optimizers: no decay for gains, `muon` for matrices.
 * Used by  parameter groups of `torch.optim`
 * Errors   throws RangeError for two groups of one name, for an empty list, for a group whose
 *          optimizer has a learning rate of its own, and in `init` for a parameter without a group.
 *
 * @example
 * grouped([{ name: 'all', optimizer: sgd() }]).name // 'grouped(all: sgd)'
 */
export const grouped = (groups: readonly ParameterGroup[], options: RateOptions = {}): Optimizer<GroupedState> => {
  checkOptions('grouped', options, GROUPED_OPTIONS)
  for (const group of groups) {
    checkOptions('grouped', group, PARAMETER_GROUP_OPTIONS)
    refuse('grouped', [
      notAWeight(`learningRateScale of ${group.name}`, group.learningRateScale ?? 1),
      group.optimizer.learningRate !== undefined &&
        `the optimizer of ${group.name} has a learningRate: pass it to grouped, and learningRateScale to the group`,
    ])
  }
  const names = groups.map(({ name }) => name)
  if (groups.length === 0 || new Set(names).size < names.length)
    throw new RangeError(`grouped: groups must have names of their own, got ${names.join(', ') || 'none'}`)
  const made: Optimizer<GroupedState> = {
    name: `grouped(${groups.map(({ name, optimizer }) => `${name}: ${optimizer.name}`).join(', ')})`,
    init: (params) => {
      const members = membersOf(groups, params)
      return Object.fromEntries(
        groups.map(({ name, optimizer }) => [name, optimizer.init(select(params, members.get(name)!))]),
      )
    },
    update: (grads, state, params, learningRate) => {
      const members = membersOf(groups, params)
      const updates = groups.map(({ name, optimizer, learningRateScale = 1 }) => {
        const own = members.get(name)!
        const rate = learningRateScale === 1 ? learningRate : tf.mul(learningRate, learningRateScale)
        const before = state[name] as never // the state that this optimizer made
        return [name, optimizer.update(select(grads, own), before, select(params, own), rate)] as const
      })
      const next: NamedTensors = Object.assign({}, ...updates.map(([, update]) => update.params))
      return {
        params: select(next, Object.keys(params)),
        state: Object.fromEntries(updates.map(([name, update]) => [name, update.state])),
      }
    },
  }
  const described = groups.map(({ name, optimizer, learningRateScale = 1 }) => ({
    name,
    optimizer: optimizer.name,
    options: optimizer.options ?? null,
    learningRateScale,
  }))
  const { learningRate, options: rate = {} } = configured(made, options)
  return { ...made, options: { ...(rate as object), groups: described }, ...(learningRate && { learningRate }) }
}
