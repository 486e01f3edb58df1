/** The queue between a trainer and its workers, in one or several processes. */
import { checkOptions, type Ids, type Json, type Key, keyFromSeed, problemList, type Timers } from '@tandem-rl/base'
import { liveIds, liveTimers } from '@tandem-rl/base/host'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { OPEN_ROLLOUT_QUEUE_OPTIONS } from '../optionKinds.js'
import { groupQueue, type LeaseName, type RolloutLease } from './groupQueue.js'
import { inTurn, type KnownQueue, type QueueClient, queueClient } from './queueClient.js'
import type { LeaseQueue, TaskEnd } from './queueEvents.js'
import { type ChangedQueue, type QueueFailure, type QueueLog, queueFailure } from './queueLog.js'
import { type DropCause, type GroupQueueSettings, type QueueRefusal, settingDifferences } from './queueState.js'
import { type QueueWait, waitForQueue } from './queueWait.js'
import { openingText } from './sharedQueueJson.js'
import { type OverdueWorker, overdueWorkers } from './takeGroups.js'

/** A queue that is unusable, or a call that it refuses. */
export type QueueProblem = QueueFailure | QueueRefusal

/** A finished rollout to deliver. */
export interface FinishedRollout extends LeaseName {
  readonly bytes: Uint8Array
  /** The version of the weights that sampled its oldest token. */
  readonly policyVersion: number
}

/** The calls of workers. All may be retried after a failure without taking effect twice. */
export interface WorkerQueue {
  /** Leases the first open rollout. A lease whose answer was lost is returned again. */
  readonly lease: TE.TaskEither<QueueProblem, RolloutLease<Json>>
  /** Renews leases. Returns the ones that are no longer valid. */
  readonly renew: (leases: readonly LeaseName[]) => TE.TaskEither<QueueProblem, readonly number[]>
  readonly deliver: (rollout: FinishedRollout) => TE.TaskEither<QueueProblem, void>
  readonly fail: (lease: LeaseName, reason: string) => TE.TaskEither<QueueProblem, void>
  /** Returns an unused lease. The attempt does not count. */
  readonly giveBack: (lease: LeaseName) => TE.TaskEither<QueueProblem, void>
}

/** A complete group that the trainer has taken, with the bytes of its rollouts by place. */
export interface TakenRollouts {
  readonly ticket: number
  readonly task: Json
  readonly rollouts: readonly { readonly bytes: Uint8Array; readonly policyVersion: number }[]
}

/**
 * The calls of the trainer. All may be retried after a failure. A new trainer replaces the previous
 * one.
 */
export interface TrainerQueue {
  /**
   * Starts, or resumes from a checkpoint. `ends`: outcomes of groups in the checkpoint. `trained`:
   * number of groups it has trained on in all. Taken groups without an outcome are ready again.
   */
  readonly begin: (ends: readonly TaskEnd[], trained: number) => TE.TaskEither<QueueProblem, void>
  /** Adds the next task, whose number is `ticket`. */
  readonly add: (ticket: number, task: Json) => TE.TaskEither<QueueProblem, void>
  /** Takes up to `count` complete groups. */
  readonly take: (count: number) => TE.TaskEither<QueueProblem, readonly TakenRollouts[]>
  /** Settles taken groups and deletes their bytes. */
  readonly settle: (ends: readonly TaskEnd[]) => TE.TaskEither<QueueProblem, void>
  readonly drop: (ticket: number, cause: DropCause, reason: string) => TE.TaskEither<QueueProblem, void>
  /** Drops groups that are too stale at a version of the weights. Returns their number. */
  readonly evict: (version: number) => TE.TaskEither<QueueProblem, number>
}

export interface RolloutQueue extends WorkerQueue, TrainerQueue {
  /** The unique name of this client in the queue. */
  readonly client: string
  /** Reads the current state of the queue, for `ledger` and `taskOutcome`. */
  readonly look: TE.TaskEither<QueueFailure, LeaseQueue>
  /** Returns the workers with leased rollouts that have sent no heartbeat for `afterMs`. */
  readonly overdueWorkers: (afterMs: number) => TE.TaskEither<QueueFailure, readonly OverdueWorker[]>
  /** Waits for an event since the last call, for at most `limitMs`. */
  readonly changed: (limitMs: number) => TE.TaskEither<QueueFailure, ChangedQueue>
  /** Closes the queue. Leases stay until they expire. Must be called once only. */
  readonly close: () => Promise<void>
}

