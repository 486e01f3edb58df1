/**
 * The trainer's operations on a group queue: taking, settling and dropping groups, and the ledger.
 */
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import {
  type DropCause,
  type GroupQueueState,
  isNatural,
  type PendingGroup,
  type QueueRefusal,
  refuseQueueChange,
  type Settled,
  settle,
} from './queueState.js'

/** A complete group. */
export interface TakenGroup<T, R> {
  readonly ticket: number
  readonly task: T
  /** One for each place, in order of places. */
  readonly rollouts: readonly { readonly rollout: R; readonly policyVersion: number }[]
}

const filled = <T, R>({ places }: PendingGroup<T, R>): TakenGroup<T, R>['rollouts'] =>
  places.flatMap((place) =>
    place._tag === 'Filled' ? [{ rollout: place.rollout, policyVersion: place.policyVersion }] : [],
  )

/**
 * Returns the ready tickets that may come out, in order. In task order, those after an unfinished
 * task must wait.
 */
const takable = <T, R>({ settings, ready, pending }: GroupQueueState<T, R>): readonly number[] => {
  if (settings.order === 'completion') return ready.toArray()
  const first = pending.reduce(
    (least, { stage }, ticket) => (stage === 'filling' ? Math.min(least, ticket) : least),
    Infinity,
  )
  return ready
    .filter((ticket) => ticket < first)
    .toArray()
    .sort((a, b) => a - b)
}

/**
 * Takes up to `count` complete groups. They are in training until `settleGroup` settles them or
 * `returnTaken` puts them back.
 *
 * Errors   throws RangeError unless `count` is a natural number.
 * Effects  none.
 *
 * @example
 * takeGroups(groupQueue({ groupSize: 8, capacity: 64 }), 1)[0] // []
 */
export const takeGroups = <T, R>(
  queue: GroupQueueState<T, R>,
  count: number,
): readonly [groups: readonly TakenGroup<T, R>[], next: GroupQueueState<T, R>] => {
  if (!isNatural(count)) throw new RangeError(`takeGroups: count must be a natural number, got ${count}`)
  const tickets = takable(queue).slice(0, count)
  const taken = new Set(tickets)
  const groups = tickets.map((ticket) => {
    const group = queue.pending.get(ticket)!
    return { ticket, task: group.task, rollouts: filled(group) }
  })
  const pending = queue.pending.withMutations((map) => {
    for (const ticket of tickets) map.update(ticket, (group) => ({ ...group!, stage: 'training' })) // ready ones are pending
  })
  return [groups, { ...queue, pending, ready: queue.ready.filter((ticket) => !taken.has(ticket)) }]
}

const pendingGroup = <T, R>(
  { nextTicket, pending }: GroupQueueState<T, R>,
  ticket: number,
): E.Either<QueueRefusal, PendingGroup<T, R>> => {
  if (!isNatural(ticket) || ticket >= nextTicket)
    return refuseQueueChange('unknown', `no task ${ticket} was ever drawn`)
  const group = pending.get(ticket)
  return group === undefined ? refuseQueueChange('settled', `task ${ticket} has ended`) : E.right(group)
}

/**
 * Settles a taken group.
 *
 * Errors   `Left(QueueRefusal)` without any change: `settled` for a second outcome, `not-taken`,
 *          `unknown`.
 * Effects  none.
 *
 * @example
 * settleGroup(groupQueue({ groupSize: 8, capacity: 64 }), 0, { _tag: 'Trained', step: 1 }).left.kind // 'unknown'
 */
export const settleGroup = <T, R>(
  queue: GroupQueueState<T, R>,
  ticket: number,
  how: Settled,
): E.Either<QueueRefusal, GroupQueueState<T, R>> =>
  pipe(
    pendingGroup(queue, ticket),
    E.chain(({ stage }) =>
      stage === 'training'
        ? E.right(settle(queue, ticket, how))
        : refuseQueueChange('not-taken', `the group of task ${ticket} has not been taken`),
    ),
  )

/** Puts all taken and unsettled groups back in front, after their trainer has gone. */
export const returnTaken = <T, R>(queue: GroupQueueState<T, R>): GroupQueueState<T, R> => {
  const taken = [...queue.pending.filter(({ stage }) => stage === 'training').keys()].sort((a, b) => a - b)
  const pending = queue.pending.withMutations((map) => {
    for (const ticket of taken) map.update(ticket, (group) => ({ ...group!, stage: 'ready' })) // found in it
  })
  return { ...queue, pending, ready: queue.ready.unshift(...taken) }
}

/**
 * Drops a task that was not taken. Later deliveries of its rollouts are refused.
 *
 * Errors   `Left(QueueRefusal)` without any change: `settled` for a settled task, `unknown`, and
 *          `taken` for a group in training, which only `settleGroup` can settle.
 * Effects  none.
 */
export const dropTask = <T, R>(
  queue: GroupQueueState<T, R>,
  ticket: number,
  { cause, reason }: { readonly cause: DropCause; readonly reason: string },
): E.Either<QueueRefusal, GroupQueueState<T, R>> =>
  pipe(
    pendingGroup(queue, ticket),
    E.chain(({ stage }) =>
      stage === 'training'
        ? refuseQueueChange('taken', `the group of task ${ticket} is in training`)
        : E.right(settle(queue, ticket, { _tag: 'Dropped', cause, reason })),
    ),
  )

