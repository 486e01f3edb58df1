/** Plays the rollout of a lease. */

import { ABORTED, child, type Json, type Key } from '@tandem-rl/base'
import { own } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import { TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { Env } from '../../envs/base/env.js'
import type { RolloutLease } from '../queues/groupQueue.js'
import {
  type Attempted,
  type PlayedRollout,
  playRollout,
  type RolloutRules,
  unlessCalledOff,
} from '../rollouts/rollout.js'

/** The settings for playing leases. */
export interface LeaseRules<O, P> extends RolloutRules<O, P> {
  /**
   * Returns the environment of a task, whose batch is one group. Equal tasks must give equal
   * environments in every worker.
   */
  readonly env: (task: Json, ticket: number) => Env<O, P>
  readonly key: Key
}

/**
 * Plays the rollout of a lease. The rollout is the same on every worker and in every attempt.
 *
 * Member `i` of ticket `t` draws from `child(child(child(key, t), 'member'), i)`, after a reset
 * with `child(child(key, t), 'reset')`. This equals task `t` of an `LLMCollector` with `concurrent`
 * rollouts.
 *
 * Errors   `Left(RolloutCause)`, or `ABORTED` when the signal aborts. Rejects like environment and
 *          policy.
 */
export const playLease = async <O, P>(
  { ticket, place, task }: Pick<RolloutLease<Json>, 'ticket' | 'place' | 'task'>,
  rules: LeaseRules<O, P>,
  signal: AbortSignal,
): Promise<Attempted<PlayedRollout<O, P>>> => {
  const env = rules.env(task, ticket)
  if (place >= env.batchSize) {
    const reason = `task ${ticket} has a group of ${env.batchSize}, but the lease is for member ${place}: the group sizes must be equal`
    return E.left({ _tag: 'ThrownRollout', reason, error: new RangeError(reason) })
  }
  const key = child(rules.key, ticket)
  const origin = child(key, 'reset')
  const opened = await unlessCalledOff(env.reset(TensorDict({}, [env.batchSize]), origin), signal)
  if (opened === ABORTED || E.isLeft(opened)) return opened
  using group = own(opened.right)
  const start = { env, group: group.value, member: place, origin, key: child(child(key, 'member'), place) }
  return await playRollout(start, rules, signal)
}
