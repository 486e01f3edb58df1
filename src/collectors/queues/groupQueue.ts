/**
 * Groups of rollouts on their way from many workers to one trainer: which are wanted, which are being made, which are complete.
 *
 * The queue is a value, and every operation is pure: time and versions are arguments. A task that was drawn is queued, leased, ready or in
 * training until it ends, once, as trained or as dropped for a reason (`ledger`). A wrong call of a remote party, such as a rollout that
 * comes twice or after its task has ended, is refused and changes nothing.
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
 * An empty queue.
 *
 * Errors   throws RangeError with all settings that are wrong.
 *
 * @example
 * groupQueue({ groupSize: 8, capacity: 64 }).settings.order // 'completion'
 */
export const groupQueue = <T, R>(
  settings: Pick<GroupQueueSettings, 'groupSize' | 'capacity'> & Partial<GroupQueueSettings>,
): GroupQueueState<T, R> => {
  const all: GroupQueueSettings = {
    leaseMs: 600_000,
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
 * Puts a task into the queue: its group is wanted from now on. Its ticket is the number of tasks drawn before it.
 *
 * Errors   `Left(QueueRefusal)` of kind `full` while the queue holds as many tasks as it may: back-pressure.
 * Effects  none.
 * Cost     O(groupSize), and the logarithm of the tasks that are held.
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
    return refuseQueueChange('full', `the queue holds ${queue.pending.size} tasks, as many as it may`)
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

/** A rollout that a worker is to make. What it brings back names it. */
export interface RolloutLease<T> extends Spot {
  /** No two leases have the same number. */
  readonly lease: number
  readonly task: T
  /** Counted from 1. */
  readonly attempt: number
  /** The moment, on the clock of the queue's owner, when it is open again. */
  readonly expires: number
}

/** Who asks, and when. */
export interface LeaseRequest {
  readonly worker: string
  /** Milliseconds of the clock of the queue's owner. */
  readonly now: number
}

/**
 * Gives a worker the first open rollout of the task that was drawn first.
 *
 * Errors   `Left(QueueRefusal)` of kind `empty` if no rollout is open, `invalid` for a clock that shows no number.
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

/** What names a lease: see `RolloutLease`. */
export type LeaseName = Pick<RolloutLease<unknown>, 'ticket' | 'place' | 'lease'>

type LeasedPlace = Extract<Place<never>, { readonly _tag: 'Leased' }>

/** The place of a lease that still holds, or why there is none. */
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
    return refuseQueueChange('delivered', `rollout ${place} of task ${ticket} is there already`)
  if (found._tag === 'Leased' && found.lease === lease) return E.right(found)
  return refuseQueueChange('superseded', `lease ${lease} of rollout ${place} of task ${ticket} does not hold any more`)
}

/** A rollout that is done. */
export interface DeliveredRollout<R> extends LeaseName {
  readonly rollout: R
  /** The version of the weights that sampled it; of the oldest of its tokens, if there were several. */
  readonly policyVersion: number
}

/**
 * Puts a rollout into its group. When it is the last one, the group is ready.
 *
 * Errors   `Left(QueueRefusal)`, and nothing is changed, unless the lease still holds: `delivered` for what is there already, `superseded`
 *          after the lease has run out, `settled` after the task has ended, `unknown` for what was never given; `invalid` for a version that
 *          is no natural number.
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
 * Says that a rollout failed: it is open again, or its task is dropped (`failed`) if it was tried as often as it may be.
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
 * Gives a lease back unused, as a worker that is told to end does: the rollout is open again, and the attempt does not count.
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
 * Keeps a lease for another `leaseMs` from `now`: the worker lives.
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
 * Opens all rollouts again whose leases have run out at `now`: their workers are thought dead. A task with one that was tried as often as it
 * may be is dropped (`abandoned`).
 *
 * Effects  none. What a dead worker delivers after all is refused.
 * Cost     a look at every rollout of the queue.
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
          ? giveUp(next, spot, { cause: 'abandoned', reason: `nothing was heard of worker '${worker}'` })
          : next,
      queue,
    )
}
