/**
 * A queue of rollout groups between many workers and one trainer.
 *
 * The queue is a value, and every operation is pure: time and versions are arguments. A drawn task
 * is queued, leased, ready or in training until it is settled, exactly once, as trained or dropped
 * (`ledger`). An invalid call of a remote party, such as a second delivery of a rollout or one
 * after its task was settled, is refused and changes nothing.
 */
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import { Map as ImmutableMap, List } from 'immutable'
import {
  type GroupQueueSettings,
  type GroupQueueState,
  giveUp,
  isNatural,
  openingOf,
  type PendingGroup,
  type Place,
  type QueueRefusal,
  refuseQueueChange,
  reopen,
  type Spot,
  setPlace,
  settingProblems,
  spotOf,
} from './queueState.js'

/**
 * Makes an empty queue.
 *
 * Errors   throws RangeError that lists all invalid settings.
 *
 * @example
 * groupQueue({ groupSize: 8, capacity: 64 }).settings.order // 'completion'
 */
export const groupQueue = <T, R>(
  settings: Pick<GroupQueueSettings, 'groupSize' | 'capacity'> & Partial<GroupQueueSettings>,
): GroupQueueState<T, R> => {
  const all: GroupQueueSettings = {
    leaseMs: 30_000,
    maxAttempts: 3,
    maxLag: Number.MAX_SAFE_INTEGER,
    order: 'completion',
    ...settings,
  }
  const problems = settingProblems(all)
  if (problems.length > 0) throw new RangeError(`groupQueue: ${problems.join('; ')}`)
  return {
    _tag: 'GroupQueueState',
    settings: all,
    nextTicket: 0,
    nextLease: 0,
    pending: ImmutableMap(),
    openings: List(),
    ready: List(),
    settled: ImmutableMap(),
    counts: { trained: 0, dropped: { stale: 0, failed: 0, abandoned: 0, filtered: 0, cancelled: 0 } },
  }
}

/**
 * Adds a task to the queue. Its ticket is the number of tasks drawn before it.
 *
 * Errors   `Left(QueueRefusal)` of kind `full` while the queue holds `capacity` tasks
 *          (back-pressure).
 * Effects  none.
 * Cost     O(groupSize), plus the logarithm of the number of tasks in the queue.
 *
 * @example
 * addTask(groupQueue({ groupSize: 8, capacity: 64 }), 'task').right[0] // 0
 */
export const addTask = <T, R>(
  queue: GroupQueueState<T, R>,
  task: T,
): E.Either<QueueRefusal, readonly [ticket: number, next: GroupQueueState<T, R>]> => {
  const { settings, nextTicket: ticket } = queue
  if (queue.pending.size >= settings.capacity)
    return refuseQueueChange('full', `the queue is full: it holds ${queue.pending.size} tasks`)
  const places = Array.from({ length: settings.groupSize }, (): Place<R> => ({ _tag: 'Open', attempts: 0 }))
  const group: PendingGroup<T, R> = { task, places, stage: 'filling' }
  const next = {
    ...queue,
    nextTicket: ticket + 1,
    pending: queue.pending.set(ticket, group),
    openings: queue.openings.push(...places.map((_, place) => openingOf({ ticket, place }, settings))),
  }
  return E.right([ticket, next])
}

/** A rollout assigned to a worker, which names it on delivery. */
export interface RolloutLease<T> extends Spot {
  /** Unique number of the lease. */
  readonly lease: number
  readonly task: T
  /** Counted from 1. */
  readonly attempt: number
  /** The time, on the clock of the queue's owner, at which the lease expires. */
  readonly expires: number
}

/** The worker that requests a lease, and the time. */
export interface LeaseRequest {
  readonly worker: string
  /** Milliseconds on the clock of the queue's owner. */
  readonly now: number
}

/**
 * Leases the first open rollout of the earliest task to a worker.
 *
 * Errors   `Left(QueueRefusal)` of kind `empty` if no rollout is open, and `invalid` if `now` is
 *          not a finite number.
 * Effects  none.
 *
 * @example
 * leaseRollout(groupQueue({ groupSize: 8, capacity: 64 }), { worker: 'w', now: 0 }).left.kind // 'empty'
 */
export const leaseRollout = <T, R>(
  queue: GroupQueueState<T, R>,
  { worker, now }: LeaseRequest,
): E.Either<QueueRefusal, readonly [lease: RolloutLease<T>, next: GroupQueueState<T, R>]> => {
  if (!Number.isFinite(now)) return refuseQueueChange('invalid', `now must be a number of milliseconds, got ${now}`)
  const opening = queue.openings.first()
  if (opening === undefined) return refuseQueueChange('empty', 'no rollout is open')
  const spot = spotOf(opening, queue.settings)
  const { task, places } = queue.pending.get(spot.ticket)!
  const place = places[spot.place]!
  const attempt = place._tag === 'Open' ? place.attempts + 1 : 1
  const lease = queue.nextLease
  const expires = now + queue.settings.leaseMs
  const next = setPlace(queue, spot, { _tag: 'Leased', attempts: attempt, lease, worker, expires })
  return E.right([
    { ...spot, lease, task, attempt, expires },
    { ...next, nextLease: lease + 1, openings: queue.openings.shift() },
  ])
}

/** The identity of a lease: see `RolloutLease`. */
export type LeaseName = Pick<RolloutLease<unknown>, 'ticket' | 'place' | 'lease'>

