/** The groups that are being played, and the places that their members take. */
import type { TokenAction } from '../../data/policy.js'
import { type GroupOutcome, type GroupRules, playGroup, type RunningGroup } from './group.js'
import type { PlayedTurn } from './rollout.js'
import type { RunRules } from './settings.js'

/** The reactions to what happens in groups. */
interface GroupEvents<O, P> {
  /** A member has ended, and its place is free. */
  readonly onPlaceFree: () => void
  readonly onTurn?: (task: number, turn: PlayedTurn<O, P>) => void
  /** A group has ended. Its places are free. */
  readonly onOutcome: (task: number, outcome: GroupOutcome<O, P>) => void
}

/** Groups in play. */
export interface RunningGroups<O, P = TokenAction> {
  readonly start: (task: number, env: ReturnType<RunRules<O, P>['env']>) => void
  readonly isEmpty: () => boolean
  /** Number of members in play. A group that is being reset counts with all of its members. */
  readonly inFlight: () => number
  readonly cancel: () => void
  /** Resolves when no group is in play. */
  readonly ended: () => Promise<void>
}

/** Makes an empty set of groups. */
export const runningGroups = <O, P>(
  rules: Omit<GroupRules<O, P>, 'onPlaceFree' | 'onTurn'>,
  { onPlaceFree, onTurn, onOutcome }: GroupEvents<O, P>,
): RunningGroups<O, P> => {
  const running = new Map<number, RunningGroup<O, P>>()
  let inFlight = 0
  return {
    start: (task, env) => {
      let places = env.batchSize
      inFlight += places
      const group = playGroup(task, env, {
        ...rules,
        onPlaceFree: () => {
          places--
          inFlight--
          onPlaceFree()
        },
        ...(onTurn && { onTurn: (turn) => onTurn(task, turn) }),
      })
      running.set(task, group)
      void group.outcome.then((outcome) => {
        inFlight -= places
        running.delete(task)
        onOutcome(task, outcome)
      })
    },
    isEmpty: () => running.size === 0,
    inFlight: () => inFlight,
    cancel: () => {
      for (const group of running.values()) group.cancel()
    },
    ended: async () => {
      while (running.size > 0) await Promise.all([...running.values()].map(({ outcome }) => outcome))
    },
  }
}
