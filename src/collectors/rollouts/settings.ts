/** What a collector of rollouts is told, and what it makes of that. */
import type { Alarms, Clock } from '../../core/capabilities.js'
import type { Key } from '../../core/key.js'
import type { Policy } from '../../data/policy.js'
import type { Env } from '../../envs/env.js'
import { liveAlarms, liveClock } from '../../live/clock.js'
import type { GroupRules } from './group.js'

/** What becomes of a rollout that failed: the run stops, it is tried again, or its group is left out. */
export type OnRolloutFailure =
  | 'failFast'
  | 'skip'
  | { readonly retry: number /** Default 100. */; readonly pauseMs?: number }

/** What is played, task by task. */
export interface RolloutSource<O, P> {
  /** The environment of a task, counted from 0: its batch is one group. Equal tasks must give equal environments. */
  readonly env: (task: number) => Env<O, P>
  readonly policy: Policy<O, P>
  readonly key: Key
  /** An episode that has not ended after this many turns is a failure. Default 64. */
  readonly maxTurns?: number
  readonly clock?: Clock
  readonly alarms?: Alarms
}

/** How rollouts are played at a time, each by itself. */
export interface ConcurrentOptions {
  /** Rollouts that are played at a time, all members of all groups. */
  readonly maxInFlight: number
  /** How many tasks there are. Default: no end. */
  readonly tasks?: number
  /**
   * How many tasks may be drawn and not be given out while nobody waits for a batch: they are played while the caller does something
   * else. Default 0: nothing is drawn then, and what was drawn goes on.
   */
  readonly ahead?: number
  /** `completion`: what is complete first comes first. `drawn`: as the tasks were drawn, so that batches do not depend on time. Default `completion`. */
  readonly order?: 'completion' | 'drawn'
  /** For a reset, and for a rollout. Default: none. */
  readonly deadlineMs?: number
  /** A rollout whose policy has sampled so many tokens is cut off (`truncated`). Default: none. Policies without tokens are never cut off. */
  readonly tokenBudget?: number
  /** Default `skip`. */
  readonly onFailure?: OnRolloutFailure
  /** The run stops when more than this share of the tasks that ended, or of ten if those are fewer, has failed. Default 0.5. */
  readonly maxFailureShare?: number
}

/** How turns make a batch. */
export interface TurnBatches {
  /** A batch is given out when it has so many turns of whole groups. Default: one reset, which of tasks is one group. */
  readonly dialogTurnsPerBatch?: number
  /** Only the last turn of each trajectory. Default: all. */
  readonly yieldOnlyLastSteps?: boolean
  /**
   * Default true. If false, turns are given out as they happen, `dialogTurnsPerBatch` at a time: the turns of a trajectory may be in several
   * batches, in their order, and some of a trajectory that fails later may have been given out. Only with `concurrent`.
   */
  readonly yieldCompletedTrajectories?: boolean
}

/** All that a run of rollouts is told. */
export type RolloutSettings<O, P> = RolloutSource<O, P> & ConcurrentOptions & TurnBatches

/** Options with their defaults. */
export interface RunRules<O, P> extends GroupRules<O, P> {
  readonly env: RolloutSource<O, P>['env']
  readonly tasks: number
  readonly maxInFlight: number
  readonly dialogTurnsPerBatch: number
  readonly ahead: number
  readonly order: 'completion' | 'drawn'
  /** What is given out together. */
  readonly unit: 'group' | 'turn'
  readonly isFailFast: boolean
  readonly maxFailureShare: number
}

type Limits = Omit<
  RunRules<unknown, unknown>,
  'policy' | 'key' | 'env' | 'turns' | 'order' | 'unit' | 'clock' | 'alarms' | 'isFailFast'
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

/** What turns that are given out as they happen cannot be. */
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
      'which turn is the last one is known when all were played',
    ],
    [options.order === 'drawn', "order: 'drawn'", 'turns are given out as they happen'],
  ] as const
  return wrong.flatMap(([is, what, why]) =>
    is ? [`${what} makes no sense with yieldCompletedTrajectories: false: ${why}`] : [],
  )
}

/** Fills in what is not said. Throws RangeError with all options that are wrong, also with one another. */
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
    turns: yieldOnlyLastSteps || unit === 'turn' ? 'last' : 'all', // turns that were given out are not kept
    order,
    isFailFast: onFailure === 'failFast',
    clock: options.clock ?? liveClock,
    alarms: options.alarms ?? liveAlarms,
  }
}
