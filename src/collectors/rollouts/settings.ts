/** The options of a collector of rollouts, and their validation. */
import type { Clock, Key, Timers } from '@tandem-rl/base'
import { liveClock, liveTimers } from '@tandem-rl/base/host'
import type { Policy } from '../../data/policy.js'
import type { Env } from '../../envs/base/env.js'
import type { GroupRules } from './group.js'

/** The treatment of a failed rollout: stop the run, skip its group, or retry. */
export type OnRolloutFailure =
  | 'failFast'
  | 'skip'
  | { readonly retry: number /** Default 100. */; readonly pauseMs?: number }

/** The source of rollouts, task by task. */
export interface RolloutSource<O, P> {
  /**
   * Makes the environment of a task, counted from 0. Its batch is one group. Equal tasks must give
   * equal environments.
   */
  readonly env: (task: number) => Env<O, P>
  readonly policy: Policy<O, P>
  readonly key: Key
  /** An episode longer than this many turns fails. Default 64. */
  readonly maxTurns?: number
  readonly clock?: Clock
  readonly timers?: Timers
}

/** The options of concurrent rollouts. */
export interface ConcurrentOptions {
  /** Maximum number of rollouts in flight, counting all members of all groups. */
  readonly maxInFlight: number
  /** Number of tasks. Default: endless. */
  readonly tasks?: number
  /**
   * Number of tasks to keep open while no call is pending, so that they are played while the caller
   * does other work. Default 0: no tasks are drawn then, but drawn tasks continue.
   */
  readonly ahead?: number
  /**
   * The order of delivery. `completion`: first complete, first delivered. `drawn`: in the order of
   * the tasks, so that batches do not depend on time. Default `completion`.
   */
  readonly order?: 'completion' | 'drawn'
  /** Time limit of a reset, and of a rollout. Default: none. */
  readonly deadlineMs?: number
  /**
   * A rollout is truncated after the turn in which its sampled tokens reach this number. Default:
   * no limit. Policies without tokens are never truncated.
   */
  readonly tokenBudget?: number
  /** The treatment of failed rollouts. Default `skip`. */
  readonly onFailure?: OnRolloutFailure
  /** Largest share of failed tasks among the ended ones (counted as at least ten). Default 0.5. */
  readonly maxFailureShare?: number
}

/** The options that divide turns into batches. */
export interface TurnBatches {
  /** Smallest number of turns per batch, from whole groups. Default: one reset or group. */
  readonly dialogTurnsPerBatch?: number
  /** Keeps only the last turn of each trajectory. Default: all turns. */
  readonly yieldOnlyLastSteps?: boolean
  /**
   * `false` delivers turns as they happen, `dialogTurnsPerBatch` at a time. The turns of a
   * trajectory may then span several batches, in order, and some turns of a trajectory that fails
   * later may have been delivered. Requires `concurrent`. Default `true`.
   */
  readonly yieldCompletedTrajectories?: boolean
}

/** All options of a run of rollouts. */
export type RolloutSettings<O, P> = RolloutSource<O, P> & ConcurrentOptions & TurnBatches

/** Options with their defaults. */
export interface RunRules<O, P> extends GroupRules<O, P> {
  readonly env: RolloutSource<O, P>['env']
  readonly tasks: number
  readonly maxInFlight: number
  readonly dialogTurnsPerBatch: number
  readonly ahead: number
  readonly order: 'completion' | 'drawn'
  /** The unit of delivery. */
  readonly unit: 'group' | 'turn'
  readonly isFailFast: boolean
  readonly maxFailureShare: number
}

type Limits = Omit<
  RunRules<unknown, unknown>,
  'policy' | 'key' | 'env' | 'turns' | 'order' | 'unit' | 'clock' | 'timers' | 'isFailFast'
>

const isNatural = (value: number): boolean => Number.isSafeInteger(value) && value >= 0
const isCount = (value: number): boolean => Number.isSafeInteger(value) && value >= 1
const isLimit = (value: number): boolean => isCount(value) || value === Number.POSITIVE_INFINITY

const PROMISED: { readonly [K in keyof Limits]: readonly [is: (value: number) => boolean, what: string] } = {
  tasks: [isLimit, 'an integer of at least 1'],
  maxInFlight: [isCount, 'an integer of at least 1'],
  dialogTurnsPerBatch: [isCount, 'an integer of at least 1'],
  ahead: [isNatural, 'an integer of at least 0'],
  maxTurns: [isCount, 'an integer of at least 1'],
  tokenBudget: [isLimit, 'an integer of at least 1'],
  deadlineMs: [(value) => value > 0, 'above 0'],
  retries: [isNatural, 'an integer of at least 0'],
  pauseMs: [(value) => Number.isFinite(value) && value >= 0, 'at least 0'],
  maxFailureShare: [(value) => value >= 0 && value <= 1, 'from 0 to 1'],
}

/** Returns a message for each option that conflicts with delivery by turn. */
const contradictions = (options: {
  readonly yieldCompletedTrajectories?: boolean
  readonly yieldOnlyLastSteps?: boolean
  readonly order?: 'completion' | 'drawn'
}): readonly string[] => {
  if (options.yieldCompletedTrajectories !== false) return []
  const wrong = [
    [
      options.yieldOnlyLastSteps === true,
      'yieldOnlyLastSteps: true',
      'the last turn is known only at the end of a trajectory',
    ],
    [options.order === 'drawn', "order: 'drawn'", 'turns are delivered as they happen'],
  ] as const
  return wrong.flatMap(([is, what, why]) =>
    is ? [`${what} cannot be combined with yieldCompletedTrajectories: false: ${why}`] : [],
  )
}

/** Fills in defaults. Throws RangeError that lists all invalid or conflicting options. */
export const runRules = <O, P>(options: RolloutSettings<O, P>): RunRules<O, P> => {
  const { onFailure = 'skip', yieldOnlyLastSteps = false, order = 'completion' } = options
  const again = typeof onFailure === 'string' ? { retry: 0 } : onFailure
  const limits: Limits = {
    tasks: options.tasks ?? Number.POSITIVE_INFINITY,
    maxInFlight: options.maxInFlight,
    dialogTurnsPerBatch: options.dialogTurnsPerBatch ?? 1,
    ahead: options.ahead ?? 0,
    maxTurns: options.maxTurns ?? 64,
    tokenBudget: options.tokenBudget ?? Number.POSITIVE_INFINITY,
    deadlineMs: options.deadlineMs ?? Number.POSITIVE_INFINITY,
    retries: again.retry,
    pauseMs: again.pauseMs ?? 100,
    maxFailureShare: options.maxFailureShare ?? 0.5,
  }
  const wrong = Object.entries(PROMISED).flatMap(([name, [is, what]]) => {
    const value = limits[name as keyof Limits] // the keys of PROMISED
    return is(value) ? [] : [`${name} must be ${what}, got ${value}`]
  })
  const problems = [...wrong, ...contradictions(options)]
  if (problems.length > 0) throw new RangeError(`LLMCollector: ${problems.join('; ')}`)
  const unit = options.yieldCompletedTrajectories === false ? 'turn' : 'group'
  return {
    ...limits,
    unit,
    env: options.env,
    policy: options.policy,
    key: options.key,
    turns: yieldOnlyLastSteps || unit === 'turn' ? 'last' : 'all', // delivered turns are not kept
    order,
    isFailFast: onFailure === 'failFast',
    clock: options.clock ?? liveClock,
    timers: options.timers ?? liveTimers,
  }
}
