/**
 * A worker: takes rollouts from a shared queue, plays them and returns them.
 *
 * This folder holds workers: processes that play rollouts for a trainer elsewhere. It does not
 * hold the queue that they take work from (`../queues`).
 */
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { ABORTED, unlessAborted } from '../../core/cancellation.js'
import type { Clock, Timers } from '../../core/capabilities.js'
import type { Changing } from '../../core/changing.js'
import { describe, namedMessage } from '../../core/failure.js'
import type { Key } from '../../core/key.js'
import { aFunction, aRecord, checkOptions, type OptionKinds } from '../../core/options.js'
import type { Json } from '../../data/codecs/plainValues.js'
import type { Policy, TokenAction } from '../../data/policy.js'
import { liveClock, liveTimers } from '../../live/clock.js'
import type { RolloutLease } from '../queues/groupQueue.js'
import type { QueueFailure } from '../queues/queueLog.js'
import type { QueueProblem, RolloutQueue, WorkerQueue } from '../queues/rolloutQueue.js'
import { type LeaseRules, playLease } from './playLease.js'
import { encodeRollout, rolloutVersion } from './rolloutBytes.js'

export interface RolloutWorkerOptions<O, P = TokenAction> {
  readonly queue: WorkerQueue & Pick<RolloutQueue, 'look' | 'changed'>
  /** The environment of a task: its batch is one group. Equal tasks must give equal environments, in every worker. */
  readonly env: LeaseRules<O, P>['env']
  readonly policy: Policy<O, P>
  /** The same in all workers. */
  readonly key: Key
  readonly limits?: WorkerLimits
  /** Aborting it ends the work: leases are given back. */
  readonly signal?: AbortSignal
  /** Told of each rollout that is over. */
  readonly onRollout?: (event: WorkerEvent) => void
  readonly time?: { readonly clock?: Clock; readonly timers?: Timers }
}

export interface WorkerLimits {
  /** Rollouts that are played at a time. Default 8. */
  readonly slots?: number
  /** Default 64. */
  readonly maxTurns?: number
  /** A rollout whose policy has sampled so many tokens is cut off. Default: none. */
  readonly tokenBudget?: number
  /** For one rollout, its reset included. Default: none. */
  readonly deadlineMs?: number
  /** The worker stops after so many rollouts in a row that failed: it, or its engine, is broken. Default 20. */
  readonly failuresInRow?: number
  /** The pause after a failure; it doubles with each one in a row, up to 64 times. Default 100. */
  readonly pauseMs?: number
}

/** How a rollout ended for its worker. `late`: the queue had given it to somebody else by then. */
export type WorkerEvent =
  | { readonly _tag: 'Delivered'; readonly lease: RolloutLease<Json>; readonly bytes: number }
  | { readonly _tag: 'Failed' | 'Late'; readonly lease: RolloutLease<Json>; readonly reason: string }
  | { readonly _tag: 'Returned'; readonly lease: RolloutLease<Json> }

/** What a worker did. */
export interface WorkerReport {
  readonly delivered: number
  readonly failed: number
  readonly late: number
  readonly returned: number
}

/** A worker that cannot go on. */
export interface WorkerStopped {
  readonly _tag: 'WorkerStopped'
  readonly reason: string
  readonly report: WorkerReport
  /** If the queue cannot be used. */
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

/** A rollout that is being played. */
interface Playing {
  readonly lease: RolloutLease<Json>
  readonly controller: AbortController
}

/** A worker at work. */
interface Shift<O, P> {
  readonly queue: RolloutWorkerOptions<O, P>['queue']
  readonly rules: LeaseRules<O, P>
  readonly limits: Limits
  readonly timers: Timers
  readonly tell: (event: WorkerEvent) => void
  readonly playing: Map<number, Playing>
  /** Aborts when the worker is to end, for whatever reason. */
  readonly over: AbortController
  readonly count: Changing<WorkerReport>
  readonly state: { inRow: number; broken: Pick<WorkerStopped, 'reason' | 'cause'> | undefined }
}

const stopFor = <O, P>({ state, over }: Shift<O, P>, why: Pick<WorkerStopped, 'reason' | 'cause'>): void => {
  state.broken ??= why
  over.abort()
}

/** A queue that cannot be used ends the work; what it refuses is an answer. */
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
  const silence = Number.isFinite(limits.deadlineMs)
    ? timers.after(limits.deadlineMs, () => {
        isLate = true
        controller.abort()
      })
    : () => {}
  try {
    const result = await playLease(lease, rules, controller.signal)
    if (result === ABORTED)
      return isLate && !over.signal.aborted ? { reason: `not over within ${limits.deadlineMs} ms` } : ABORTED
    if (E.isLeft(result)) return { reason: describe(result.left) }
    using rows = result.right.rows
    return { bytes: encodeRollout(result.right), policyVersion: rolloutVersion(rows.value) }
  } catch (error) {
    return { reason: namedMessage(error) }
  } finally {
    silence()
  }
}