export interface RolloutQueueOptions {
  /**
   * Creates the queue with these settings if it does not exist. A queue with other settings is a
   * failure. Default: the queue must exist.
   */
  readonly settings?: Pick<GroupQueueSettings, 'groupSize' | 'capacity'> & Partial<GroupQueueSettings>
  /** Prefix of this client's unique name in the queue. Default `client`. */
  readonly name?: string
  readonly ids?: Ids
  /** Milliseconds for which a call without an answer is retried. Default 60,000. */
  readonly patienceMs?: number
  /** The same until the log first answers. Default: `patienceMs`. */
  readonly openMs?: number
  /** Waits for a queue that does not exist yet. Default: it is a failure. */
  readonly wait?: QueueWait
  /** Events between snapshots. Default 1000. */
  readonly snapshotEvery?: number
  /** Random key for the jitter of pauses. Default: different in every process. */
  readonly key?: Key
  readonly timers?: Timers
}

const withoutValue = TE.map((): void => undefined)

/** Returns only the identity of a lease. */
const plainName = ({ ticket, place, lease }: LeaseName): LeaseName => ({ ticket, place, lease })

/** Returns the name of a rollout's bytes. */
const bytesName = ({ ticket, place, lease }: LeaseName): string => `${ticket}/${place}/${lease}`

const leaseNameOf = (text: string): LeaseName => {
  const [ticket, place, lease] = text.split('/').map(Number)
  return { ticket: ticket!, place: place!, lease: lease! }
}

/** Returns true if bytes are no longer needed: their lease is neither current nor delivered. */
const isForgettable = ({ nextLease, pending }: LeaseQueue, { ticket, place, lease }: LeaseName): boolean => {
  const found = pending.get(ticket)?.places[place]
  const isLeased = found?._tag === 'Leased' && found.lease === lease
  const isFilled = found?._tag === 'Filled' && found.rollout === lease
  return lease < nextLease && !isLeased && !isFilled
}

/** Makes the calls of workers. */
const workerCalls = (client: QueueClient, name: string): WorkerQueue => {
  const inHand = new Set<number>()
  /** Returns a lease of this client whose answer was lost. */
  const missed = (queue: LeaseQueue): RolloutLease<Json> | undefined => {
    for (const [ticket, { task, places }] of queue.pending)
      for (const [place, each] of places.entries()) {
        if (each._tag !== 'Leased' || each.worker !== name || inHand.has(each.lease)) continue
        return { ticket, place, task, lease: each.lease, attempt: each.attempts, expires: each.expires }
      }
    return undefined
  }
  /** Ends the client's hold on a lease once the queue has accepted or refused a call about it. */
  const over = <A>(lease: LeaseName, outcome: TE.TaskEither<QueueProblem, A>): TE.TaskEither<QueueProblem, void> =>
    pipe(
      outcome,
      TE.bimap(
        (problem) => {
          if (problem._tag === 'QueueRefusal') inHand.delete(lease.lease)
          return problem
        },
        () => void inHand.delete(lease.lease),
      ),
    )
  const turn = inTurn()
  const lease = pipe(
    client.read,
    TE.chainW(({ shared, now }) => {
      const found = missed(shared.queue)
      return found !== undefined && found.expires > now ? TE.right(found) : client.happen({ _tag: 'Lease' })
    }),
    TE.map((given) => {
      inHand.add(given.lease)
      return given
    }),
  )
  return {
    lease: () => turn(lease),
    renew: (leases) =>
      pipe(
        client.happen({ _tag: 'Renew', leases: leases.map(plainName) }),
        TE.map((gone) => {
          for (const each of gone) inHand.delete(each)
          return gone
        }),
      ),
    deliver: ({ bytes, policyVersion, ...name }) => {
      const event = { _tag: 'Deliver', ...plainName(name), policyVersion } as const
      return over(name, client.happen(event, { name: bytesName(name), bytes }))
    },
    fail: (name, reason) => over(name, client.happen({ _tag: 'Fail', ...plainName(name), reason })),
    giveBack: (name) => over(name, client.happen({ _tag: 'Return', ...plainName(name) })),
  }
}

