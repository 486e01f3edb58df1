import { checkOptions, child, type Key } from '@tandem-rl/base'
import { discard, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { isLeft, left, right } from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Policy, PolicyFailure } from '../data/policy.js'
import { stack } from '../data/tensorDict/joining.js'
import { type DeepMerge, merge } from '../data/tensorDict/merge.js'
import { TensorDict } from '../data/tensorDict/tensorDict.js'
import { type Env, type EnvFailure, endedRows, outcomeSpec, REMEMBERED } from './base/env.js'
import { ROLLOUT_OPTIONS } from './optionKinds.js'
import type { Stepped } from './transforms/transform.js'

export interface RolloutOptions {
  /** The most steps to play. Fewer are played if all episodes end before. */
  readonly steps: number
  readonly key: Key
  /** The request of the reset. Default: one without entries. */
  readonly request?: TensorDict
}

/** The steps of a rollout: each state with its action, and what the step led to under `next`. */
export type RolloutSteps<O, A> = DeepMerge<DeepMerge<O, A>, { readonly next: TensorDict<Stepped<O>> }>

const without = (td: TensorDict, names: readonly string[]): TensorDict =>
  TensorDict(Object.fromEntries([...td.entries].filter(([name]) => !names.includes(name))), td.batchShape)

const OUTCOME = Object.keys(outcomeSpec)

/**
 * One row of a rollout. What transforms remember belongs to the environment, and outcomes to
 * `next`.
 */
const stepRow = (state: TensorDict, action: TensorDict, next: TensorDict): TensorDict =>
  merge(
    merge(without(state, [REMEMBERED, ...OUTCOME]), action),
    TensorDict({ next: without(next, [REMEMBERED]) }, next.batchShape),
  ) as TensorDict

/**
 * Plays one batch of episodes and returns its steps, until all episodes are done or `steps` are
 * played. An element that has ended before the others has rows with `next.done` and a reward of 0.
 * For training there are collectors, which drop those rows.
 *
 * Shapes   batch shape `[B, T]`, with `T` at most `steps`.
 * Errors   `Left` with the failure of the environment or the policy. Throws RangeError for unknown
 *          options and for `steps` below 1.
 * Effects  those of the environment and the policy. The result's tensors belong to the caller or
 *          the enclosing scope.
 * Source   TorchRL `EnvBase.rollout`, which by default stops when the first episode is done.
 *
 * @example
 * typeof rollout(scriptedEnv([{ rewards: [0, 1] }]), scriptedPolicy({ answers: () => [5] }), { steps: 5, key: keyFromSeed(1) }) // 'function'
 */
export const rollout = <O, A, B extends A>(
  env: Env<O, A>,
  policy: Policy<O, B>,
  options: RolloutOptions,
): TaskEither<EnvFailure | PolicyFailure, TensorDict<RolloutSteps<O, B>>> => {
  checkOptions('rollout', options, ROLLOUT_OPTIONS)
  const { steps, key, request = TensorDict({}, [env.batchSize]) } = options
  if (!Number.isInteger(steps) || steps < 1) throw new RangeError(`rollout: steps must be at least 1, got ${steps}`)
  return async () => {
    const made: TensorDict[] = []
    const rows: TensorDict[] = []
    let episodes: TensorDict | undefined
    try {
      const first = await env.reset(request, child(key, 'reset'))()
      if (isLeft(first)) return first
      made.push(first.right)
      episodes = first.right
      let state = first.right
      for (let step = 0; step < steps; step++) {
        const action = await policy.act(state, child(key, step))()
        if (isLeft(action)) return action
        made.push(action.right as TensorDict) // its schema does not matter here
        const next = await env.step(state, action.right)()
        if (isLeft(next)) return left(next.left)
        made.push(next.right)
        rows.push(stepRow(state, action.right as TensorDict, next.right))
        if (!endedRows(next.right, 'done').includes(false)) break
        state = next.right as unknown as TensorDict<O> // a stepped state is a state
      }
      return right(scope(() => stack(rows, 1)) as unknown as TensorDict<RolloutSteps<O, B>>) // by the rows
    } finally {
      if (episodes !== undefined) env.release?.(episodes)
      discard(made, request)
    }
  }
}
