/** Ids of the rows of a collected batch. */
import { formatKey, type Key } from '@tandem-rl/base'
import type { RowIdentity } from '../../data/batch.js'
import { data } from '../../data/tensorDict/leaf.js'
import { assign } from '../../data/tensorDict/merge.js'
import { findData, get, type TensorDict } from '../../data/tensorDict/tensorDict.js'

/**
 * Returns the trajectory id of an element of an environment that was reset with the key `origin`.
 */
export const trajectoryId = (origin: Key, element: number): string => `${formatKey(origin)}:${element}`

/** Prefixes each group id with the key of the reset, if the environment has groups. */
export const withOwnGroups = (state: TensorDict, origin: Key): TensorDict => {
  const ids = findData<unknown>(state, 'groupId')
  if (ids === undefined) return state
  return assign(state, { groupId: data(ids.map((id) => `${formatKey(origin)}:${id}`)) }) as TensorDict
}

/** Groups the rows of a batch by trajectory id, in order of first appearance. */
export const rowsByTrajectory = (batch: TensorDict): ReadonlyMap<string, readonly number[]> => {
  const trajectories = new Map<string, number[]>()
  const ids = get(batch as TensorDict<RowIdentity>, 'trajectoryId').items // every collected batch has them
  for (const [row, id] of ids.entries()) {
    const rows = trajectories.get(id)
    if (rows === undefined) trajectories.set(id, [row])
    else rows.push(row)
  }
  return trajectories
}