/** Returns the delivered rollouts of a group, by place. */
const filledOf = (
  queue: LeaseQueue,
  ticket: number,
): readonly { readonly name: string; readonly policyVersion: number }[] =>
  (queue.pending.get(ticket)?.places ?? []).flatMap((each, place) =>
    each._tag === 'Filled'
      ? [{ name: bytesName({ ticket, place, lease: each.rollout }), policyVersion: each.policyVersion }]
      : [],
  )

const namesOf = (queue: LeaseQueue, tickets: readonly number[]): readonly string[] =>
  tickets.flatMap((ticket) => filledOf(queue, ticket).map(({ name }) => name))

/** Reads the bytes of taken groups. */
const takenFrom =
  (log: QueueLog, client: QueueClient) =>
  (
    { shared: { queue } }: KnownQueue,
    tickets: readonly number[],
  ): TE.TaskEither<QueueFailure, readonly TakenRollouts[]> => {
    const names = namesOf(queue, tickets)
    return pipe(
      names.length === 0 ? TE.right([]) : client.patiently(log.rollouts(names)),
      TE.chainEitherK((found) => {
        const bytes = new Map(names.map((name, i) => [name, found[i]]))
        const missing = names.filter((name) => bytes.get(name) === undefined)
        if (missing.length > 0) return queueFailure('lost', `rollouts are missing: ${problemList(missing)}`)
        return E.right(
          tickets.map((ticket) => ({
            ticket,
            task: queue.pending.get(ticket)!.task, // they are in training, and only this client settles them
            rollouts: filledOf(queue, ticket).map(({ name, policyVersion }) => ({
              bytes: bytes.get(name)!,
              policyVersion,
            })),
          })),
        )
      }),
    )
  }

/** Deletes the bytes that are no longer needed. */
const sweep = (log: QueueLog, client: QueueClient): TE.TaskEither<QueueFailure, void> =>
  pipe(
    client.patiently(log.rolloutNames),
    TE.chain((names) =>
      pipe(
        client.read,
        TE.map(({ shared: { queue } }) => names.filter((name) => isForgettable(queue, leaseNameOf(name)))),
      ),
    ),
    TE.chain((names) => (names.length === 0 ? TE.right(undefined) : client.patiently(log.forget(names)))),
  )

/** Makes the calls of the trainer. */
const trainerCalls = (log: QueueLog, client: QueueClient): TrainerQueue => {
  const inHand = new Set<number>()
  const rolloutsOf = takenFrom(log, client)
  const turn = inTurn()
  const take = (count: number): TE.TaskEither<QueueProblem, readonly TakenRollouts[]> =>
    pipe(
      client.happen({ _tag: 'Take', count: 0 }), // refused unless this is the trainer
      TE.chainW(() => client.read),
      TE.chainW(({ shared }) => {
        const missed = [...shared.queue.pending].flatMap(([ticket, { stage }]) =>
          stage === 'training' && !inHand.has(ticket) ? [ticket] : [],
        )
        return missed.length > 0
          ? TE.right(missed.sort((a, b) => a - b).slice(0, count))
          : client.happen({ _tag: 'Take', count })
      }),
      TE.chainW((tickets) =>
        pipe(
          client.read,
          TE.chain((known) => rolloutsOf(known, tickets)),
        ),
      ),
      TE.map((groups) => {
        for (const { ticket } of groups) inHand.add(ticket)
        return groups
      }),
    )
  /**
   * Settles tasks. If the queue has no space left even for that, deletes the bytes of settled tasks
   * first.
   */
  const settle = (ends: readonly TaskEnd[]): TE.TaskEither<QueueProblem, null> => {
    const event = { _tag: 'Settle', ends } as const
    const tickets = ends.map(({ ticket }) => ticket)
    const makeRoom = pipe(
      client.read,
      TE.chain(({ shared }) => client.patiently(log.forget(namesOf(shared.queue, tickets)))),
    )
    return pipe(
      client.happen(event),
      TE.orElse((problem) =>
        problem.kind === 'memory'
          ? pipe(
              makeRoom,
              TE.chainW(() => client.happen(event)),
            )
          : TE.left(problem),
      ),
    )
  }
  return {
    begin: (ends, trained) =>
      pipe(
        client.happen({ _tag: 'Begin', ends, trained }),
        TE.map(() => inHand.clear()),
      ),
    add: (ticket, task) => withoutValue(client.happen({ _tag: 'Add', ticket, task })),
    take: (count) => () => turn(take(count)),
    settle: (ends) =>
      pipe(
        settle(ends),
        TE.map(() => {
          for (const { ticket } of ends) inHand.delete(ticket)
        }),
        TE.chainW(() => sweep(log, client)),
        TE.chainW(() => client.compact),
      ),
    drop: (ticket, cause, reason) => withoutValue(client.happen({ _tag: 'Drop', ticket, cause, reason })),
    evict: (version) => client.happen({ _tag: 'Evict', version }),
  }
}

