/** Plays one rollout of a task without a collector. */
import { ABORTED, child, type Key } from '@tandem-rl/base'
import { own } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import { TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { Env } from '../../envs/base/env.js'
import {
  type Attempted,
  type PlayedRollout,
  type PlayedTurn,
  playRollout,
  type RolloutRules,
  unlessCalledOff,
} from './rollout.js'

/** One rollout of a task. */
interface MemberOfTask<O, P> {
  /** The environment of the task, whose batch is one group. */
  readonly env: Env<O, P>
  /** The element of the group to play. */
  readonly member: number
  /** The key of the task. */
  readonly key: Key
  /** Called after each turn, in order. It must own the values that it keeps. */
  readonly onTurn?: (turn: PlayedTurn<O, P>) => void
}

/**
 * Resets the environment of a task and plays one member of its group to the end.
 *
 * Member `i` draws from `child(child(key, 'member'), i)`, after a reset with `child(key, 'reset')`.
 * With the key `child(collector's key, t)` this equals task `t` of an `LLMCollector` with
 * `concurrent` rollouts, on every machine and in every attempt.
 *
 * Errors   `Left(RolloutCause)`, or `ABORTED` when the signal aborts. Rejects like environment and
 *          policy.
 */
export const playMember = async <O, P>(
  { env, member, key, onTurn }: MemberOfTask<O, P>,
  rules: RolloutRules<O, P>,
  signal: AbortSignal,
): Promise<Attempted<PlayedRollout<O, P>>> => {
  const origin = child(key, 'reset')
  const opened = await unlessCalledOff(env.reset(TensorDict({}, [env.batchSize]), origin), signal)
  if (opened === ABORTED || E.isLeft(opened)) return opened
  using group = own(opened.right)
  const start = {
    env,
    group: group.value,
    member,
    origin,
    key: child(child(key, 'member'), member),
    ...(onTurn && { onTurn }),
  }
  return await playRollout(start, rules, signal)
}
