/**
 * The state of overlapped training: the groups that are sampled, queued and trained, with their
 * versions. Internal to this folder.
 */
import { Map as ImmutableMap } from 'immutable'
import type { RolloutPosition } from '../rollouts/rolloutBatch.js'

/**
 * Treatment of groups that would be too old by their turn.
 *
 * `wait`: avoids them. Groups are drawn only if all groups in flight can be trained on in time, and
 * the trainer waits for the oldest. `drop`: the trainer takes available groups and drops those that
 * are too old. `correct`: they are trained on; a learner with `offPolicy: { stale: 'correct' }`
 * reweights their tokens.
 */
export type StaleRule = 'wait' | 'drop' | 'correct'

/** Rules that limit how far sampling runs ahead of training. Plain numbers and words. */
interface OverlapRules {
  /** Groups per training step. */
  readonly groups: number
  /**
   * Largest staleness of a group's oldest token, in updates. 0: synchronous batches.
   */
  readonly maxLag: number
  readonly stale: StaleRule
  /** Maximum number of unfinished groups, including those in training. */
  readonly ahead: number
  /**
   * The version after the last step. No groups are drawn for later steps. Infinity: endless.
   */
  readonly lastVersion: number
  /** Number of tasks, or Infinity. */
  readonly tasks: number
  /** Largest share of finished tasks that may fail, counting at least ten finished tasks. */
  readonly maxFailureShare: number
  /**
   * Maximum number of groups without a signal to drop before one step. Further ones are trained on.
   */
  readonly refills: number
}

/** A task that was drawn and is not finished. */
export type LiveTask =
  /** `since`: the serving version when the task was drawn. */
  | { readonly stage: 'sampling'; readonly since: number }
  /** `oldest`: the version that sampled its oldest token. */
  | { readonly stage: 'ready' | 'training'; readonly oldest: number }

/** Reasons for leaving out a group. */
export type OverlapDrop = 'stale' | 'failed' | 'filtered'

/** Numbers of finished tasks by outcome, since the start. */
export interface OverlapCounts {
  readonly trained: number
  readonly dropped: Readonly<Record<OverlapDrop, number>>
}

/** The complete state, as an immutable value. */
export interface OverlapState {
  readonly rules: OverlapRules
  /** Number of updates done. */
  readonly version: number
  /** The version that samples new requests; at most `version`. */
  readonly serving: number
  /** The version that is being pushed to the engine, or `null`. */
  readonly pushing: number | null
  /** The next task number. All smaller tasks were drawn. */
  readonly next: number
  /** Unfinished tasks from before the start. They are drawn first. */
  readonly again: readonly number[]
  readonly live: ImmutableMap<number, LiveTask>
  readonly counts: OverlapCounts
  /** Groups without a signal that were dropped since the last step. */
  readonly filtered: number
  /** `halted`: too many tasks failed. No task is drawn or trained on any more. */
  readonly mode: 'running' | 'stopped' | 'halted'
}

/** The starting point of an overlapped trainer. */
export interface OverlapStart {
  /** Number of updates done before. Default 0. */
  readonly version?: number
  /** Default: the beginning. */
  readonly position?: RolloutPosition
}

/** The rules that a caller sets. `ahead` defaults to `(maxLag + 1) * groups`. */
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
    stale: 'wait',
    lastVersion: Number.POSITIVE_INFINITY,
    tasks: Number.POSITIVE_INFINITY,
    maxFailureShare: 0.5,
    refills: 0,
    ahead: (maxLag + 1) * given.groups,
    ...given,
    maxLag,
  }
  const problems = problemsOf(rules, { version, position })
  if (problems.length > 0) throw new RangeError(`overlapState: ${problems.join('; ')}`)
  return {
    rules,
    version,
    serving: version,
    pushing: null,
    next: position.next,
    again: position.open,
    live: ImmutableMap(),
    filtered: 0,
    mode: 'running',
    counts: { trained: 0, dropped: { stale: 0, failed: 0, filtered: 0 } },
  }
}

/** Returns the position to resume from. Unfinished tasks are drawn again, in order. */
export const overlapPosition = ({ next, live, again }: OverlapState): RolloutPosition => ({
  next,
  open: [...[...live.keys()].sort((a, b) => a - b), ...again],
})
