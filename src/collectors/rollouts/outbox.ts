/** Buffers of played groups or turns that have not been delivered yet. */
import type { GroupOutcome } from './group.js'
import type { PlayedTurn } from './rollout.js'
import { type CompleteGroup, joinGroups, type RolloutBatch, type RolloutPosition } from './rolloutBatch.js'
import type { RunRules } from './settings.js'

/** The part of a batch that an outbox provides. */
export type Joined<O, P> = Pick<RolloutBatch<O, P>, 'batch' | 'tasks' | 'trajectories' | 'cut' | 'turns'>

export interface RolloutOutbox<O, P> {
  /** Called when a task with this many members begins. */
  readonly begin: (task: number, members: number) => void
  /** Called when a member of a task has played a turn. */
  readonly onTurn?: (task: number, turn: PlayedTurn<O, P>) => void
  /** Called when a task has ended. */
  readonly settle: (task: number, outcome: GroupOutcome<O, P>) => void
  /** Removes and returns a batch, or returns `undefined` if there are not enough turns. */
  readonly take: (least: 'enough' | 'anything') => Joined<O, P> | undefined
  /**
   * Started tasks that have neither failed nor been delivered, in order, and their delivered turns.
   */
  readonly open: () => Pick<RolloutPosition, 'open' | 'given'>
  /** Number of those tasks. */
  readonly size: () => number
  /** Frees all buffered rows. */
  readonly release: () => void
}

type Batching = Pick<RunRules<never, never>, 'dialogTurnsPerBatch' | 'order'>

/** Makes a buffer of whole groups, in the order of their completion or start. */
export const groupOutbox = <O, P>({ dialogTurnsPerBatch, order }: Batching): RolloutOutbox<O, P> => {
  /** Groups in the order of their start; `undefined` if running or cancelled. */
  const begun = new Map<number, CompleteGroup<O, P> | undefined>()
  /** Complete groups, in the order of their completion. */
  const ready = new Map<number, CompleteGroup<O, P>>()
  let readyTurns = 0

  /** Returns the first groups with enough turns, or an empty list if there are too few turns. */
  const enough = (): readonly CompleteGroup<O, P>[] => {
    if (readyTurns < dialogTurnsPerBatch) return []
    const taken: CompleteGroup<O, P>[] = []
    let turns = 0
    for (const group of (order === 'drawn' ? begun : ready).values()) {
      if (group === undefined) return []
      taken.push(group)
      turns += group.turns
      if (turns >= dialogTurnsPerBatch) return taken
    }
    return []
  }

  const rest = (): readonly CompleteGroup<O, P>[] =>
    [...(order === 'drawn' ? begun : ready).values()].flatMap((group) => group ?? [])

  return {
    begin: (task) => void begun.set(task, undefined),
    settle: (task, outcome) => {
      if (outcome._tag === 'Failed') begun.delete(task)
      if (outcome._tag !== 'Complete') return
      const turns = outcome.members.reduce((sum, member) => sum + member.turns, 0)
      const group = { task, members: outcome.members, turns }
      begun.set(task, group)
      ready.set(task, group)
      readyTurns += turns
    },
    take: (least) => {
      const groups = least === 'enough' ? enough() : rest()
      if (groups.length === 0) return undefined
      const joined = joinGroups(groups)
      for (const { task, turns } of groups) {
        begun.delete(task)
        ready.delete(task)
        readyTurns -= turns
      }
      return joined
    },
    open: () => ({ open: [...begun.keys()] }),
    size: () => begun.size,
    release: () => {
      for (const { members } of ready.values()) for (const { rows } of members) rows.release()
      ready.clear()
    },
  }
}