type LeasedPlace = Extract<Place<never>, { readonly _tag: 'Leased' }>

/** Returns the place of a valid lease, or the reason for refusing it. */
const leasedPlace = <T, R>(
  queue: GroupQueueState<T, R>,
  { ticket, place, lease }: LeaseName,
): E.Either<QueueRefusal, LeasedPlace> => {
  const isGiven =
    isNatural(ticket) &&
    ticket < queue.nextTicket &&
    isNatural(place) &&
    place < queue.settings.groupSize &&
    isNatural(lease) &&
    lease < queue.nextLease
  if (!isGiven)
    return refuseQueueChange('unknown', `no lease ${lease} of rollout ${place} of task ${ticket} was ever given`)
  const found = queue.pending.get(ticket)?.places[place]
  if (found === undefined) return refuseQueueChange('settled', `task ${ticket} has ended`)
  if (found._tag === 'Filled')
    return refuseQueueChange('delivered', `rollout ${place} of task ${ticket} was already delivered`)
  if (found._tag === 'Leased' && found.lease === lease) return E.right(found)
  return refuseQueueChange('superseded', `lease ${lease} of rollout ${place} of task ${ticket} is no longer valid`)
}

/** A finished rollout. */
export interface DeliveredRollout<R> extends LeaseName {
  readonly rollout: R
  /** The version of the weights that sampled its oldest token. */
  readonly policyVersion: number
}

/**
 * Adds a rollout to its group. The last one makes the group ready.
 *
 * Errors   `Left(QueueRefusal)` without any change: `delivered` for a second delivery, `superseded`
 *          after the lease has expired, `settled` after the task was settled, `unknown` for a lease
 *          that was never given, and `invalid` if `policyVersion` is not a natural number.
 * Effects  none.
 *
 * @example
 * deliverRollout(groupQueue({ groupSize: 1, capacity: 1 }), { ticket: 0, place: 0, lease: 0, rollout: 'x', policyVersion: 0 }).left.kind // 'unknown'
 */
export const deliverRollout = <T, R>(
  queue: GroupQueueState<T, R>,
  { rollout, policyVersion, ...name }: DeliveredRollout<R>,
): E.Either<QueueRefusal, GroupQueueState<T, R>> => {
  const leased = leasedPlace(queue, name)
  if (E.isLeft(leased)) return leased
  if (!isNatural(policyVersion))
    return refuseQueueChange('invalid', `policyVersion must be a natural number, got ${String(policyVersion)}`)
  return E.right(setPlace(queue, name, { _tag: 'Filled', rollout, policyVersion }))
}

/**
 * Reports a failed rollout. It is open again; after `maxAttempts` its task is dropped (`failed`).
 *
 * Errors   those of `deliverRollout`.
 * Effects  none.
 */
export const failRollout = <T, R>(
  queue: GroupQueueState<T, R>,
  { reason, ...name }: LeaseName & { readonly reason: string },
): E.Either<QueueRefusal, GroupQueueState<T, R>> =>
  pipe(
    leasedPlace(queue, name),
    E.map(() => giveUp(queue, name, { cause: 'failed', reason })),
  )

/**
 * Returns an unused lease, for example when a worker shuts down. The rollout is open again, and the
 * attempt does not count.
 *
 * Errors   those of `deliverRollout`.
 * Effects  none.
 */
export const returnRollout = <T, R>(
  queue: GroupQueueState<T, R>,
  name: LeaseName,
): E.Either<QueueRefusal, GroupQueueState<T, R>> =>
  pipe(
    leasedPlace(queue, name),
    E.map(({ attempts }) => reopen(queue, name, attempts - 1)),
  )

/**
 * Renews the lease of a live worker for another `leaseMs` from `now`.
 *
 * Errors   those of `deliverRollout`.
 * Effects  none.
 */
export const renewLease = <T, R>(
  queue: GroupQueueState<T, R>,
  { now, ...name }: LeaseName & Pick<LeaseRequest, 'now'>,
): E.Either<QueueRefusal, GroupQueueState<T, R>> => {
  const leased = leasedPlace(queue, name)
  if (E.isLeft(leased)) return leased
  if (!Number.isFinite(now)) return refuseQueueChange('invalid', `now must be a number of milliseconds, got ${now}`)
  return E.right(setPlace(queue, name, { ...leased.right, expires: now + queue.settings.leaseMs }))
}

/**
 * Reopens all rollouts whose leases have expired at `now`, because their workers are presumed dead.
 * A task with a rollout that has used all its attempts is dropped (`abandoned`).
 *
 * Effects  none. Later deliveries of these leases are refused.
 * Cost     visits every rollout in the queue.
 *
 * @example
 * expireLeases(groupQueue({ groupSize: 8, capacity: 64 }), 0).pending.size // 0
 */
export const expireLeases = <T, R>(queue: GroupQueueState<T, R>, now: number): GroupQueueState<T, R> => {
  const expired = [...queue.pending].flatMap(([ticket, { places }]) =>
    places.flatMap((place, i) =>
      place._tag === 'Leased' && place.expires <= now ? [{ ticket, place: i, worker: place.worker }] : [],
    ),
  )
  return expired
    .sort((a, b) => a.ticket - b.ticket || a.place - b.place)
    .reduce(
      (next, { worker, ...spot }) =>
        next.pending.has(spot.ticket)
          ? giveUp(next, spot, { cause: 'abandoned', reason: `worker '${worker}' stopped responding` })
          : next,
      queue,
    )
}
