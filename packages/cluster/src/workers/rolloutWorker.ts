/** A worker: takes rollouts from a shared queue, plays them and returns them. */
import {
  ABORTED,
  type Changing,
  type Clock,
  checkOptions,
  describe,
  type Json,
  type Key,
  pauseFor,
  type Timers,
  unlessAborted,
} from '@tandem-rl/base'
import { harmless, liveClock, liveTimers, thrownText } from '@tandem-rl/base/host'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Policy, TokenAction } from 'tandem-rl'
import { RUN_ROLLOUT_WORKER_OPTIONS } from '../optionKinds.js'
import type { RolloutLease } from '../queues/groupQueue.js'
import type { QueueFailure } from '../queues/queueLog.js'
import type { QueueProblem, RolloutQueue, WorkerQueue } from '../queues/rolloutQueue.js'
import { type LeaseRules, playLease } from './playLease.js'
import { encodeRollout, rolloutVersion } from './rolloutBytes.js'

export interface RolloutWorkerOptions<O, P = TokenAction> {
  readonly queue: WorkerQueue & Pick<RolloutQueue, 'look' | 'changed'>
  /**
   * Returns the environment of a task, whose batch is one group. Equal tasks must give equal
   * environments in every worker.
   */
  readonly env: LeaseRules<O, P>['env']
  readonly policy: Policy<O, P>
  /**
   * Returns the reason for which this worker must not play a task, or `null`. The worker then
   * returns its leases and stops. Default: it plays every task.
   */
  readonly refusal?: (task: Json) => string | null
  /** Random key, the same in all workers. */
  readonly key: Key
  readonly limits?: WorkerLimits
  /** Stops the worker when aborted. Its leases are returned. */
  readonly signal?: AbortSignal
  /** Called after each rollout. */
  readonly onRollout?: (event: WorkerEvent) => void
  readonly time?: { readonly clock?: Clock; readonly timers?: Timers }
}

export interface WorkerLimits {
  /** Maximum number of rollouts played at a time. Default 8. */
  readonly slots?: number
  /** Maximum number of turns per rollout. Default 64. */
  readonly maxTurns?: number
  /** Maximum number of sampled tokens per rollout, which is then cut off. Default: no limit. */
  readonly tokenBudget?: number
  /** Time limit of one rollout in milliseconds, including its reset. Default: no limit. */
  readonly deadlineMs?: number
  /**
   * Consecutive failures after which the worker stops, because it or its engine is broken. Default
   * 20.
   */
  readonly failuresInRow?: number
  /**
   * Pause after a failure in milliseconds. It doubles with each consecutive failure, up to 64
   * times. Default 100.
   */
  readonly pauseMs?: number
}

/**
 * The outcome of a rollout for its worker. `Late`: the lease had expired and the queue refused the
 * delivery.
 */
export type WorkerEvent =
  | { readonly _tag: 'Delivered'; readonly lease: RolloutLease<Json>; readonly bytes: number }
  | { readonly _tag: 'Failed' | 'Late'; readonly lease: RolloutLease<Json>; readonly reason: string }
  | { readonly _tag: 'Returned'; readonly lease: RolloutLease<Json> }

/** The numbers of a worker's rollouts by outcome. */
export interface WorkerReport {
  readonly delivered: number
  readonly failed: number
  readonly late: number
  readonly returned: number
}

/** A worker that stopped because of an error. */
export interface WorkerStopped {
  readonly _tag: 'WorkerStopped'
  readonly reason: string
  readonly report: WorkerReport
  /** The failure of the queue, if that was the reason. */
  readonly cause?: QueueProblem
}

type Limits = Required<WorkerLimits>

const DEFAULTS: Limits = {
  slots: 8,
  maxTurns: 64,
  tokenBudget: Number.POSITIVE_INFINITY,
  deadlineMs: Number.POSITIVE_INFINITY,
  failuresInRow: 20,
  pauseMs: 100,
}

const limitProblems = (limits: Limits): readonly string[] => {
  const { slots, maxTurns, failuresInRow, tokenBudget, deadlineMs, pauseMs } = limits
  const isCount = (value: number): boolean => Number.isSafeInteger(value) && value >= 1
  return [
    ...Object.entries({ slots, maxTurns, failuresInRow }).flatMap(([name, value]) =>
      isCount(value) ? [] : [`${name} must be an integer of at least 1, got ${value}`],
    ),
    ...(isCount(tokenBudget) || tokenBudget === Number.POSITIVE_INFINITY
      ? []
      : [`tokenBudget must be an integer of at least 1, got ${tokenBudget}`]),
    ...(deadlineMs > 0 ? [] : [`deadlineMs must be above 0, got ${deadlineMs}`]),
    ...(Number.isFinite(pauseMs) && pauseMs >= 0 ? [] : [`pauseMs must be at least 0, got ${pauseMs}`]),
  ]
}

