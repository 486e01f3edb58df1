/** Results of a collector of rollouts. */
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import type { TokenAction } from '../../data/policy.js'
import { concat } from '../../data/tensorDict/joining.js'
import type { TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { FailedTask } from './group.js'
import type { PlayedRollout, RolloutCause } from './rollout.js'
import type { CollectedBatch } from './turnRows.js'

/** Number of delivered turns of a member, or `all` if its conversation has ended. */
export type MemberTurns = number | 'all'

/** The rollout of a trajectory. */
export interface Trajectory {
  readonly task: number
  /** The element of the environment. */
  readonly member: number
}

/** The position of a collector of rollouts, as plain JSON for a checkpoint. */
export interface RolloutPosition {
  /** The next task to draw. */
  readonly next: number
  /** Drawn tasks that are neither delivered nor failed, in order. They are drawn again first. */
  readonly open: readonly number[]
  /** With delivery by turn: the delivered turns of open tasks, by member. They are not repeated. */
  readonly given?: Readonly<Record<string, readonly MemberTurns[]>>
}

/** A batch of whole groups, or of turns as they happened. Each turn is one row. */
export interface RolloutBatch<O, P = TokenAction> {
  readonly _tag: 'Batch'
  readonly batch: Owned<CollectedBatch<O, P>>
  /** The tasks that are completely delivered with this batch, in the order of its groups. */
  readonly tasks: readonly number[]
  /** The rollouts of the batch's trajectories, in order. */
  readonly trajectories: readonly Trajectory[]
  /** Indices in `trajectories` of those that exhausted their token budget. */
  readonly cut: readonly number[]
  /** Number of turns played for the batch. */
  readonly turns: number
  /** Tasks that failed since the previous batch. */
  readonly failed: readonly FailedTask[]
  readonly position: RolloutPosition
}

/** The end of collecting: all tasks have ended, or collecting was cancelled. */
export interface RolloutsEnd {
  readonly _tag: 'End'
  readonly why: 'complete' | 'cancelled'
  readonly failed: readonly FailedTask[]
  /** Drawn tasks that did not end. */
  readonly cancelled: readonly number[]
  readonly position: RolloutPosition
}

/** Collecting stopped because too many tasks failed. */
export interface RolloutsStopped extends Omit<RolloutsEnd, '_tag' | 'why'> {
  readonly _tag: 'RolloutsStopped'
  readonly rule: 'failFast' | 'maxFailureShare'
  readonly reason: string
  /** The cause of the last failed task. */
  readonly cause: RolloutCause
}

/** A complete group that is not delivered yet. */
export interface CompleteGroup<O, P = TokenAction> {
  readonly task: number
  readonly members: readonly PlayedRollout<O, P>[]
  readonly turns: number
}

/** Concatenates rows to one batch, in order. */
export const joinRowsOf = <O, P>(parts: readonly CollectedBatch<O, P>[]): Owned<CollectedBatch<O, P>> =>
  own(scope(() => concat(parts as readonly TensorDict[]) as unknown as CollectedBatch<O, P>)) // the same entries

/** Concatenates the rows of groups to one batch, and frees those of the groups. */
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
