/**
 * A group queue that many processes share: what they do to it are events, and the queue is what the events make of it, one after the other.
 *
 * The function is pure, so that all who read the same events have the same queue. An event that a client sends twice, because an answer was
 * lost on its way, counts once: clients number their events.
 */
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import { OrderedMap } from 'immutable'
import type { Json } from '../../data/codecs/plainValues.js'
import {
  addTask,
  deliverRollout,
  expireLeases,
  failRollout,
  groupQueue,
  type LeaseName,
  leaseRollout,
  type RolloutLease,
  renewLease,
  returnRollout,
} from './groupQueue.js'
import {
  type DropCause,
  type GroupQueueState,
  type QueueRefusal,
  refuseQueueChange,
  type Settled,
  settle,
} from './queueState.js'
import { dropTask, evictStale, forgetSettled, returnTaken, settleGroup, takeGroups } from './takeGroups.js'

/** How a task ended. */
export interface TaskEnd {
  readonly ticket: number
  readonly how: Settled
}

/** What can be done to a shared queue. Those of the trainer are refused from everybody but the last one who began. */
export type QueueEvent =
  /** A trainer begins, or goes on: `ends` is what its checkpoint knows and the queue may not; `trained` is how many groups it has learned from in all. */
  | { readonly _tag: 'Begin'; readonly ends: readonly TaskEnd[]; readonly trained: number }
  /** The next task; its ticket has to be the next one, so that no task is added twice. */
  | { readonly _tag: 'Add'; readonly ticket: number; readonly task: Json }
  | { readonly _tag: 'Take'; readonly count: number }
  | { readonly _tag: 'Settle'; readonly ends: readonly TaskEnd[] }
  | { readonly _tag: 'Drop'; readonly ticket: number; readonly cause: DropCause; readonly reason: string }
  | { readonly _tag: 'Evict'; readonly version: number }
  | { readonly _tag: 'Lease' }
  | { readonly _tag: 'Renew'; readonly leases: readonly LeaseName[] }
  | ({ readonly _tag: 'Deliver'; readonly policyVersion: number } & LeaseName)
  | ({ readonly _tag: 'Fail'; readonly reason: string } & LeaseName)
  | ({ readonly _tag: 'Return' } & LeaseName)

/** What an event is answered with. */
export interface QueueAnswers {
  readonly Begin: null
  /** The ticket of the task. */
  readonly Add: number
  /** Tickets of the groups that were taken. */
  readonly Take: readonly number[]
  readonly Settle: null
  readonly Drop: null
  /** How many groups were evicted. */
  readonly Evict: number
  readonly Lease: RolloutLease<Json>
  /** The leases of those named that do not hold any more. */
  readonly Renew: readonly number[]
  readonly Deliver: null
  readonly Fail: null
  readonly Return: null
}

export type QueueAnswer = QueueAnswers[keyof QueueAnswers]

/** What a client did last, so that it can learn how that went, and do it no second time. */
export interface ClientMemory {
  readonly event: number
  readonly answer: E.Either<QueueRefusal, QueueAnswer>
}

/** A rollout that is there is the lease that brought it: its bytes are kept elsewhere. */
export type LeaseQueue = GroupQueueState<Json, number>

/** A queue that is shared: a value. */
export interface SharedQueue {
  readonly queue: LeaseQueue
  /** The client that is the trainer. */
  readonly trainer: string | null
  /** Those that did something lately, the last one last. */
  readonly clients: OrderedMap<string, ClientMemory>
}

/** An event as it was recorded. */
export interface RecordedEvent {
  readonly client: string
  /** Counted by the client, upwards. */
  readonly event: number
  /** Milliseconds of the clock of the record. */
  readonly at: number
  readonly what: QueueEvent
}

/** Clients that are remembered. One that did nothing while so many others did has no call underway. */
const CLIENTS = 4096

/** Ended tasks whose fates are remembered. */
const FATES = 4096

/** A shared queue without a task. Errors: those of `groupQueue`. */
export const sharedQueue = (settings: Parameters<typeof groupQueue>[0]): SharedQueue => ({
  queue: groupQueue(settings),
  trainer: null,
  clients: OrderedMap(),
})

type Done<A> = E.Either<QueueRefusal, readonly [answer: A, next: LeaseQueue]>

const done = (next: E.Either<QueueRefusal, LeaseQueue>): Done<null> =>
  pipe(
    next,
    E.map((queue) => [null, queue] as const),
  )

const isSame = (one: Settled, other: Settled): boolean =>
  one._tag === 'Trained'
    ? other._tag === one._tag && other.step === one.step
    : other._tag === one._tag && other.cause === one.cause && other.reason === one.reason

/** All of the ends, or none. To say how a task ended for the second time changes nothing. */
const settleAll = (queue: LeaseQueue, ends: readonly TaskEnd[]): E.Either<QueueRefusal, LeaseQueue> =>
  ends.reduce<E.Either<QueueRefusal, LeaseQueue>>(
    (next, { ticket, how }) =>
      pipe(
        next,
        E.chain((each) => {
          const known = each.settled.get(ticket)
          return known !== undefined && isSame(known, how) ? E.right(each) : settleGroup(each, ticket, how)
        }),
      ),
    E.right(queue),
  )

