/** Plays the rollout of a lease. */
import { child, type Json, type Key } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import type { Env } from 'tandem-rl'
import { playMember, type RolloutRules } from 'tandem-rl/async'
import type { RolloutLease } from '../queues/groupQueue.js'

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
 * Plays the rollout of a lease. Ticket `t` has the key `child(key, t)`, so the rollout is the same
 * on every worker and in every attempt, and equals that of task `t` of an `LLMCollector`.
 *
 * Errors   as `playMember`.
 */
export const playLease = async <O, P>(
  { ticket, place, task }: Pick<RolloutLease<Json>, 'ticket' | 'place' | 'task'>,
  rules: LeaseRules<O, P>,
  signal: AbortSignal,
): ReturnType<typeof playMember<O, P>> => {
  const env = rules.env(task, ticket)
  if (place < env.batchSize) return playMember({ env, member: place, key: child(rules.key, ticket) }, rules, signal)
  const reason = `task ${ticket} has a group of ${env.batchSize}, but the lease is for member ${place}: the group sizes must be equal`
  return E.left({ _tag: 'ThrownRollout', reason, error: new RangeError(reason) })
}
