/**
 * The state of a group queue, and the changes that its operations share. Internal to this folder.
 */
import * as E from 'fp-ts/lib/Either.js'
import type { Map as ImmutableMap, List } from 'immutable'

/** The settings of a queue. Plain numbers and words, so that they can be saved with it. */
export interface GroupQueueSettings {
  /** Rollouts in a group. */
  readonly groupSize: number
  /** Maximum number of tasks in the queue, from their draw until they are trained or dropped. */
  readonly capacity: number
  /** Milliseconds without a sign of life from the worker after which a lease expires. */
  readonly leaseMs: number
  /** Number of attempts at a rollout before its task is dropped. */
  readonly maxAttempts: number
  /** Largest staleness of a rollout in updates. Groups with an older one are evicted. */
  readonly maxLag: number
  /**
   * `completion`: groups come out in order of completion. `task`: in the order in which tasks were
   * drawn.
   */
  readonly order: 'completion' | 'task'
}

/** One rollout of a group: open, leased to a worker, or delivered. */
export type Place<R> =
  | { readonly _tag: 'Open'; readonly attempts: number }
  | {
      readonly _tag: 'Leased'
      readonly attempts: number
      readonly lease: number
      readonly worker: string
      readonly expires: number
    }
  | { readonly _tag: 'Filled'; readonly rollout: R; readonly policyVersion: number }

/** A task that is not settled, with its rollouts. */
export interface PendingGroup<T, R> {
  readonly task: T
  readonly places: readonly Place<R>[]
  /** `training`: taken by the trainer and not settled yet. */
  readonly stage: 'filling' | 'ready' | 'training'
}

/** The reason for dropping a task. */
export type DropCause =
  /** A rollout was sampled too many updates ago. */
  | 'stale'
  /** A rollout failed in all its attempts. */
  | 'failed'
  /** The workers of a rollout stopped responding in all its attempts. */
  | 'abandoned'
  /** The group has no signal to train on. */
  | 'filtered'
  /** The task was cancelled. */
  | 'cancelled'

/** All causes. */
export const DROP_CAUSES: readonly DropCause[] = ['stale', 'failed', 'abandoned', 'filtered', 'cancelled']

/** The outcome of a task. */
export type Settled =
  | { readonly _tag: 'Trained'; readonly step: number }
  | { readonly _tag: 'Dropped'; readonly cause: DropCause; readonly reason: string }

/** Numbers of settled tasks by outcome. */
interface SettledCounts {
  readonly trained: number
  readonly dropped: Readonly<Record<DropCause, number>>
}

/** The complete state of a queue, as an immutable value. `T` is a task, `R` a rollout. */
export interface GroupQueueState<T, R> {
  readonly _tag: 'GroupQueueState'
  readonly settings: GroupQueueSettings
  /** The number of the next task. All smaller numbers have been drawn. */
  readonly nextTicket: number
  readonly nextLease: number
  readonly pending: ImmutableMap<number, PendingGroup<T, R>>
  /** Open places as `ticket * groupSize + place`, ascending. The first is leased next. */
  readonly openings: List<number>
  /** Tickets of complete groups, in order of completion. */
  readonly ready: List<number>
  /** Outcomes of the settled tasks that are still remembered. */
  readonly settled: ImmutableMap<number, Settled>
  readonly counts: SettledCounts
}

/** A refused operation. The queue is unchanged. */
export interface QueueRefusal {
  readonly _tag: 'QueueRefusal'
  readonly kind: /** The queue is at capacity. Retry after a task was settled. */
    | 'full'
    /** No rollout is open. */
    | 'empty'
    /** The task or the lease does not exist. */
    | 'unknown'
    /** The lease is no longer valid: the rollout was leased again, or is open again. */
    | 'superseded'
    /** The rollout was already delivered. */
    | 'delivered'
    /** The task was already settled. */
    | 'settled'
    /** The group was not taken. */
    | 'not-taken'
    /** The group is in training. */
    | 'taken'
    /** An argument is invalid. */
    | 'invalid'
  readonly reason: string
}

/** Returns a refusal as the result of an operation. */
export const refuseQueueChange = (kind: QueueRefusal['kind'], reason: string): E.Either<QueueRefusal, never> =>
  E.left({ _tag: 'QueueRefusal', kind, reason })

/** Returns true for 0, 1, 2 and so on. */
export const isNatural = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0