/**
 * Drops all groups (`stale`) with a rollout more than `maxLag` updates older than `version`. Groups
 * in training stay.
 *
 * Errors   throws RangeError unless `version` is a natural number.
 * Effects  none.
 */
export const evictStale = <T, R>(queue: GroupQueueState<T, R>, version: number): GroupQueueState<T, R> => {
  if (!isNatural(version)) throw new RangeError(`evictStale: version must be a natural number, got ${version}`)
  const { maxLag } = queue.settings
  return [...queue.pending].reduce((next, [ticket, group]) => {
    if (group.stage === 'training') return next
    const oldest = Math.min(...filled(group).map(({ policyVersion }) => policyVersion))
    if (version - oldest <= maxLag) return next
    const reason = `a rollout of version ${oldest} at version ${version}, more than ${maxLag} updates behind`
    return settle(next, ticket, { _tag: 'Dropped', cause: 'stale', reason })
  }, queue)
}

/** The status of a task. */
export type TaskOutcome =
  | Settled
  /** Waiting for a worker; some of its rollouts may be delivered. */
  | { readonly _tag: 'Queued'; readonly filled: number }
  /** Workers hold leases of some of its rollouts. */
  | { readonly _tag: 'Leased'; readonly filled: number; readonly workers: readonly string[] }
  | { readonly _tag: 'Ready' }
  | { readonly _tag: 'Training' }
  /** Settled, and the outcome was deleted. */
  | { readonly _tag: 'Forgotten' }
  /** Never drawn. */
  | { readonly _tag: 'Unknown' }

/**
 * Returns the status of a task.
 *
 * @example
 * taskOutcome(groupQueue({ groupSize: 8, capacity: 64 }), 0) // { _tag: 'Unknown' }
 */
export const taskOutcome = <T, R>(queue: GroupQueueState<T, R>, ticket: number): TaskOutcome => {
  if (!isNatural(ticket) || ticket >= queue.nextTicket) return { _tag: 'Unknown' }
  const group = queue.pending.get(ticket)
  if (group === undefined) return queue.settled.get(ticket) ?? { _tag: 'Forgotten' }
  if (group.stage === 'ready') return { _tag: 'Ready' }
  if (group.stage === 'training') return { _tag: 'Training' }
  const workers = group.places.flatMap((place) => (place._tag === 'Leased' ? [place.worker] : []))
  const there = filled(group).length
  return workers.length > 0
    ? { _tag: 'Leased', filled: there, workers: [...new Set(workers)] }
    : { _tag: 'Queued', filled: there }
}

/** A worker whose heartbeats are overdue. */
export interface OverdueWorker {
  readonly worker: string
  /** Number of rollouts that are leased to it. */
  readonly rollouts: number
  /** Milliseconds since its last heartbeat. */
  readonly sinceMs: number
}

/**
 * Returns the workers with leased rollouts that have sent no heartbeat for `afterMs` at `now`, a
 * time of the queue's clock.
 *
 * Cost     visits every rollout in the queue.
 *
 * @example
 * overdueWorkers(groupQueue({ groupSize: 8, capacity: 64 }), { now: 0, afterMs: 1 }) // []
 */
export const overdueWorkers = <T, R>(
  { pending, settings: { leaseMs } }: GroupQueueState<T, R>,
  { now, afterMs }: { readonly now: number; readonly afterMs: number },
): readonly OverdueWorker[] => {
  const workers = new Map<string, OverdueWorker>()
  for (const { places } of pending.values())
    for (const place of places) {
      if (place._tag !== 'Leased') continue
      const { worker, expires } = place
      const { rollouts, sinceMs } = workers.get(worker) ?? { rollouts: 0, sinceMs: Number.POSITIVE_INFINITY }
      workers.set(worker, { worker, rollouts: rollouts + 1, sinceMs: Math.min(sinceMs, now - (expires - leaseMs)) })
    }
  return [...workers.values()].filter(({ sinceMs }) => sinceMs >= afterMs)
}

/** Numbers of tasks by status. */
export interface Ledger {
  readonly drawn: number
  readonly queued: number
  readonly leased: number
  readonly ready: number
  readonly training: number
  readonly trained: number
  readonly dropped: Readonly<Record<DropCause, number>>
}

/**
 * Counts tasks by status. `drawn` is the sum of all the others.
 *
 * Cost     visits every unsettled task.
 *
 * @example
 * ledger(groupQueue({ groupSize: 8, capacity: 64 })).drawn // 0
 */
export const ledger = <T, R>(queue: GroupQueueState<T, R>): Ledger => {
  const fates = queue.pending.keySeq().countBy((ticket) => taskOutcome(queue, ticket)._tag)
  return {
    drawn: queue.nextTicket,
    queued: fates.get('Queued', 0),
    leased: fates.get('Leased', 0),
    ready: fates.get('Ready', 0),
    training: fates.get('Training', 0),
    ...queue.counts,
  }
}

/**
 * Deletes outcomes, so that the queue does not grow with the run. The counts stay, and late
 * deliveries are still refused.
 */
export const forgetSettled = <T, R>(queue: GroupQueueState<T, R>): GroupQueueState<T, R> => ({
  ...queue,
  settled: queue.settled.clear(),
})