/** A rollout in progress. */
interface Playing {
  readonly lease: RolloutLease<Json>
  readonly controller: AbortController
}

/** The state of a running worker. */
interface Shift<O, P> {
  readonly queue: RolloutWorkerOptions<O, P>['queue']
  readonly rules: LeaseRules<O, P>
  readonly limits: Limits
  readonly timers: Timers
  readonly tell: (event: WorkerEvent) => void
  readonly refusal: (task: Json) => string | null
  readonly playing: Map<number, Playing>
  /** Aborts when the worker must stop, for any reason. */
  readonly over: AbortController
  readonly count: Changing<WorkerReport>
  readonly state: { inRow: number; broken: Pick<WorkerStopped, 'reason' | 'cause'> | undefined }
}

const stopFor = <O, P>({ state, over }: Shift<O, P>, why: Pick<WorkerStopped, 'reason' | 'cause'>): void => {
  state.broken ??= why
  over.abort()
}

/** Stops the worker if the queue failed. A refusal is a normal result. */
const orStop = <O, P, T>(shift: Shift<O, P>, result: E.Either<QueueProblem, T>): 'done' | 'refused' | 'broken' => {
  if (E.isRight(result)) return 'done'
  if (result.left._tag === 'QueueRefusal') return 'refused'
  stopFor(shift, { reason: 'the queue cannot be used', cause: result.left })
  return 'broken'
}

type Outcome =
  | { readonly bytes: Uint8Array; readonly policyVersion: number }
  | { readonly reason: string }
  | typeof ABORTED

const played = async <O, P>(
  { rules, limits, timers, over }: Shift<O, P>,
  { lease, controller }: Playing,
): Promise<Outcome> => {
  let isLate = false
  const cancelTimer = Number.isFinite(limits.deadlineMs)
    ? timers.after(limits.deadlineMs, () => {
        isLate = true
        controller.abort()
      })
    : () => {}
  try {
    const result = await playLease(lease, rules, controller.signal)
    if (result === ABORTED)
      return isLate && !over.signal.aborted ? { reason: `not finished within ${limits.deadlineMs} ms` } : ABORTED
    if (E.isLeft(result)) return { reason: describe(result.left) }
    using rows = result.right.rows
    return { bytes: encodeRollout(result.right), policyVersion: rolloutVersion(rows.value) }
  } catch (error) {
    return { reason: thrownText(error) }
  } finally {
    cancelTimer()
  }
}

/** Delivers a rollout, or reports its failure. */
const bring = async <O, P>(shift: Shift<O, P>, { lease }: Playing, outcome: Outcome): Promise<void> => {
  const { queue, tell, count, state, limits } = shift
  if (outcome === ABORTED) {
    if (state.broken?.cause !== undefined) return // the queue is unusable: the lease expires
    if (orStop(shift, await queue.giveBack(lease)()) !== 'done') return
    count.returned++
    tell({ _tag: 'Returned', lease })
    return
  }
  const isFailed = 'reason' in outcome
  const answer = isFailed ? await queue.fail(lease, outcome.reason)() : await queue.deliver({ ...lease, ...outcome })()
  state.inRow = isFailed ? state.inRow + 1 : 0
  const how = orStop(shift, answer)
  if (how === 'refused') {
    count.late++
    tell({ _tag: 'Late', lease, reason: E.isLeft(answer) ? answer.left.reason : '' })
  } else if (how === 'done' && isFailed) {
    count.failed++
    tell({ _tag: 'Failed', lease, reason: outcome.reason })
  } else if (how === 'done' && !isFailed) {
    count.delivered++
    tell({ _tag: 'Delivered', lease, bytes: outcome.bytes.length })
  }
  if (isFailed && state.inRow >= limits.failuresInRow)
    stopFor(shift, { reason: `${state.inRow} rollouts in a row failed, the last one because: ${outcome.reason}` })
}

/** Plays a lease in the background. Resolves when its slot is free, and never rejects. */
const begin = async <O, P>(shift: Shift<O, P>, lease: RolloutLease<Json>): Promise<void> => {
  const mine = { lease, controller: new AbortController() }
  shift.playing.set(lease.lease, mine)
  const refusal = shift.refusal(lease.task)
  if (refusal !== null) stopFor(shift, { reason: refusal })
  const outcome = refusal === null ? await played(shift, mine) : ABORTED
  await bring(shift, mine, outcome)
  shift.playing.delete(lease.lease)
}

/** Longest time between two heartbeats in milliseconds. */
const HEARTBEAT_MS = 5000

/**
 * Renews the leases of running rollouts with a heartbeat, at least three times per lease period.
 * Cancels rollouts whose lease is lost.
 */
