/** Selection of the best trajectories of each group, for learning from them alone. */
import { checkOptions } from '@tandem-rl/base'
import { Map as ImmutableMap, List } from 'immutable'
import { TOP_K_REWARD_SELECTOR_OPTIONS } from '../optionKinds.js'

/** A finished trajectory with its reward. */
export interface RewardedMember<T> {
  /** The explicit id of the group. Prompts are never compared. */
  readonly groupId: string
  /** A single number; average several rewards first. */
  readonly reward: number
  readonly value: T
}

/** The result of adding a trajectory. */
export type TopKOutcome<T> =
  | { readonly _tag: 'Waiting'; readonly groupId: string; readonly size: number }
  /** The group is complete: its best members, best first. */
  | { readonly _tag: 'Selected'; readonly groupId: string; readonly members: readonly RewardedMember<T>[] }
  | {
      readonly _tag: 'Dropped'
      readonly groupId: string
      readonly members: readonly RewardedMember<T>[]
      /** No reward is above the median, as when all are equal; or a reward is NaN or infinite. */
      readonly reason: 'none-above-median' | 'not-finite'
    }

/** Incomplete groups, by id. */
export type TopKQueue<T> = ImmutableMap<string, List<RewardedMember<T>>>

export interface TopKRewardSelectorOptions {
  /** The number of trajectories in a group. */
  readonly groupSize: number
  /** The maximum number of selected trajectories. */
  readonly topK: number
}

/** The selection as a pure state machine: the queue is an argument and a result. */
export interface TopKRewardSelector {
  readonly initial: <T>() => TopKQueue<T>
  readonly push: <T>(
    queue: TopKQueue<T>,
    member: RewardedMember<T>,
  ) => readonly [outcome: TopKOutcome<T>, next: TopKQueue<T>]
}

/** Returns the median, the lower of the two middle values for an even count. */
const lowerMedian = (numbers: readonly number[]): number =>
  [...numbers].sort((a, b) => a - b)[Math.floor((numbers.length - 1) / 2)]!

const select = <T>(groupId: string, members: readonly RewardedMember<T>[], topK: number): TopKOutcome<T> => {
  const rewards = members.map(({ reward }) => reward)
  if (!rewards.every(Number.isFinite)) return { _tag: 'Dropped', groupId, members, reason: 'not-finite' }
  const median = lowerMedian(rewards)
  const best = members.filter(({ reward }) => reward > median).sort((a, b) => b.reward - a.reward)
  return best.length === 0
    ? { _tag: 'Dropped', groupId, members, reason: 'none-above-median' }
    : { _tag: 'Selected', groupId, members: best.slice(0, topK) }
}

/**
 * Collects trajectories into groups and selects the `topK` best of each group that are above its
 * median (the lower one for an even number). The best come first; equal rewards keep their order of
 * arrival. Expert iteration learns from them.
 *
 * Errors   throws RangeError, with all problems, unless both numbers are natural, and `topK` from 1
 *          to `groupSize`.
 * Effects  none. Every trajectory is in the queue or in the outcome that ends its group, selected
 *          or not.
 * Source   TorchRL `TopKRewardSelector`, which keeps a group after its selection and returns it
 *          again with the next trajectory.
 *
 * @example
 * TopKRewardSelector({ groupSize: 4, topK: 2 }).initial().size // 0
 */
export const TopKRewardSelector = (options: TopKRewardSelectorOptions): TopKRewardSelector => {
  checkOptions('TopKRewardSelector', options, TOP_K_REWARD_SELECTOR_OPTIONS)
  const { groupSize, topK } = options

  const problems = [
    ...(Number.isSafeInteger(groupSize) && groupSize >= 1
      ? []
      : [`groupSize must be a natural number, got ${groupSize}`]),
    ...(Number.isSafeInteger(topK) && topK >= 1 && !(topK > groupSize)
      ? []
      : [`topK must be a natural number from 1 to groupSize, got ${topK}`]),
  ]
  if (problems.length > 0) throw new RangeError(`TopKRewardSelector: ${problems.join('; ')}`)
  return {
    initial: <T>() => ImmutableMap<string, List<RewardedMember<T>>>(),
    push: <T>(queue: TopKQueue<T>, member: RewardedMember<T>) => {
      const { groupId } = member
      const members = queue.get(groupId, List<RewardedMember<T>>()).push(member)
      return members.size < groupSize
        ? ([{ _tag: 'Waiting', groupId, size: members.size }, queue.set(groupId, members)] as const)
        : ([select(groupId, members.toArray(), topK), queue.delete(groupId)] as const)
    },
  }
}