/** Brings a rollout back, or says why there is none. */
const bring = async <O, P>(shift: Shift<O, P>, { lease }: Playing, outcome: Outcome): Promise<void> => {
  const { queue, tell, count, state, limits } = shift
  if (outcome === ABORTED) {
    if (state.broken?.cause !== undefined) return // nobody can be told: the lease runs out
    if (orStop(shift, await queue.giveBack(lease)()) !== 'done') return
    count.returned++
    tell({ _tag: 'Returned', lease })
    return
  }
  const isFailed = 'reason' in outcome
  const said = isFailed ? await queue.fail(lease, outcome.reason)() : await queue.deliver({ ...lease, ...outcome })()
  state.inRow = isFailed ? state.inRow + 1 : 0
  const how = orStop(shift, said)
  if (how === 'refused') {
    count.late++
    tell({ _tag: 'Late', lease, reason: E.isLeft(said) ? said.left.reason : '' })
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

/** Plays a lease in the background; resolves, never rejects, when its place is free. */
const begin = async <O, P>(shift: Shift<O, P>, lease: RolloutLease<Json>): Promise<void> => {
  const mine = { lease, controller: new AbortController() }
  shift.playing.set(lease.lease, mine)
  const outcome = await played(shift, mine)
  await bring(shift, mine, outcome)
  shift.playing.delete(lease.lease)
}

/** Keeps the leases of what is being played, three times in the life of one. What is somebody else's by now is called off. */
const beat = <O, P>(shift: Shift<O, P>, leaseMs: number): (() => void) => {
  let silence = (): void => {}
  const next = (): void => {
    silence = shift.timers.after(leaseMs / 3, async () => {
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
  return () => silence()
}

/** The longest wait for a change of the queue: leases run out without one. */
const LONGEST_WAIT_MS = 5000

/** Leases and plays until the end. */
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
      const pause = limits.pauseMs * 2 ** Math.min(6, state.inRow - 1)
      await waitFor(new Promise<void>((go) => void timers.after(pause, go)))
      if (over.signal.aborted) break
    }
    const lease = await queue.lease()
    const said = orStop(shift, lease)
    if (E.isRight(lease)) {
      const place: Promise<void> = begin(shift, lease.right).finally(() => places.delete(place))
      places.add(place)
    } else if (said === 'refused') await waitFor(queue.changed(Math.min(LONGEST_WAIT_MS, leaseMs / 2))())
  }
  for (const { controller } of shift.playing.values()) controller.abort()
  await Promise.all(places)
}

const RUN_ROLLOUT_WORKER_OPTIONS: OptionKinds<RolloutWorkerOptions<never, never>> = {
  queue: aRecord,
  env: aFunction,
  policy: aRecord,
  key: aRecord,
  limits: aRecord,
  signal: aRecord,
  onRollout: aFunction,
  time: aRecord,
}

/**
 * Works for a queue until it is told to end: leases rollouts, plays them, keeps its leases with a heartbeat and brings back what was played.
 *
 * A worker may die at any moment: what it had is given to another one when its leases have run out, and that one plays the same rollout,
 * since randomness belongs to task and member. A rollout that fails is told to the queue, which gives it out again, as often as it may be
 * tried; after a failure the worker waits, longer with each one in a row.
 *
 * Errors   throws RangeError with all limits that are wrong; `Left(WorkerStopped)` if the queue cannot be used, or too many rollouts in a
 *          row failed. Leases are given back, as far as the queue can be told.
 * Effects  those of environment and policy; listens to the signal until the end.
 * Cost     memory of the rollouts that are being played.
 * Source   rollout workers of verl and of prime-rl, which lose the group of a worker that dies.
 */
export const runRolloutWorker = <O, P>(
  options: RolloutWorkerOptions<O, P>,
): TaskEither<WorkerStopped, WorkerReport> => {
  checkOptions('runRolloutWorker', options, RUN_ROLLOUT_WORKER_OPTIONS)
  return async () => {
    const { queue, env, policy, key, signal, onRollout = () => {}, time = {} } = options
    const limits = { ...DEFAULTS, ...options.limits }
    const problems = limitProblems(limits)
    if (problems.length > 0) throw new RangeError(`runRolloutWorker: ${problems.join('; ')}`)
    const { clock = liveClock, timers = liveTimers } = time
    const shift: Shift<O, P> = {
      ...{ queue, limits, timers, tell: onRollout, playing: new Map(), over: new AbortController() },
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