const queueOf = (log: QueueLog, client: QueueClient, name: string): RolloutQueue => ({
  client: name,
  ...workerCalls(client, name),
  ...trainerCalls(log, client),
  look: pipe(
    client.read,
    TE.map(({ shared }) => shared.queue),
  ),
  overdueWorkers: (afterMs) =>
    pipe(
      client.read,
      TE.map(({ shared: { queue }, now }) => overdueWorkers(queue, { now, afterMs })),
    ),
  changed: (limitMs) => () => client.patiently(log.changed(client.place(), limitMs))(),
  close: async () => {
    client.close()
    await log.close()
  },
})

/**
 * Opens a queue on its log. All clients of the log share the queue.
 *
 * Every call takes effect once, even if connections break: an unanswered call is retried and counts
 * once. When a worker's lease expires, its rollout is leased to another worker, and a late delivery
 * is refused. Time is that of the log.
 *
 * Errors   `Left(QueueFailure)`: `absent`, or with settings `other` for a queue with other
 *          settings. `wait` waits for a queue that another client creates. Throws RangeError that
 *          lists all invalid settings. Calls return `Left(QueueFailure)`, or `Left(QueueRefusal)`
 *          like the operations of `groupQueue`.
 * Effects  reads and writes the log.
 * Cost     each call reads the events of all others since the last call. Only the trainer reads the
 *          bytes of rollouts.
 * Source   a log as the only source of truth, Kreps 2013; leases, Gray and Cheriton 1989.
 *
 * @example
 * openRolloutQueue(memoryQueueLog(), { settings: { groupSize: 8, capacity: 64 } })
 */
export const openRolloutQueue = (
  log: QueueLog,
  options: RolloutQueueOptions = {},
): TE.TaskEither<QueueFailure, RolloutQueue> => {
  checkOptions('openRolloutQueue', options, OPEN_ROLLOUT_QUEUE_OPTIONS)
  const { settings, ids = liveIds, timers = liveTimers } = options
  const name = `${options.name ?? 'client'} ${ids.fresh()}`
  const wanted = settings && groupQueue(settings).settings
  const patienceMs = options.patienceMs ?? 60_000
  let hasAnswered = false
  const client = queueClient(log, {
    client: name,
    patienceMs: () => (hasAnswered ? patienceMs : (options.openMs ?? patienceMs)),
    snapshotEvery: options.snapshotEvery ?? 1000,
    key: options.key ?? keyFromSeed(Math.floor(Math.random() * 2 ** 53)),
    timers,
  })
  const read: typeof client.read = async () => {
    const found = await client.read()
    hasAnswered ||= E.isRight(found) || found.left.kind !== 'unreachable'
    return found
  }
  return pipe(
    wanted === undefined ? TE.right(undefined) : client.patiently(log.create(openingText(wanted))),
    TE.chain(() => (options.wait === undefined ? read : waitForQueue(read, options.wait, timers))),
    TE.chain(({ shared }): TE.TaskEither<QueueFailure, RolloutQueue> => {
      const different = wanted === undefined ? [] : settingDifferences(shared.queue.settings, wanted)
      return different.length === 0
        ? TE.right(queueOf(log, client, name))
        : TE.fromEither(queueFailure('other', `the queue was made with other settings: ${different.join(', ')}`))
    }),
  )
}
