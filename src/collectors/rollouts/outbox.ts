/** What was played and has not been given out: whole groups, or turns as they happen. */
import type { GroupOutcome } from './group.js'
import type { PlayedTurn } from './rollout.js'
import { type CompleteGroup, joinGroups, type RolloutBatch, type RolloutPosition } from './rolloutBatch.js'
import type { RunRules } from './settings.js'

/** What an outbox knows of a batch. */
export type Joined<O, P> = Pick<RolloutBatch<O, P>, 'batch' | 'tasks' | 'trajectories' | 'cut' | 'turns'>

export interface Outbox<O, P> {
  /** A task of so many members begins. */
  readonly begin: (task: number, members: number) => void
  /** A member of a task has played a turn. */
  readonly onTurn?: (task: number, turn: PlayedTurn<O, P>) => void
  /** A task that began has ended. */
  readonly settle: (task: number, outcome: GroupOutcome<O, P>) => void
  /** Takes a batch out; undefined if there is not enough for one. */
  readonly take: (least: 'enough' | 'anything') => Joined<O, P> | undefined
  /** Tasks that began and have neither failed nor been given out, in the order in which they began, and what was given out of them. */
  readonly open: () => Pick<RolloutPosition, 'open' | 'given'>
  /** How many those are. */
  readonly size: () => number
  /** Frees what is in it. */
  readonly release: () => void
}

type Batching = Pick<RunRules<never, never>, 'dialogTurnsPerBatch' | 'order'>

/** Whole groups, by the order in which they are complete or were begun. */
export const groupOutbox = <O, P>({ dialogTurnsPerBatch, order }: Batching): Outbox<O, P> => {
  /** In the order in which they began; undefined for those that go on or were called off. */
  const begun = new Map<number, CompleteGroup<O, P> | undefined>()
  /** In the order in which they became complete. */
  const ready = new Map<number, CompleteGroup<O, P>>()
  let readyTurns = 0

  /** The first groups with enough turns, or nothing if there are too few of them. */
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
