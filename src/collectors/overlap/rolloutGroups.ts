/**
 * A source of groups for asynchronous training, from the environments and the policy of a
 * collector.
 */
import { checkOptions } from '@tandem-rl/base'
import type { TokenAction } from '../../data/policy.js'
import type { Data } from '../../data/tensorDict/leaf.js'
import { get, type TensorDict } from '../../data/tensorDict/tensorDict.js'
import { ROLLOUT_GROUPS_OPTIONS } from '../optionKinds.js'
import { playGroup } from '../rollouts/group.js'
import type { PlayedRollout } from '../rollouts/rollout.js'
import { type CompleteGroup, joinGroups, type RolloutBatch } from '../rollouts/rolloutBatch.js'
import { type RolloutSettings, type RolloutSource, runRules } from '../rollouts/settings.js'
import type { GroupSource, PlayingTask } from './sampledGroups.js'

/** The options of `rolloutGroups`: those of a collector, without batching and concurrency. */
export type RolloutGroupsOptions<O, P = TokenAction> = RolloutSource<O, P> &
  Pick<RolloutSettings<O, P>, 'yieldOnlyLastSteps' | 'deadlineMs' | 'tokenBudget' | 'onFailure'> & {
    /**
     * Returns `no` for groups without a signal, which may be resampled. Default: `yes` for every
     * group.
     */
    readonly signal?: (group: CompleteGroup<O, P>) => 'yes' | 'no'
  }

/** A source of groups of rollouts. */
export interface RolloutGroups<O, P = TokenAction> extends GroupSource<CompleteGroup<O, P>> {
  /** The rows of groups as one batch. The groups are freed. */
  readonly join: (
    groups: readonly CompleteGroup<O, P>[],
  ) => Pick<RolloutBatch<O, P>, 'batch' | 'tasks' | 'cut' | 'turns'>
}

const versionsOf = <O, P>({ rows }: PlayedRollout<O, P>): readonly number[] =>
  get(rows.value as TensorDict as TensorDict<{ readonly policyVersion: Data<number> }>, 'policyVersion').items.toArray() // every action has it

/**
 * Plays one group per task. Task `t` uses the environment `env(t)` and the same random keys as task
 * `t` of a concurrent `LLMCollector`.
 *
 * Errors   throws RangeError that lists all invalid options. A group that fails after all retries
 *          is `Failed` with its `RolloutCause`.
 * Effects  those of environment and policy.
 */
export const rolloutGroups = <O, P = TokenAction>(given: RolloutGroupsOptions<O, P>): RolloutGroups<O, P> => {
  checkOptions('rolloutGroups', given, ROLLOUT_GROUPS_OPTIONS)
  const { signal = () => 'yes', ...options } = given

  const rules = runRules({ ...options, maxInFlight: 1 })
  const play = (task: number): PlayingTask<CompleteGroup<O, P>> => {
    const { outcome, cancel } = playGroup(task, rules.env(task), { ...rules, onPlaceFree: () => {} })
    return {
      cancel,
      outcome: outcome.then((ended) => {
        switch (ended._tag) {
          case 'Cancelled':
            return ended
          case 'Failed': {
            const { member, attempts, cause } = ended.failure
            const reason = `${member === undefined ? 'the reset' : `rollout ${member}`} of task ${task} failed in attempt ${attempts}`
            return { _tag: 'Failed', failure: { _tag: 'RolloutFailure', reason, cause } }
          }
          case 'Complete': {
            const { members } = ended
            const group = { task, members, turns: members.reduce((sum, { turns }) => sum + turns, 0) }
            const oldest = members.flatMap(versionsOf).reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY)
            return { _tag: 'Played', group, oldest, signal: signal(group) }
          }
        }
      }),
    }
  }
  return {
    play,
    discard: ({ members }) => {
      for (const { rows } of members) rows.release()
    },
    join: joinGroups,
  }
}