/** Returns all problems with the settings. */
export const settingProblems = (settings: GroupQueueSettings): readonly string[] => {
  const { groupSize, capacity, leaseMs, maxAttempts, maxLag, order } = settings
  const counts = { groupSize, capacity, maxAttempts }
  return [
    ...Object.entries(counts).flatMap(([name, value]) =>
      isNatural(value) && value >= 1 ? [] : [`${name} must be a natural number from 1, got ${value}`],
    ),
    ...(leaseMs > 0 && Number.isFinite(leaseMs) ? [] : [`leaseMs must be a positive number, got ${leaseMs}`]),
    ...(isNatural(maxLag) ? [] : [`maxLag must be a natural number, got ${maxLag}`]),
    ...(order === 'completion' || order === 'task'
      ? []
      : [`order must be 'completion' or 'task', got ${String(order)}`]),
  ]
}

/** Returns the settings of a queue that differ from the wanted ones, as text. */
export const settingDifferences = (found: GroupQueueSettings, wanted: GroupQueueSettings): readonly string[] =>
  Object.entries(wanted).flatMap(([name, value]) => {
    const actual = found[name as keyof GroupQueueSettings] // a name of it
    return actual === value ? [] : [`${name} is ${actual}, not ${value}`]
  })

/** The position of a rollout: a task and a place in its group. */
export interface Spot {
  readonly ticket: number
  readonly place: number
}

/** Returns the number of an open place in `openings`. */
export const openingOf = ({ ticket, place }: Spot, { groupSize }: GroupQueueSettings): number =>
  ticket * groupSize + place

/** Returns the place for a number of `openings`. */
export const spotOf = (opening: number, { groupSize }: GroupQueueSettings): Spot => ({
  ticket: Math.floor(opening / groupSize),
  place: opening % groupSize,
})

/** Returns the queue with a place of a group replaced. */
export const setPlace = <T, R>(
  queue: GroupQueueState<T, R>,
  { ticket, place }: Spot,
  value: Place<R>,
): GroupQueueState<T, R> => {
  const group = queue.pending.get(ticket)!
  const places = group.places.with(place, value)
  if (!places.every(({ _tag }) => _tag === 'Filled'))
    return { ...queue, pending: queue.pending.set(ticket, { ...group, places }) }
  return {
    ...queue,
    pending: queue.pending.set(ticket, { ...group, places, stage: 'ready' }),
    ready: queue.ready.push(ticket),
  }
}

/** Settles a pending task. */
export const settle = <T, R>(queue: GroupQueueState<T, R>, ticket: number, settled: Settled): GroupQueueState<T, R> => {
  const { stage, places } = queue.pending.get(ticket)!
  const { trained, dropped } = queue.counts
  return {
    ...queue,
    pending: queue.pending.delete(ticket),
    openings: places.some(({ _tag }) => _tag === 'Open')
      ? queue.openings.filter((opening) => spotOf(opening, queue.settings).ticket !== ticket)
      : queue.openings,
    ready: stage === 'ready' ? queue.ready.filter((other) => other !== ticket) : queue.ready,
    settled: queue.settled.set(ticket, settled),
    counts:
      settled._tag === 'Trained'
        ? { trained: trained + 1, dropped }
        : { trained, dropped: { ...dropped, [settled.cause]: dropped[settled.cause] + 1 } },
  }
}

/** Reopens a place after the given number of attempts. */
export const reopen = <T, R>(queue: GroupQueueState<T, R>, spot: Spot, attempts: number): GroupQueueState<T, R> => {
  const opening = openingOf(spot, queue.settings)
  const at = queue.openings.findIndex((other) => other > opening)
  return {
    ...setPlace(queue, spot, { _tag: 'Open', attempts }),
    openings: queue.openings.insert(at < 0 ? queue.openings.size : at, opening),
  }
}

/** Reopens a leased place, or drops its task if all attempts are used up. */
export const giveUp = <T, R>(
  queue: GroupQueueState<T, R>,
  spot: Spot,
  { cause, reason }: { readonly cause: 'failed' | 'abandoned'; readonly reason: string },
): GroupQueueState<T, R> => {
  const place = queue.pending.get(spot.ticket)!.places[spot.place]!
  const attempts = place._tag === 'Filled' ? 0 : place.attempts
  return attempts >= queue.settings.maxAttempts
    ? settle(queue, spot.ticket, { _tag: 'Dropped', cause, reason: `${reason}, in attempt ${attempts}` })
    : reopen(queue, spot, attempts)
}
