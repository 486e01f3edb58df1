import { checkOptions, child } from '@tandem-rl/base'
import { discard, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import type { Policy, PolicyFailure } from 'tandem-rl'
import { concat, findData, select, type TensorDict, take } from 'tandem-rl/tensordict'
import { AGENT_POLICY_OPTIONS } from '../optionKinds.js'

export interface AgentPolicyOptions<In, Out> {
  /** The policy of each agent. Several agents may share one. */
  readonly policies: Readonly<Record<string, Policy<In, Out>>>
  readonly name?: string
}

const failed = (policy: string, reason: string): E.Either<PolicyFailure, never> =>
  E.left({ _tag: 'PolicyFailure', policy, kind: 'asked', reason })

/** Returns the agent of each row, or `undefined` if the state has no agents. */
const agentsOf = (td: TensorDict): readonly string[] | undefined => {
  const agents = findData<unknown>(td, 'agent')
  return agents?.every((agent) => typeof agent === 'string') ? agents : undefined
}

/** Groups rows by policy, in order of first appearance. */
const rowsByPolicy = <P>(policies: readonly P[]): ReadonlyMap<P, readonly number[]> => {
  const groups = new Map<P, number[]>()
  for (const [row, policy] of policies.entries()) groups.set(policy, [...(groups.get(policy) ?? []), row])
  return groups
}

/** Keeps the entries that all actions have, and drops those of single policies. */
const inCommon = <S>(parts: readonly TensorDict<S>[]): readonly TensorDict<S>[] => {
  const [first, ...others] = parts as readonly TensorDict[]
  const keys = [...first!.entries.keys()].filter((key) => others.every((other) => other.entries.has(key)))
  return (parts as readonly TensorDict[]).map((part) => select(part, ...keys) as TensorDict<S>) // with the keys of all
}

/**
 * Makes a policy for states of several agents. Each row is sent to the policy of its `agent`. The
 * rows of one policy are one call, and all calls start at once.
 *
 * A single policy for all agents can be used directly instead. Actions have the entries that all
 * called policies return.
 *
 * Errors   `Left(PolicyFailure)` of kind `asked` if the state has no `agent`, or names one without
 *          a policy; otherwise the first failure of a policy. Throws RangeError if there is no
 *          policy.
 * Effects  those of the policies. Policy number `n` of the record draws from `child(key, n)`. A
 *          row's randomness depends on its position among the rows of its policy.
 *
 * @example
 * agentPolicy({ policies: { ann: scriptedPolicy({ answers: [] }), bob: scriptedPolicy({ answers: [] }) } }).name // 'agentPolicy'
 */
export const agentPolicy = <In, Out>(options: AgentPolicyOptions<In, Out>): Policy<In, Out> => {
  checkOptions('agentPolicy', options, AGENT_POLICY_OPTIONS)
  const { policies, name = 'agentPolicy' } = options
  const distinct = [...new Set(Object.values(policies))]
  if (distinct.length === 0) throw new RangeError(`${name}: there is no policy`)
  return {
    name,
    act: (td, key, actOptions) => async () => {
      const agents = agentsOf(td)
      if (agents === undefined)
        return failed(name, "the state has no 'agent' entry, which names the agent of each turn")
      const unknown = [...new Set(agents)].filter((agent) => !Object.hasOwn(policies, agent))
      if (unknown.length > 0) return failed(name, `there is no policy of ${unknown.join(', ')}`)
      const groups = [...rowsByPolicy(agents.map((agent) => policies[agent]!))] // each has its own
      if (groups.length === 1) return groups[0]![0].act(td, child(key, distinct.indexOf(groups[0]![0])), actOptions)()
      const parts = await Promise.all(
        groups.map(async ([policy, rows]) => {
          using state = own(scope(() => take(td, rows)))
          return await policy.act(state.value, child(key, distinct.indexOf(policy)), actOptions)() // keeps the state alive
        }),
      )
      const actions = parts.flatMap((part) => (E.isRight(part) ? [part.right] : []))
      const failure = parts.find(E.isLeft)
      if (failure !== undefined) {
        discard(actions)
        return failure
      }
      const order = groups.flatMap(([, rows]) => rows)
      const places = order.map((_, row) => order.indexOf(row))
      const joined = scope(() => take(concat(inCommon(actions)), places))
      discard(actions, joined)
      return E.right(joined)
    },
  }
}
