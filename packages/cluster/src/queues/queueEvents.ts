/**
 * The events of a group queue that many processes share. The queue's state is the result of
 * applying the events in order.
 *
 * The function is pure, so all readers of the same events have the same queue. Clients number their
 * events, so an event that is sent twice because its answer was lost counts once.
 */
import type { Json } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import { OrderedMap } from 'immutable'
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

/** The outcome of a task. */
export interface TaskEnd {
  readonly ticket: number
  readonly how: Settled
}

/** An event of a shared queue. Events of trainers are accepted only from the latest trainer. */
export type QueueEvent =
  /**
   * A trainer starts or resumes. `ends`: outcomes that its checkpoint has and the queue may lack.
   * `trained`: number of groups it has trained on in all.
   */
  | { readonly _tag: 'Begin'; readonly ends: readonly TaskEnd[]; readonly trained: number }
  /** Adds the next task. The ticket must be the next one, so that no task is added twice. */
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

/** The answer to each event. */
export interface QueueAnswers {
  readonly Begin: null
  /** The ticket of the task. */
  readonly Add: number
  /** Tickets of the groups that were taken. */
  readonly Take: readonly number[]
  readonly Settle: null
  readonly Drop: null
  /** The number of evicted groups. */
  readonly Evict: number
  readonly Lease: RolloutLease<Json>
  /** The given leases that are no longer valid. */
  readonly Renew: readonly number[]
  readonly Deliver: null
  readonly Fail: null
  readonly Return: null
}

export type QueueAnswer = QueueAnswers[keyof QueueAnswers]

/** The last event of a client and its answer, so that the client can retry without repeating it. */
export interface ClientMemory {
  readonly event: number
  readonly answer: E.Either<QueueRefusal, QueueAnswer>
}

/** A queue that stores, for each delivered rollout, its lease. The bytes are stored separately. */
export type LeaseQueue = GroupQueueState<Json, number>

/** The state of a shared queue, as an immutable value. */
export interface SharedQueue {
  readonly queue: LeaseQueue
  /** The client that is currently the trainer. */
  readonly trainer: string | null
  /** Recently active clients, the latest one last. */
  readonly clients: OrderedMap<string, ClientMemory>
}

/** A recorded event. */
export interface RecordedEvent {
  readonly client: string
  /** The client's own number of the event, ascending. */
  readonly event: number
  /** Milliseconds on the log's clock. */
  readonly at: number
  readonly what: QueueEvent
}

/**
 * Maximum number of clients to remember. A client displaced by that many others has no call in
 * progress.
 */
const CLIENTS = 4096

/** Maximum number of outcomes of tasks to remember. */
const FATES = 4096

/** Makes a shared queue without tasks. Errors: those of `groupQueue`. */
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

/**
 * Settles all of the tasks, or none of them. Settling a task again is accepted and changes nothing.
 */
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
 * Starts a trainer: applies the outcomes that its checkpoint has and the queue lacks, and makes
 * ready again the groups that an earlier trainer took and the checkpoint does not have. If the
 * queue has trained fewer groups than the checkpoint, it has lost data; if more, it is ahead of the
 * checkpoint. Both are refused.
 */
const begin = (queue: LeaseQueue, { ends, trained }: Extract<QueueEvent, { _tag: 'Begin' }>): Done<null> => {
  const strange = ends.filter(({ ticket }) => ticket >= queue.nextTicket).map(({ ticket }) => ticket)
  if (strange.length > 0)
    return refuseQueueChange('unknown', `the checkpoint has tasks that were never drawn: ${strange.join(', ')}`)
  const reported = ends.reduce((next, { ticket, how }) => {
    const stage = next.pending.get(ticket)?.stage
    return stage === 'training' || stage === 'ready' ? settle(next, ticket, how) : next
  }, queue)
  if (reported.counts.trained !== trained) {
    const reason = `the queue has ${reported.counts.trained} trained groups, the checkpoint ${trained}: they belong to different runs`
    return refuseQueueChange('superseded', reason)
  }
  return E.right([null, returnTaken(reported)])
}

interface Wanted {
  readonly client: string
  readonly at: number
}

const HANDLERS: {
  readonly [K in keyof QueueAnswers]: (
    queue: LeaseQueue,
    event: Extract<QueueEvent, { readonly _tag: K }>,
    request: Wanted,
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
    const isThere = found?._tag === 'Filled' && found.rollout === lease // a repeated delivery
    return isThere
      ? E.right([null, queue])
      : done(deliverRollout(queue, { ticket, place, lease, rollout: lease, policyVersion }))
  },
  Fail: (queue, { ticket, place, lease, reason }) => done(failRollout(queue, { ticket, place, lease, reason })),
  Return: (queue, { ticket, place, lease }) => done(returnRollout(queue, { ticket, place, lease })),
}

/** The events that only the trainer may send. */
const OF_TRAINER: readonly QueueEvent['_tag'][] = ['Add', 'Take', 'Settle', 'Drop', 'Evict']

/**
 * Returns the answer to an event, and the queue after it.
 *
 * Errors   `Left(QueueRefusal)` without any change: those of the operation, and `superseded` for a
 *          trainer after another one has started.
 * Effects  none.
 */
export const answerEvent = (
  { queue, trainer }: SharedQueue,
  { client, at, what }: Omit<RecordedEvent, 'event'>,
): Done<QueueAnswer> => {
  if (OF_TRAINER.includes(what._tag) && trainer !== client)
    return refuseQueueChange('superseded', trainer === null ? 'no trainer has started' : 'another trainer has started')
  const handle = HANDLERS[what._tag] as (queue: LeaseQueue, event: QueueEvent, request: Wanted) => Done<QueueAnswer> // of its tag
  return handle(queue, what, { client, at })
}

/**
 * Applies an event. A refused event changes only its client's memory; a repeated one changes
 * nothing.
 *
 * Effects  none.
 * Cost     that of the operation. `Lease` and `Take` visit every rollout.
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
