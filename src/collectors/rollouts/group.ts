/** Plays a task: one reset, and one rollout for each element of the environment. */
import { ABORTED, child, type Key, pauseFor, type Timers, uniform } from '@tandem-rl/base'
import { thrownText } from '@tandem-rl/base/host'
import { own } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import type { TokenAction } from '../../data/policy.js'
import { TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { Env } from '../../envs/base/env.js'
import {
  type Attempted,
  type PlayedRollout,
  type PlayedTurn,
  playRollout,
  type RolloutCause,
  type RolloutRules,
  unlessCalledOff,
} from './rollout.js'

/** The rules for playing groups and handling failures. */
export interface GroupRules<O, P> extends RolloutRules<O, P> {
  readonly key: Key
  /** Time limit of each attempt at a reset or rollout. */
  readonly deadlineMs: number
  /** Number of retries after a failure, and the pause before the first retry. */
  readonly retries: number
  readonly pauseMs: number
  readonly timers: Timers
}

/** A failed task and its cause. */
export interface FailedTask {
  readonly task: number
  /** The group member that failed, or `undefined` if the reset failed. */
  readonly member?: number
  /** Number of attempts. */
  readonly attempts: number
  readonly cause: RolloutCause
}

export type GroupOutcome<O, P = TokenAction> =
  | { readonly _tag: 'Complete'; readonly members: readonly PlayedRollout<O, P>[] }
  | { readonly _tag: 'Failed'; readonly failure: FailedTask }
  | { readonly _tag: 'Cancelled' }

/** A group in flight. */
export interface RunningGroup<O, P = TokenAction> {
  /** Resolves when all members have ended. Never rejects. */
  readonly outcome: Promise<GroupOutcome<O, P>>
  readonly cancel: () => void
}

type GroupTiming = Pick<GroupRules<unknown, unknown>, 'deadlineMs' | 'timers' | 'retries' | 'pauseMs'>

/** The work of a group, which is cancelled together. */
interface Crew {
  readonly controllers: Set<AbortController>
  readonly isOff: () => boolean
  readonly callOff: () => void
}

const crew = (): Crew => {
  const controllers = new Set<AbortController>()
  let isOff = false
  const callOff = (): void => {
    isOff = true
    for (const controller of controllers) controller.abort()
  }
  return { controllers, isOff: () => isOff, callOff }
}

type Tried<T> = E.Either<Pick<FailedTask, 'attempts' | 'cause'>, T> | typeof ABORTED

const thrown = (error: unknown): RolloutCause => ({
  _tag: 'ThrownRollout',
  reason: thrownText(error),
  error,
})

/** Makes one attempt. It ends early if the group is cancelled or the time limit is reached. */
const tryOnce = async <T>(
  run: (signal: AbortSignal) => Promise<Attempted<T>>,
  { deadlineMs, timers }: GroupTiming,
  { controllers, isOff }: Crew,
): Promise<Attempted<T>> => {
  if (isOff()) return ABORTED
  const controller = new AbortController()
  controllers.add(controller)
  const cancelTimer = Number.isFinite(deadlineMs) ? timers.after(deadlineMs, () => controller.abort()) : () => {}
  try {
    const result = await run(controller.signal)
    if (result !== ABORTED || isOff()) return result
    return E.left({ _tag: 'LateRollout', deadlineMs, reason: `a rollout did not end within ${deadlineMs} ms` })
  } catch (error) {
    return E.left(thrown(error))
  } finally {
    cancelTimer()
    controllers.delete(controller)
  }
}

/** Returns the backoff before retry `n`, with jitter: `pause * 2^(n - 1) * (1 + u) / 2`. */
const pauseOf = ({ pauseMs }: GroupTiming, key: Key, attempt: number): number =>
  (pauseMs * 2 ** (attempt - 1) * (1 + uniform(child(key, 'pause'), attempt))) / 2

/**
 * Retries until an attempt succeeds, all retries are used, or the group is cancelled. Every attempt
 * uses the same key.
 */
const tried = async <T>(
  run: (signal: AbortSignal) => Promise<Attempted<T>>,
  key: Key,
  rules: GroupTiming,
  mine: Crew,
): Promise<Tried<T>> => {
  for (let attempts = 1; ; attempts++) {
    const result = await tryOnce(run, rules, mine)
    if (result === ABORTED || E.isRight(result)) return result
    if (attempts > rules.retries) return E.left({ attempts, cause: result.left })
    const waitMs = pauseOf(rules, key, attempts)
    const waited = await tryOnce<null>(
      async (signal) => {
        await pauseFor(waitMs, rules.timers, signal)
        return signal.aborted ? ABORTED : E.right(null)
      },
      { ...rules, deadlineMs: Number.POSITIVE_INFINITY },
      mine,
    )
    if (waited === ABORTED) return ABORTED
  }
}

/** Returns the rows of all members, or frees them and returns the first failure. */
const outcomeOf = <O, P>(task: number, members: readonly Tried<PlayedRollout<O, P>>[]): GroupOutcome<O, P> => {
  const played = members.flatMap((result) => (result !== ABORTED && E.isRight(result) ? [result.right] : []))
  if (played.length === members.length) return { _tag: 'Complete', members: played }
  for (const { rows } of played) rows.release()
  const failures = members.flatMap((result, member) =>
    result !== ABORTED && E.isLeft(result) ? [{ task, member, ...result.left }] : [],
  )
  return failures[0] === undefined ? { _tag: 'Cancelled' } : { _tag: 'Failed', failure: failures[0] }
}

/**
 * Resets the environment and plays each of its elements separately.
 *
 * Task `t` resets with `child(child(key, t), 'reset')`. Member `i` draws from
 * `child(child(child(key, t), 'member'), i)`, independent of timing and retries. If a member fails
 * after all retries, the others are cancelled, because only whole groups are used.
 */
export const playGroup = <O, P>(
  task: number,
  env: Env<O, P>,
  rules: GroupRules<O, P> & {
    /** Called when a member no longer needs its place. */
    readonly onPlaceFree: () => void
    /** Called for each turn of each member. A retried rollout reports its turns again. */
    readonly onTurn?: (turn: PlayedTurn<O, P>) => void
  },
): RunningGroup<O, P> => {
  const key = child(rules.key, task)
  const mine = crew()
  const resetKey = child(key, 'reset')
  const play = async (): Promise<GroupOutcome<O, P>> => {
    const opened = await tried(
      (signal) => unlessCalledOff(env.reset(TensorDict({}, [env.batchSize]), resetKey), signal),
      resetKey,
      rules,
      mine,
    )
    if (opened === ABORTED) return { _tag: 'Cancelled' }
    if (E.isLeft(opened)) return { _tag: 'Failed', failure: { task, ...opened.left } }
    using group = own(opened.right)
    const members = Array.from({ length: env.batchSize }, async (_, member) => {
      const memberKey = child(child(key, 'member'), member)
      const { onTurn } = rules
      const start = { env, group: group.value, member, origin: resetKey, key: memberKey, ...(onTurn && { onTurn }) }
      const result = await tried((signal) => playRollout(start, rules, signal), memberKey, rules, mine)
      if (result !== ABORTED && E.isLeft(result)) mine.callOff()
      rules.onPlaceFree()
      return result
    })
    return outcomeOf(task, await Promise.all(members))
  }
  return { outcome: play(), cancel: mine.callOff }
}
