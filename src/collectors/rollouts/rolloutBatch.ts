/** What a collector of rollouts gives out. */
import { exclude } from '../../data/tensorDict/edit.js'
import { concat } from '../../data/tensorDict/joining.js'
import { data, type Meta, meta } from '../../data/tensorDict/leaf.js'
import { assign } from '../../data/tensorDict/merge.js'
import { find, type TensorDict } from '../../data/tensorDict/tensorDict.js'
import { type Owned, own, scope } from '../../engine/scope.js'
import type { CollectedBatch } from '../llmCollector.js'
import type { FailedTask } from './group.js'
import type { PlayedRollout, RolloutCause } from './rollout.js'

/** Where collecting goes on: plain JSON, to be stored in a checkpoint. */
export interface RolloutPosition {
  /** Tasks below this one were drawn. */
  readonly next: number
  /** Those of them that are neither delivered nor failed, in the order in which they were drawn: they are drawn again first. */
  readonly open: readonly number[]
}

/** Whole groups, one row for each turn of each trajectory. */
export interface RolloutBatch<O> {
  readonly _tag: 'Batch'
  readonly batch: Owned<CollectedBatch<O>>
  /** The tasks of its groups, in their order. */
  readonly tasks: readonly number[]
  /** Trajectories of the batch that were cut off because their tokens were used up. */
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
export interface CompleteGroup<O> {
  readonly task: number
  readonly members: readonly PlayedRollout<O>[]
  readonly turns: number
}

/** The rows of groups as one batch, with trajectories numbered through. The groups' own are freed. */
export const joinGroups = <O>(
  groups: readonly CompleteGroup<O>[],
): Pick<RolloutBatch<O>, 'batch' | 'tasks' | 'cut' | 'turns'> => {
  const members = groups.flatMap((group) => group.members)
  const parts = members.map(({ rows }) => rows.value as TensorDict)
  const batch = own(
    scope(() => {
      const ms = parts.reduce((sum, part) => sum + (find(part, ['generationMs']) as Meta<number>).value, 0) // by `turnRows`
      const joined = concat(parts.map((part) => exclude(part, 'generationMs') as TensorDict))
      const trajectory = parts.flatMap((part, i) => Array<number>(part.batchShape[0]!).fill(i)) // batches have one axis
      return assign(joined, { trajectory: data(trajectory), generationMs: meta(ms) }) as unknown as CollectedBatch<O> // the same entries
    }),
  )
  for (const { rows } of members) rows.release()
  return {
    batch,
    tasks: groups.map(({ task }) => task),
    cut: members.flatMap(({ isCut }, i) => (isCut ? [i] : [])),
    turns: groups.reduce((sum, { turns }) => sum + turns, 0),
  }
}