/**
 * What a checkpoint knows and the queue does not is told to it; what an earlier trainer took and no checkpoint knows comes back. A queue that
 * has never heard of a group that was trained has lost something, and one that knows of more is ahead of the checkpoint.
 */
const begin = (queue: LeaseQueue, { ends, trained }: Extract<QueueEvent, { _tag: 'Begin' }>): Done<null> => {
  const strange = ends.filter(({ ticket }) => ticket >= queue.nextTicket).map(({ ticket }) => ticket)
  if (strange.length > 0)
    return refuseQueueChange('unknown', `the checkpoint has tasks that were never drawn: ${strange.join(', ')}`)
  const told = ends.reduce((next, { ticket, how }) => {
    const stage = next.pending.get(ticket)?.stage
    return stage === 'training' || stage === 'ready' ? settle(next, ticket, how) : next
  }, queue)
  if (told.counts.trained !== trained) {
    const reason = `the queue has ${told.counts.trained} groups that were trained, the checkpoint ${trained}: they are not of one run`
    return refuseQueueChange('superseded', reason)
  }
  return E.right([null, returnTaken(told)])
}

interface Asked {
  readonly client: string
  readonly at: number
}

const HANDLERS: {
  readonly [K in keyof QueueAnswers]: (
    queue: LeaseQueue,
    event: Extract<QueueEvent, { readonly _tag: K }>,
    asked: Asked,
  ) => Done<QueueAnswers[K]>
} = {
  Begin: begin,
  Add: (queue, { ticket, task }) =>
    ticket === queue.nextTicket
      ? addTask(queue, task)
      : refuseQueueChange('delivered', `the next task is ${queue.nextTicket}, not ${ticket}`),
  Take: (queue, { count }, { at }) => {
    const [groups, next] = takeGroups(expireLeases(queue, at), count)
    return E.right([groups.map(({ ticket }) => ticket), next])
  },
  Settle: (queue, { ends }) => done(settleAll(queue, ends)),
  Drop: (queue, { ticket, ...why }) => done(dropTask(queue, ticket, why)),
  Evict: (queue, { version }) => {
    const next = evictStale(queue, version)
    return E.right([queue.pending.size - next.pending.size, next])
  },
  Lease: (queue, _, { at, client }) => leaseRollout(expireLeases(queue, at), { worker: client, now: at }),
  Renew: (queue, { leases }, { at }) => {
    const each = leases.reduce<readonly [lost: readonly number[], next: LeaseQueue]>(
      ([lost, next], name) => {
        const renewed = renewLease(next, { ...name, now: at })
        return E.isLeft(renewed) ? [[...lost, name.lease], next] : [lost, renewed.right]
      },
      [[], queue],
    )
    return E.right(each)
  },
  Deliver: (queue, { ticket, place, lease, policyVersion }) => {
    const found = queue.pending.get(ticket)?.places[place]
    const isThere = found?._tag === 'Filled' && found.rollout === lease // it says so for the second time
    return isThere
      ? E.right([null, queue])
      : done(deliverRollout(queue, { ticket, place, lease, rollout: lease, policyVersion }))
  },
  Fail: (queue, { ticket, place, lease, reason }) => done(failRollout(queue, { ticket, place, lease, reason })),
  Return: (queue, { ticket, place, lease }) => done(returnRollout(queue, { ticket, place, lease })),
}

/** What only the trainer may do. */
const OF_TRAINER: readonly QueueEvent['_tag'][] = ['Add', 'Take', 'Settle', 'Drop', 'Evict']

/**
 * What an event would be answered, and the queue after it.
 *
 * Errors   `Left(QueueRefusal)`, and nothing is changed: those of the operation; `superseded` for a trainer when another one has begun since.
 * Effects  none.
 */
export const answerEvent = (
  { queue, trainer }: SharedQueue,
  { client, at, what }: Omit<RecordedEvent, 'event'>,
): Done<QueueAnswer> => {
  if (OF_TRAINER.includes(what._tag) && trainer !== client)
    return refuseQueueChange('superseded', trainer === null ? 'no trainer has begun' : 'another trainer has begun')
  const handle = HANDLERS[what._tag] as (queue: LeaseQueue, event: QueueEvent, asked: Asked) => Done<QueueAnswer> // of its tag
  return handle(queue, what, { client, at })
}

/**
 * The queue after an event. An event that is refused changes nothing but what its client knows; one that was there before changes nothing.
 *
 * Effects  none.
 * Cost     that of the operation; a look at every rollout for `Lease` and `Take`.
 */
export const applyEvent = (shared: SharedQueue, recorded: RecordedEvent): SharedQueue => {
  const { client, event, what } = recorded
  if (event <= (shared.clients.get(client)?.event ?? -1)) return shared
  const answered = answerEvent(shared, recorded)
  const answer = pipe(
    answered,
    E.map(([value]) => value),
  )
  const clients = shared.clients.delete(client).set(client, { event, answer })
  const queue = E.isRight(answered) ? answered.right[1] : shared.queue
  return {
    queue: queue.settled.size > FATES ? forgetSettled(queue) : queue,
    trainer: what._tag === 'Begin' && E.isRight(answered) ? client : shared.trainer,
    clients: clients.size > CLIENTS ? clients.delete(clients.keySeq().first()!) : clients,
  }
}
