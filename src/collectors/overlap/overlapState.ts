/**
 * The state of overlapped training: the groups that are sampled, queued and trained, with their
 * versions. Internal to this folder.
 */
import { Map as ImmutableMap } from 'immutable'
import type { DropCause } from '../queues/queueState.js'
import type { RolloutPosition } from '../rollouts/rolloutBatch.js'

/**
 * What becomes of groups that would be too old when their turn comes.
 *
 * `wait`: avoids them. Groups are drawn only if all groups in flight can be trained on in time, and
 * the trainer waits for the oldest. `drop`: the trainer takes available groups and drops those that
 * are too old. `correct`: they are trained on; a learner with `offPolicy: { stale: 'correct' }`
 * reweights their tokens.
 */
export type StaleRule = 'wait' | 'drop' | 'correct'

/** How far sampling runs ahead of training. Plain numbers and words. */
export interface OverlapRules {
  /** Groups that a step learns from. */
  readonly groups: number
  /**
   * Largest staleness of a group's oldest token, in updates. 0: synchronous batches.
   */
  readonly maxLag: number
  readonly stale: StaleRule
  /** Groups that were drawn and have no end, at most: those that are learned from among them. */
  readonly ahead: number
  /**
   * The version after the last step. No groups are drawn for later steps. Infinity: endless.
   */
  readonly lastVersion: number
  /** How many tasks there are, or Infinity. */
  readonly tasks: number
  /** More than this share of the tasks that ended, or of ten if those are fewer, may not fail. */
  readonly maxFailureShare: number
  /**
   * Most groups without a signal to drop before one step. Further ones are trained on.
   */
  readonly refills: number
}

/** A task that was drawn and has no end. */
export type LiveTask =
  /** `since`: what new requests were sampled with when it was drawn. */
  | { readonly stage: 'sampling'; readonly since: number }
  /** `oldest`: the version that sampled its oldest token. */
  | { readonly stage: 'ready' | 'training'; readonly oldest: number }

/** Why groups are left out. */
export type OverlapDrop = Extract<DropCause, 'stale' | 'failed' | 'filtered'>

/** How many tasks came to which end, since the start. */
export interface OverlapCounts {
  readonly trained: number
  readonly dropped: Readonly<Record<OverlapDrop, number>>
}

/** The whole of it: a value. */
export interface OverlapState {
  readonly rules: OverlapRules
  /** Updates done. */
  readonly version: number
  /** What new requests are sampled with: at most `version`. */
  readonly serving: number
  /** The version that is on its way to the engine; null if none is. */
  readonly pushing: number | null
  /** The number of the next task. Smaller ones were drawn. */
  readonly next: number
  /** Tasks that were drawn before the start and have no end: they are drawn first. */
  readonly again: readonly number[]
  readonly live: ImmutableMap<number, LiveTask>
  readonly counts: OverlapCounts
  /** Groups without a signal that were left out since the last step. */
  readonly filtered: number
  /** `halted`: too much failed. Nothing more is drawn or learned from. */
  readonly mode: 'running' | 'stopped' | 'halted'
}

/** Where an overlapped trainer begins. */
export interface OverlapStart {
  /** Updates done before. Default 0. */
  readonly version?: number
  /** Default: the beginning. */
  readonly position?: RolloutPosition
}

/** The rules that make sense of what was given: `ahead` is `(maxLag + 1) * groups` unless given. */
export type GivenRules = Pick<OverlapRules, 'groups'> & Partial<OverlapRules>

const isNatural = (value: number): boolean => Number.isSafeInteger(value) && value >= 0
const isCount = (value: number): boolean => Number.isSafeInteger(value) && value >= 1
const isLimit = (value: number): boolean => isNatural(value) || value === Number.POSITIVE_INFINITY

const problemsOf = (rules: OverlapRules, { version, position }: Required<OverlapStart>): readonly string[] => {
  const { groups, maxLag, stale, ahead, lastVersion, tasks, maxFailureShare: share, refills } = rules
  const { next, open } = position
  const sane: readonly (readonly [isSane: boolean, problem: string])[] = [
    [isCount(groups), `groups must be an integer of at least 1, got ${groups}`],
    [isNatural(maxLag), `maxLag must be an integer of at least 0, got ${maxLag}`],
    [['wait', 'drop', 'correct'].includes(stale), `stale must be wait, drop or correct, got ${stale}`],
    [isCount(ahead) && ahead >= groups, `ahead must be an integer of at least groups, ${groups}, got ${ahead}`],
    [isLimit(lastVersion), `lastVersion must be an integer of at least 0, got ${lastVersion}`],
    [isLimit(tasks), `tasks must be an integer of at least 0, got ${tasks}`],
    [share >= 0 && share <= 1, `maxFailureShare must be from 0 to 1, got ${share}`],
    [isLimit(refills), `refills must be an integer of at least 0, got ${refills}`],
    [isNatural(version), `version must be an integer of at least 0, got ${version}`],
    [isNatural(next), `position.next must be an integer of at least 0, got ${next}`],
    [
      new Set(open).size === open.length && open.every((task) => isNatural(task) && task < next),
      `position.open must have different tasks below ${next}, got ${open.join(', ')}`,
    ],
  ]
  return sane.flatMap(([isSane, problem]) => (isSane ? [] : [problem]))
}

/**
 * Returns the initial state. Defaults: `maxLag` 1, `stale` wait, `ahead` the groups of `maxLag + 1`
 * steps, endless, no refills, and at most half of the tasks may fail.
 *
 * Errors   throws RangeError with everything that is wrong.
 *
 * @example
 * overlapState({ groups: 4, maxLag: 2 }).rules.ahead // 12
 */
export const overlapState = (given: GivenRules, start: OverlapStart = {}): OverlapState => {
  const { version = 0, position = { next: 0, open: [] } } = start
  const maxLag = given.maxLag ?? 1
  const rules: OverlapRules = {
    ...{ stale: 'wait', lastVersion: Number.POSITIVE_INFINITY, tasks: Number.POSITIVE_INFINITY },
    ...{ maxFailureShare: 0.5, refills: 0, ahead: (maxLag + 1) * given.groups },
    ...given,
    maxLag,
  }
  const problems = problemsOf(rules, { version, position })
  if (problems.length > 0) throw new RangeError(`overlapState: ${problems.join('; ')}`)
  return {
    ...{ rules, version, serving: version, pushing: null },
    ...{ next: position.next, again: position.open, live: ImmutableMap(), filtered: 0, mode: 'running' },
    counts: { trained: 0, dropped: { stale: 0, failed: 0, filtered: 0 } },
  }
}

/** Where to go on: what was drawn and has no end is drawn again, in its order. */
export const overlapPosition = ({ next, live, again }: OverlapState): RolloutPosition => ({
  next,
  open: [...[...live.keys()].sort((a, b) => a - b), ...again],
})
