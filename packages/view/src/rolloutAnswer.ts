/** The page of one rollout, with some of its group. */
import { conversationOf } from './conversation.js'
import type { Annotation, RolloutAnswer } from './protocol.js'
import { ViewRefusal } from './refusal.js'
import { type LabelsOf, rowsWithTexts } from './rolloutRows.js'
import type { Rollout } from './rowNumbers.js'
import type { ViewedRun } from './viewedRun.js'

/** The most rollouts of a group in one answer. */
const GROUP = 16

/** Rollouts by identifier and by group. */
interface Index {
  readonly rollouts: ReadonlyMap<string, Rollout>
  readonly groups: ReadonlyMap<string, readonly Rollout[]>
}

const groupKey = ({ row }: Rollout): string => `${row.step} ${row.group}`

const indexes = new WeakMap<readonly Rollout[], Index>()

/** Returns the index of a list of rollouts, which is made once for each list. */
const indexOf = (list: readonly Rollout[]): Index => {
  const known = indexes.get(list)
  if (known !== undefined) return known
  const groups = new Map<string, Rollout[]>()
  for (const rollout of list) {
    const own = groups.get(groupKey(rollout))
    if (own === undefined) groups.set(groupKey(rollout), [rollout])
    else own.push(rollout)
  }
  const index = { rollouts: new Map(list.map((rollout) => [rollout.row.id, rollout])), groups }
  indexes.set(list, index)
  return index
}

export type Annotations = ReadonlyMap<string, Annotation>

/** Returns the labels of rollouts by their annotations. */
export const labelsIn =
  (annotations: Annotations): LabelsOf =>
  (id) =>
    annotations.get(id)?.labels ?? []

/** Finds a rollout of a run. Throws ViewRefusal for an unknown id. */
export const rolloutOf = async (run: ViewedRun, id: string): Promise<Rollout> => {
  const found = indexOf(await run.rollouts()).rollouts.get(id)
  if (found === undefined) throw new ViewRefusal(404, `no rollout '${id}'`)
  return found
}

/**
 * Returns a rollout with its conversation, and itself and the first others of its group as rows.
 *
 * Cost     independent of the size of the group, after the first call for a list of rollouts.
 */
export const rolloutAnswer = async (run: ViewedRun, id: string, annotations: Annotations): Promise<RolloutAnswer> => {
  const found = await rolloutOf(run, id)
  const rollouts = await run.rollouts()
  const members = indexOf(rollouts).groups.get(groupKey(found))! // it is a member
  const shown = [found, ...members.slice(0, GROUP).filter((each) => each !== found)].slice(0, GROUP)
  const [rows, [turns = []]] = [await rowsWithTexts(run, shown, labelsIn(annotations)), await run.turns([found])]
  const { index } = found.row
  return {
    row: rows[0]!, // of the rollout itself
    answer: turns[0]?.answer ?? null,
    turns: conversationOf(turns),
    agents: turns[0]?.agents ?? null,
    group: [...rows].sort((a, b) => a.index - b.index),
    groupSize: members.length,
    annotation: annotations.get(id) ?? { labels: [], comment: '' },
    previous: rollouts[index - 1]?.row.id ?? null,
    next: rollouts[index + 1]?.row.id ?? null,
  }
}
