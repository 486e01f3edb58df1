/** What a group queue is made of, and the changes that its operations share. For the files of this folder. */
import * as E from 'fp-ts/lib/Either.js'
import type { Map as ImmutableMap, List } from 'immutable'

/** How a queue works. Plain numbers and words, so that they are saved with it. */
export interface GroupQueueSettings {
  /** Rollouts in a group. */
  readonly groupSize: number
  /** Tasks that the queue holds at most, from their draw until they are trained or dropped: then it is full. */
  readonly capacity: number
  /** After so many milliseconds without a word, what a worker was given is open again. */
  readonly leaseMs: number
  /** How often one rollout is tried before its task is dropped. */
  readonly maxAttempts: number
  /** Updates that a rollout may be behind: a group with an older one is evicted. */
  readonly maxLag: number
  /** `completion`: groups come out as they are complete. `task`: in the order in which tasks were drawn, whatever finishes first. */
  readonly order: 'completion' | 'task'
}

/** One rollout of a group: open, given to a worker, or there. */
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

/** A task that is neither trained nor dropped, with its rollouts. */
export interface PendingGroup<T, R> {
  readonly task: T
  readonly places: readonly Place<R>[]
  /** `training`: taken, and not settled yet. */
  readonly stage: 'filling' | 'ready' | 'training'
}

/** Why a task was dropped. */
export type DropCause =
  /** A rollout was sampled too many updates ago. */
  | 'stale'
  /** A rollout failed as often as it may be tried. */
  | 'failed'
  /** Workers that had a rollout were not heard of again, as often as it may be tried. */
  | 'abandoned'
  /** The group has nothing to learn from. */
  | 'filtered'
  /** Nobody wants it any more. */
  | 'cancelled'

/** All causes, for those who count or check them. */
export const DROP_CAUSES: readonly DropCause[] = ['stale', 'failed', 'abandoned', 'filtered', 'cancelled']

/** How a task ended. */
export type Settled =
  | { readonly _tag: 'Trained'; readonly step: number }
  | { readonly _tag: 'Dropped'; readonly cause: DropCause; readonly reason: string }

/** Tasks that ended, by how. */
interface SettledCounts {
  readonly trained: number
  readonly dropped: Readonly<Record<DropCause, number>>
}

/** The whole of a queue: a value. `T` is a task, `R` a rollout. */
export interface GroupQueueState<T, R> {
  readonly _tag: 'GroupQueueState'
  readonly settings: GroupQueueSettings
  /** The number of the next task: all smaller ones have been drawn. */
  readonly nextTicket: number
  readonly nextLease: number
  readonly pending: ImmutableMap<number, PendingGroup<T, R>>
  /** Open places as `ticket * groupSize + place`, ascending: what is given next is the first. */
  readonly openings: List<number>
  /** Tickets of complete groups, in order of completion. */
  readonly ready: List<number>
  /** How tasks ended that have not been forgotten. */
  readonly settled: ImmutableMap<number, Settled>
  readonly counts: SettledCounts
}

/** What a queue does not do, and why. Nothing has changed. */
export interface QueueRefusal {
  readonly _tag: 'QueueRefusal'
  readonly kind: /** As many tasks as it holds: try again when one has ended. */
    | 'full'
    /** There is nothing to give. */
    | 'empty'
    /** No such task or rollout was ever given. */
    | 'unknown'
    /** The rollout was given to another one since, or is open again. */
    | 'superseded'
    /** It is there already. */
    | 'delivered'
    /** The task has ended. */
    | 'settled'
    /** The group has not been taken. */
    | 'not-taken'
    /** The group is in training. */
    | 'taken'
    /** What came is not what it must be. */
    | 'invalid'
  readonly reason: string
}

/** A refusal, as the result of an operation. */
export const refuseQueueChange = (kind: QueueRefusal['kind'], reason: string): E.Either<QueueRefusal, never> =>
  E.left({ _tag: 'QueueRefusal', kind, reason })

/** Whether a number is 0, 1, 2 and so on. */
export const isNatural = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0

/** All that is wrong with settings. */
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

/** A place of a pending group. */
export interface Spot {
  readonly ticket: number
  readonly place: number
}

/** An open place as the number that stands for it in `openings`. */
export const openingOf = ({ ticket, place }: Spot, { groupSize }: GroupQueueSettings): number =>
  ticket * groupSize + place

/** The place that a number of `openings` stands for. */
export const spotOf = (opening: number, { groupSize }: GroupQueueSettings): Spot => ({
  ticket: Math.floor(opening / groupSize),
  place: opening % groupSize,
})

/** The queue with another place in a group. */
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

/** The queue without a pending task, which ended. */
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

/** The queue with a place open again, tried so often. */
export const reopen = <T, R>(queue: GroupQueueState<T, R>, spot: Spot, attempts: number): GroupQueueState<T, R> => {
  const opening = openingOf(spot, queue.settings)
  const at = queue.openings.findIndex((other) => other > opening)
  return {
    ...setPlace(queue, spot, { _tag: 'Open', attempts }),
    openings: queue.openings.insert(at < 0 ? queue.openings.size : at, opening),
  }
}

/** The queue with a place open again that was leased; without its task if it has been tried as often as it may be. */
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
