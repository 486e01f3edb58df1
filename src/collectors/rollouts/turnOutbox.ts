/** A buffer of played turns that have not been delivered yet. */
import { type Owned, own } from '@tandem-rl/tfjs-onnxruntime/scope'
import type { Joined, RolloutOutbox } from './outbox.js'
import type { PlayedTurn } from './rollout.js'
import { joinRowsOf, type MemberTurns } from './rolloutBatch.js'
import type { CollectedBatch } from './turnRows.js'

/** A buffered turn. */
interface WaitingTurn<O, P> extends PlayedTurn<O, P> {
  readonly task: number
  readonly owned: Owned<CollectedBatch<O, P>>
}

/** The turns of a task that were buffered and delivered, by member. */
interface TaskTurns {
  /** Turns that were delivered or are buffered. */
  readonly passed: MemberTurns[]
  readonly given: MemberTurns[]
}

/** Groups the turns of a batch by trajectory, in the order of their first turns. */
const byTrajectory = <O, P>(turns: readonly WaitingTurn<O, P>[]): readonly (readonly WaitingTurn<O, P>[])[] => {
  const groups = new Map<string, WaitingTurn<O, P>[]>()
  for (const turn of turns) {
    const place = `${turn.task} ${turn.member}`
    groups.set(place, [...(groups.get(place) ?? []), turn])
  }
  return [...groups.values()]
}

const joinTurnsOf = <O, P>(turns: readonly WaitingTurn<O, P>[]): Omit<Joined<O, P>, 'tasks'> => {
  const trajectories = byTrajectory(turns)
  const batch = joinRowsOf(trajectories.flatMap((each) => each.map(({ owned }) => owned.value)))
  for (const { owned } of turns) owned.release()
  return {
    batch,
    trajectories: trajectories.map(([first]) => ({ task: first!.task, member: first!.member })), // each has a turn
    cut: trajectories.flatMap((each, i) => (each.at(-1)!.end === 'cut' ? [i] : [])), // each has a turn
    turns: turns.length,
  }
}

/**
 * Makes a buffer that delivers turns as they happen, `turnsPerBatch` at a time. A turn is delivered
 * once, even if its rollout is retried or the run is resumed, because equal keys give equal turns.
 * (If they do not, a trajectory may end with an earlier turn than its last one.)
 */
export const turnOutbox = <O, P>(
  turnsPerBatch: number,
  before: Readonly<Record<string, readonly MemberTurns[]>>,
): RolloutOutbox<O, P> => {
  const tasks = new Map<number, TaskTurns>()
  const waiting: WaitingTurn<O, P>[] = []

  const drop = (task: number): void => {
    for (const turn of waiting.splice(0)) {
      if (turn.task === task) turn.owned.release()
      else waiting.push(turn)
    }
  }

  const deliver = (turns: readonly WaitingTurn<O, P>[]): Joined<O, P> => {
    const ended: number[] = []
    for (const { task, member, turn, end } of turns) {
      const { given } = tasks.get(task)! // those of tasks that failed were dropped
      given[member] = end === 'none' ? turn + 1 : 'all'
      if (given.every((each) => each === 'all')) {
        ended.push(task)
        tasks.delete(task)
      }
    }
    return { ...joinTurnsOf(turns), tasks: ended }
  }

  return {
    begin: (task, members) => {
      const given = before[task] ?? Array<MemberTurns>(members).fill(0)
      tasks.set(task, { passed: [...given], given: [...given] })
    },
    onTurn: (task, turn) => {
      const { passed } = tasks.get(task)! // it has begun
      const known = passed[turn.member]!
      const isKnown = known === 'all' || (turn.turn < known && turn.end === 'none')
      if (isKnown) return
      passed[turn.member] = turn.end === 'none' ? turn.turn + 1 : 'all'
      waiting.push({ ...turn, task, owned: own(turn.rows) })
    },
    settle: (task, outcome) => {
      if (outcome._tag === 'Complete') for (const { rows } of outcome.members) rows.release()
      if (outcome._tag !== 'Failed') return
      drop(task)
      tasks.delete(task)
    },
    take: (least) => {
      if (waiting.length === 0 || (least === 'enough' && waiting.length < turnsPerBatch)) return undefined
      return deliver(waiting.splice(0, turnsPerBatch))
    },
    open: () => {
      const given = [...tasks].filter(([, turns]) => turns.given.some((each) => each !== 0))
      return {
        open: [...tasks.keys()],
        ...(given.length > 0 && { given: Object.fromEntries(given.map(([task, turns]) => [task, [...turns.given]])) }),
      }
    },
    size: () => tasks.size,
    release: () => {
      for (const { owned } of waiting.splice(0)) owned.release()
    },
  }
}
