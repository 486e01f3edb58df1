import { isLeft } from 'fp-ts/lib/Either.js'
import { Map as ImmutableMap, List } from 'immutable'
import { aNumber, checkOptions, refuse, twoNumbers } from '../../core/options.js'
import { checkGroupOptions, GROUP_SETTINGS, type GroupAdvantageOptions, groupAdvantage } from './groupAdvantage.js'

/** A finished trajectory on its way into a group. */
export interface GroupMember<T> {
  /** The explicit id of the group: prompts are never compared. */
  readonly groupId: string
  /** The sum of its rewards. */
  readonly return: number
  readonly value: T
}

/** What became of a trajectory. */
export type GroupOutcome<T> =
  | { readonly _tag: 'Waiting'; readonly groupId: string; readonly size: number }
  | {
      readonly _tag: 'Ready'
      readonly groupId: string
      readonly members: readonly GroupMember<T>[]
      readonly advantages: readonly number[]
    }
  | {
      readonly _tag: 'Dropped'
      readonly groupId: string
      readonly members: readonly GroupMember<T>[]
      readonly reason: DropReason
    }

/** The mean return is outside the bounds, or a return is NaN or infinite. */
export type DropReason = 'out-of-bounds' | 'not-finite'

/** Incomplete groups, by id. */
export type GroupQueue<T> = ImmutableMap<string, List<GroupMember<T>>>

export interface MCAdvantageOptions extends GroupAdvantageOptions {
  /** Trajectories in a group. */
  readonly groupSize: number
  /** Keep a group only if its mean return is strictly between these: dynamic sampling. */
  readonly keepReturnBounds?: readonly [low: number, high: number]
}

/** Monte-Carlo advantages as a state machine: pure, the queue is an argument and a result. */
export interface MCAdvantage {
  readonly initial: <T>() => GroupQueue<T>
  readonly push: <T>(queue: GroupQueue<T>, member: GroupMember<T>) => readonly [GroupOutcome<T>, GroupQueue<T>]
}

/**
 * Collects trajectories into groups and computes group-relative advantages.
 *
 * A trajectory waits until its group has `groupSize` members; then the group is ready, with its members in order of arrival and
 * their advantages (`groupAdvantage`), or dropped. Either way it leaves the queue.
 *
 * Equation $A$ of `groupAdvantage` for a full group; with bounds a group is kept where $b_l < \bar R < b_h$
 * When     where trajectories arrive one by one. With bounds it is the selection of DAPO: groups that all fail or all succeed teach nothing.
 * Used by  TorchRL `MCAdvantage`; the bounds: DAPO (arXiv:2503.14476), verl `filter_groups`
 * Errors   throws RangeError unless `groupSize` is at least 1 and the bounds are in order.
 * Effects  none. Every pushed trajectory is in the queue or in exactly one outcome.
 * Source   TorchRL `MCAdvantage`, which tells waiting and dropped apart by nothing, and groups by the text of the prompt.
 */
export const MCAdvantage = (options: MCAdvantageOptions): MCAdvantage => {
  const { groupSize, keepReturnBounds: bounds, ...advantage } = options
  checkOptions('MCAdvantage', options, { ...GROUP_SETTINGS, groupSize: aNumber, keepReturnBounds: twoNumbers })
  checkGroupOptions('MCAdvantage', advantage)
  refuse('MCAdvantage', [
    (!Number.isInteger(groupSize) || groupSize < 1) && `groupSize must be at least 1, got ${groupSize}`,
    bounds !== undefined && !(bounds[0] < bounds[1]) && `keepReturnBounds must be in order, got ${bounds.join(', ')}`,
  ])
  const finish = <T>(groupId: string, members: readonly GroupMember<T>[]): GroupOutcome<T> => {
    const returns = members.map((member) => member.return)
    const advantages = groupAdvantage(returns, advantage)
    if (isLeft(advantages)) return { _tag: 'Dropped', groupId, members, reason: 'not-finite' }
    const mean = returns.reduce((sum, r) => sum + r, 0) / returns.length
    if (bounds !== undefined && !(bounds[0] < mean && mean < bounds[1])) {
      return { _tag: 'Dropped', groupId, members, reason: 'out-of-bounds' }
    }
    return { _tag: 'Ready', groupId, members, advantages: advantages.right }
  }
  return {
    initial: <T>() => ImmutableMap<string, List<GroupMember<T>>>(),
    push: <T>(queue: GroupQueue<T>, member: GroupMember<T>) => {
      const { groupId } = member
      const members = queue.get(groupId, List<GroupMember<T>>()).push(member)
      if (members.size < groupSize) {
        return [{ _tag: 'Waiting', groupId, size: members.size }, queue.set(groupId, members)] as const
      }
      return [finish(groupId, members.toArray()), queue.delete(groupId)] as const
    },
  }
}
