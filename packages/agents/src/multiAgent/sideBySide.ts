import { child } from '@tandem-rl/base'
import { discard } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import type { Policy, PolicyFailure } from 'tandem-rl'
import { find, merge, TensorDict } from 'tandem-rl/tensordict'

/** Policies by the names under which their actions are stored. */
export type NamedPolicies = Readonly<Record<string, Policy<never, unknown>>>

/** The state that all these policies read. */
export type StateOfAll<P extends NamedPolicies> = {
  readonly [K in keyof P]: P[K] extends Policy<infer In, unknown> ? (state: In) => void : never
}[keyof P] extends (state: infer In) => void
  ? In
  : never

/** The entries of each policy, under its name. */
export type ActionsByName<P extends NamedPolicies> = {
  readonly [K in keyof P]: P[K] extends Policy<never, infer Out> ? TensorDict<Out> : never
}

const NAME = 'sideBySide'

const taken = (names: readonly string[]): E.Either<PolicyFailure, never> => {
  const reason = `the first policy already writes ${names.join(', ')}: use other names for the other policies`
  return E.left({ _tag: 'PolicyFailure', policy: NAME, kind: 'asked', reason })
}

/**
 * Makes a policy that acts like `policy` and stores the actions of other policies for the same
 * state under their names, such as `teacher.tokens.response`.
 *
 * The environment plays the action of `policy`, which draws the same random numbers as it does
 * alone. The others draw from `child(key, name)`. All calls start at once.
 *
 * Errors   `Left(PolicyFailure)`: the first failure of a policy, or a name that `policy` uses
 *          itself.
 * Effects  those of the policies.
 * Source   TorchRL's wrappers with `tokens_key`, `text_key`, `history_key` and `log_probs_key`.
 *
 * @example
 * sideBySide(scriptedPolicy({ answers: [] }), { teacher: scriptedPolicy({ answers: [] }) }).name // 'sideBySide'
 */
export const sideBySide = <In, Out, P extends NamedPolicies>(
  policy: Policy<In, Out>,
  others: P,
): Policy<In & StateOfAll<P>, Out & ActionsByName<P>> => ({
  name: NAME,
  act: (td, key, options) => async () => {
    const names = Object.keys(others)
    const results = await Promise.all([
      policy.act(td, key, options)(),
      ...names.map((name) => others[name]!.act(td as TensorDict<never>, child(key, name), options)()), // `StateOfAll` has what each reads
    ])
    const actions: readonly TensorDict[] = results.flatMap((result) => (E.isRight(result) ? [result.right] : []))
    const [first, ...sides] = actions
    const failure = results.find(E.isLeft)
    const clashing = names.filter((name) => find(first ?? td, [name]) !== undefined)
    if (failure !== undefined || first === undefined || clashing.length > 0) {
      discard(actions)
      return failure ?? taken(clashing)
    }
    const named = Object.fromEntries(names.map((name, i) => [name, sides[i]!]))
    const action = merge(first, TensorDict(named, first.batchShape))
    return E.right(action as unknown as TensorDict<Out & ActionsByName<P>>) // the entries of the first, and one node for each name
  },
})
