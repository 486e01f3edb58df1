/** What a collector of rollouts gives out. */

import type { TokenAction } from '../../data/policy.js'
import { concat } from '../../data/tensorDict/joining.js'
import type { TensorDict } from '../../data/tensorDict/tensorDict.js'
import { type Owned, own, scope } from '../../engine/scope.js'
import type { FailedTask } from './group.js'
import type { PlayedRollout, RolloutCause } from './rollout.js'
import type { CollectedBatch } from './turnRows.js'

/** How many turns of a member were given out: all of them, if its conversation has ended. */
export type MemberTurns = number | 'all'

/** Which rollout a trajectory is. */
export interface Trajectory {
  readonly task: number
  /** Its element of the environment. */
  readonly member: number
}

/** Where collecting goes on: plain JSON, to be stored in a checkpoint. */
export interface RolloutPosition {
  /** Tasks below this one were drawn. */
  readonly next: number
  /** Those of them that are neither delivered nor failed, in the order in which they were drawn: they are drawn again first. */
  readonly open: readonly number[]
  /** If turns are given out as they happen: those of open tasks that were given out, by members. They are not given out again. */
  readonly given?: Readonly<Record<string, readonly MemberTurns[]>>
}

/** Whole groups, or turns as they happened: one row for each turn of each trajectory. */
export interface RolloutBatch<O, P = TokenAction> {
  readonly _tag: 'Batch'
  readonly batch: Owned<CollectedBatch<O, P>>
  /** The tasks that have been given out wholly with this batch: those of its groups, in their order. */
  readonly tasks: readonly number[]
  /** Which rollouts its trajectories are, in the order in which they are in the batch. */
  readonly trajectories: readonly Trajectory[]
  /** Trajectories of the batch, by their places in `trajectories`, that were cut off because their tokens were used up. */
  readonly cut: readonly number[]
  /** Turns that were played for it. */
  readonly turns: number
  /** What failed since the batch before. */
  readonly failed: readonly FailedTask[]
  readonly position: RolloutPosition
}

/** Nothing more comes: all tasks have ended, or collecting was called off. */
export interface RolloutsEnd {
  readonly _tag: 'End'
  readonly why: 'complete' | 'cancelled'
  readonly failed: readonly FailedTask[]
  /** Tasks that were drawn and have no end. */
  readonly cancelled: readonly number[]
  readonly position: RolloutPosition
}

/** Collecting stopped by itself, because too much failed. */
export interface RolloutsStopped extends Omit<RolloutsEnd, '_tag' | 'why'> {
  readonly _tag: 'RolloutsStopped'
  readonly rule: 'failFast' | 'maxFailureShare'
  readonly reason: string
  /** Of the last task that failed. */
  readonly cause: RolloutCause
}

/** A group that waits to be delivered. */
export interface CompleteGroup<O, P = TokenAction> {
  readonly task: number
  readonly members: readonly PlayedRollout<O, P>[]
  readonly turns: number
}

/** The rows of parts as one batch, in their order. */
export const joinRowsOf = <O, P>(parts: readonly CollectedBatch<O, P>[]): Owned<CollectedBatch<O, P>> =>
  own(scope(() => concat(parts as readonly TensorDict[]) as unknown as CollectedBatch<O, P>)) // the same entries

/** The rows of groups as one batch. The groups' own are freed. */
export const joinGroups = <O, P>(
  groups: readonly CompleteGroup<O, P>[],
): Pick<RolloutBatch<O, P>, 'batch' | 'tasks' | 'trajectories' | 'cut' | 'turns'> => {
  const members = groups.flatMap((group) => group.members)
  const batch = joinRowsOf(members.map(({ rows }) => rows.value))
  for (const { rows } of members) rows.release()
  return {
    batch,
    tasks: groups.map(({ task }) => task),
    trajectories: groups.flatMap(({ task, members }) => members.map((_, member) => ({ task, member }))),
    cut: members.flatMap(({ isCut }, i) => (isCut ? [i] : [])),
    turns: groups.reduce((sum, { turns }) => sum + turns, 0),
  }
}