const beat = <O, P>(shift: Shift<O, P>, leaseMs: number): (() => void) => {
  let cancelTimer = (): void => {}
  const next = (): void => {
    cancelTimer = shift.timers.after(Math.min(HEARTBEAT_MS, leaseMs / 3), async () => {
      const leases = [...shift.playing.values()].map(({ lease }) => lease)
      if (leases.length > 0) {
        const gone = await shift.queue.renew(leases)()
        orStop(shift, gone)
        for (const lease of E.isRight(gone) ? gone.right : []) shift.playing.get(lease)?.controller.abort()
      }
      if (!shift.over.signal.aborted) next()
    })
  }
  next()
  return () => cancelTimer()
}

/** Maximum single wait in milliseconds, because leases expire without an event. */
const LONGEST_WAIT_MS = 5000

/** Leases and plays rollouts until the worker stops. */
const work = async <O, P>(shift: Shift<O, P>, leaseMs: number): Promise<void> => {
  const { queue, limits, over, state, timers } = shift
  const places = new Set<Promise<void>>()
  const waitFor = async (what: Promise<unknown>): Promise<void> => void (await unlessAborted(what, over.signal))
  while (!over.signal.aborted) {
    if (places.size >= limits.slots) {
      await waitFor(Promise.race(places))
      continue
    }
    if (state.inRow > 0) {
      await pauseFor(limits.pauseMs * 2 ** Math.min(6, state.inRow - 1), timers, over.signal)
      if (over.signal.aborted) break
    }
    const lease = await queue.lease()
    const reply = orStop(shift, lease)
    if (E.isRight(lease)) {
      const place: Promise<void> = begin(shift, lease.right).finally(() => places.delete(place))
      places.add(place)
    } else if (reply === 'refused') await waitFor(queue.changed(Math.min(LONGEST_WAIT_MS, leaseMs / 2))())
  }
  for (const { controller } of shift.playing.values()) controller.abort()
  await Promise.all(places)
}

/**
 * Runs a worker until it is stopped: leases rollouts, plays them, renews its leases with a
 * heartbeat, and delivers the results.
 *
 * A worker may die at any moment. When its leases expire, another worker plays the same rollouts,
 * because their randomness depends only on task and member. A failed rollout is reported to the
 * queue, which leases it again until its attempts are used up. After a failure the worker pauses,
 * longer with each consecutive one.
 *
 * Errors   throws RangeError that lists all invalid limits. `Left(WorkerStopped)` if the queue is
 *          unusable, or after too many consecutive failures. Leases are returned if the queue can
 *          be reached.
 * Effects  those of environment and policy; listens to the signal until it ends.
 * Cost     memory of the rollouts in progress.
 * Source   rollout workers of verl and of prime-rl, which lose the group of a worker that dies.
 */
export const runRolloutWorker = <O, P>(
  options: RolloutWorkerOptions<O, P>,
): TaskEither<WorkerStopped, WorkerReport> => {
  checkOptions('runRolloutWorker', options, RUN_ROLLOUT_WORKER_OPTIONS)
  return async () => {
    const { queue, env, policy, key, signal, onRollout = () => {}, refusal = () => null, time = {} } = options
    const limits = { ...DEFAULTS, ...options.limits }
    const problems = limitProblems(limits)
    if (problems.length > 0) throw new RangeError(`runRolloutWorker: ${problems.join('; ')}`)
    const { clock = liveClock, timers = liveTimers } = time
    const shift: Shift<O, P> = {
      queue,
      limits,
      timers,
      refusal,
      playing: new Map(),
      over: new AbortController(),
      tell: harmless('onRollout', onRollout),
      rules: { env, policy, key, clock, turns: 'all', maxTurns: limits.maxTurns, tokenBudget: limits.tokenBudget },
      count: { delivered: 0, failed: 0, late: 0, returned: 0 },
      state: { inRow: 0, broken: undefined },
    }
    const onAbort = (): void => shift.over.abort()
    if (signal?.aborted === true) onAbort()
    signal?.addEventListener('abort', onAbort, { once: true })
    const found: E.Either<QueueFailure, { readonly settings: { readonly leaseMs: number } }> = await queue.look()
    if (E.isLeft(found)) stopFor(shift, { reason: 'the queue cannot be used', cause: found.left })
    const leaseMs = E.isRight(found) ? found.right.settings.leaseMs : LONGEST_WAIT_MS
    const still = beat(shift, leaseMs)
    try {
      await work(shift, leaseMs)
    } finally {
      still()
      signal?.removeEventListener('abort', onAbort)
    }
    const { broken } = shift.state
    return broken === undefined
      ? E.right(shift.count)
      : E.left({ _tag: 'WorkerStopped', ...broken, report: shift.count })
  }
}
