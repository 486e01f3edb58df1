/**
 * The queue between a trainer and its workers, in any processes.
 *
 * This folder holds the queue that a trainer and its workers share: its state, its log, and its
 * storage in Redis. It does not hold the workers themselves (`../workers`).
 */
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { Ids, Timers } from '../../core/capabilities.js'
import { problemList } from '../../core/failure.js'
import { type Key, keyFromSeed } from '../../core/key.js'
import { aNumber, aRecord, aText, checkOptions, type OptionKinds } from '../../core/options.js'
import type { Json } from '../../data/codecs/plainValues.js'
import { liveTimers } from '../../live/clock.js'
import { liveIds } from '../../live/ids.js'
import { groupQueue, type LeaseName, type RolloutLease } from './groupQueue.js'
import { inTurn, type KnownQueue, type QueueClient, queueClient } from './queueClient.js'
import type { LeaseQueue, TaskEnd } from './queueEvents.js'
import { type ChangedQueue, type QueueFailure, type QueueLog, queueFailure } from './queueLog.js'
import type { DropCause, GroupQueueSettings, QueueRefusal } from './queueState.js'
import { openingText } from './sharedQueueJson.js'

/** A queue that cannot be used now, or that refuses what is asked of it. */
export type QueueProblem = QueueFailure | QueueRefusal

/** A rollout as a worker brings it. */
export interface FinishedRollout extends LeaseName {
  readonly bytes: Uint8Array
  /** The version of the weights that sampled it; of the oldest of its tokens, if there were several. */
  readonly policyVersion: number
}

/** What workers do. All may be repeated after a failure: what was done already is not done again. */
export interface WorkerQueue {
  /** The first open rollout. One that was given to this client before, in an answer that was lost, is given again. */
  readonly lease: TE.TaskEither<QueueProblem, RolloutLease<Json>>
  /** Keeps leases; gives those that do not hold any more. */
  readonly renew: (leases: readonly LeaseName[]) => TE.TaskEither<QueueProblem, readonly number[]>
  readonly deliver: (rollout: FinishedRollout) => TE.TaskEither<QueueProblem, void>
  readonly fail: (lease: LeaseName, reason: string) => TE.TaskEither<QueueProblem, void>
  /** Gives a lease back unused: the attempt does not count. */
  readonly giveBack: (lease: LeaseName) => TE.TaskEither<QueueProblem, void>
}

/** A complete group, taken: the bytes of its rollouts by place. */
export interface TakenRollouts {
  readonly ticket: number
  readonly task: Json
  readonly rollouts: readonly { readonly bytes: Uint8Array; readonly policyVersion: number }[]
}

/** What the trainer does. All may be repeated after a failure. Another client that begins takes its place. */
export interface TrainerQueue {
  /**
   * Begins, or goes on from a checkpoint: `ends` is how groups ended that the checkpoint knows, and `trained` how many it has learned from in
   * all. Groups that were taken and are not among them are ready again.
   */
  readonly begin: (ends: readonly TaskEnd[], trained: number) => TE.TaskEither<QueueProblem, void>
  /** Adds the next task; `ticket` is its number. */
  readonly add: (ticket: number, task: Json) => TE.TaskEither<QueueProblem, void>
  /** Up to so many complete groups. */
  readonly take: (count: number) => TE.TaskEither<QueueProblem, readonly TakenRollouts[]>
  /** Says how taken groups ended. Their bytes are forgotten. */
  readonly settle: (ends: readonly TaskEnd[]) => TE.TaskEither<QueueProblem, void>
  readonly drop: (ticket: number, cause: DropCause, reason: string) => TE.TaskEither<QueueProblem, void>
  /** Drops groups that are too old at a version of the weights; gives how many. */
  readonly evict: (version: number) => TE.TaskEither<QueueProblem, number>
}

export interface RolloutQueue extends WorkerQueue, TrainerQueue {
  /** The name of this client in the queue. */
  readonly client: string
  /** The queue as it is now: what `ledger` and `taskOutcome` look at. */
  readonly look: TE.TaskEither<QueueFailure, LeaseQueue>
  /** Waits until something has happened in the queue since the last call, or for so long. */
  readonly changed: (limitMs: number) => TE.TaskEither<QueueFailure, ChangedQueue>
  /** To be called once. Leases stay until they run out. */
  readonly close: () => Promise<void>
}

export interface RolloutQueueOptions {
  /** Makes the queue with these, if there is none; another one is a failure. Default: there has to be one. */
  readonly settings?: Pick<GroupQueueSettings, 'groupSize' | 'capacity'> & Partial<GroupQueueSettings>
  /** What this client is called in the queue, besides a name of its own. Default `client`. */
  readonly name?: string
  readonly ids?: Ids
  /** For how long a call is repeated that gets no answer. Default 60,000. */
  readonly patienceMs?: number
  /** Events between two snapshots. Default 1000. */
  readonly snapshotEvery?: number
  /** Of pauses. Default: another one in every process. */
  readonly key?: Key
  readonly timers?: Timers
}

/** What names a lease, and nothing else of it. */
const plainName = ({ ticket, place, lease }: LeaseName): LeaseName => ({ ticket, place, lease })

/** The name of a rollout's bytes. */
const bytesName = ({ ticket, place, lease }: LeaseName): string => `${ticket}/${place}/${lease}`

const leaseNameOf = (text: string): LeaseName => {
  const [ticket, place, lease] = text.split('/').map(Number)
  return { ticket: ticket!, place: place!, lease: lease! }
}

/** Whether nobody will ask for bytes any more: their lease was given, and neither holds nor was fulfilled. */
const isForgettable = ({ nextLease, pending }: LeaseQueue, { ticket, place, lease }: LeaseName): boolean => {
  const found = pending.get(ticket)?.places[place]
  const isLeased = found?._tag === 'Leased' && found.lease === lease
  const isFilled = found?._tag === 'Filled' && found.rollout === lease
  return lease < nextLease && !isLeased && !isFilled
}

/** The worker's calls. */
const workerCalls = (client: QueueClient, name: string): WorkerQueue => {
  const inHand = new Set<number>()
  /** A lease of this client that it never heard of. */
  const missed = (queue: LeaseQueue): RolloutLease<Json> | undefined => {
    for (const [ticket, { task, places }] of queue.pending)
      for (const [place, each] of places.entries()) {
        if (each._tag !== 'Leased' || each.worker !== name || inHand.has(each.lease)) continue
        return { ticket, place, task, lease: each.lease, attempt: each.attempts, expires: each.expires }
      }
    return undefined
  }
  /** What becomes of a lease when the queue has said something about it: it is no longer this client's affair. */
  const over = <A>(lease: LeaseName, said: TE.TaskEither<QueueProblem, A>): TE.TaskEither<QueueProblem, void> =>
    pipe(
      said,
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

/** What is there of a group, by place. */
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

/** The bytes of taken groups. */
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
        if (missing.length > 0) return queueFailure('lost', `rollouts are gone: ${problemList(missing)}`)
        return E.right(
          tickets.map((ticket) => ({
            ticket,
            task: queue.pending.get(ticket)!.task, // they are in training, which this client alone ends
            rollouts: filledOf(queue, ticket).map(({ name, policyVersion }) => ({
              bytes: bytes.get(name)!,
              policyVersion,
            })),
          })),
        )
      }),
    )
  }

/** Forgets the bytes that nobody will ask for. */
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

/** The trainer's calls. */
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
  /** A queue that has no room left, not even for this, has some when it forgets what is settled. */
  const settle = (ends: readonly TaskEnd[]): TE.TaskEither<QueueProblem, null> => {
    const event = { _tag: 'Settle', ends } as const
    const makeRoom = pipe(
      client.read,
      TE.map(({ shared }) =>
        namesOf(
          shared.queue,
          ends.map(({ ticket }) => ticket),
        ),
      ),
      TE.chain((names) => client.patiently(log.forget(names))),
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
    add: (ticket, task) =>
      pipe(
        client.happen({ _tag: 'Add', ticket, task }),
        TE.map(() => undefined),
      ),
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
    drop: (ticket, cause, reason) =>
      pipe(
        client.happen({ _tag: 'Drop', ticket, cause, reason }),
        TE.map(() => undefined),
      ),
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
  changed: (limitMs) => () => client.patiently(log.changed(client.place(), limitMs))(),
  close: async () => {
    client.close()
    await log.close()
  },
})

const isSame = (one: GroupQueueSettings, other: GroupQueueSettings): boolean =>
  Object.entries(one).every(([name, value]) => other[name as keyof GroupQueueSettings] === value) // a name of it

const OPEN_ROLLOUT_QUEUE_OPTIONS: OptionKinds<RolloutQueueOptions> = {
  settings: aRecord,
  name: aText,
  ids: aRecord,
  patienceMs: aNumber,
  snapshotEvery: aNumber,
  key: aRecord,
  timers: aRecord,
}

/**
 * Opens a queue on its log: everybody who does shares it.
 *
 * What is asked of it happens once, however often connections break: a call that gets no answer is repeated, and counts once. A rollout that
 * a worker has is somebody else's when its lease has run out; what comes of it late is refused. Time is the log's.
 *
 * Errors   `Left(QueueFailure)`: `absent` or, with settings, `other` for a queue that was made with other ones; throws RangeError with all
 *          settings that are wrong. Calls give `Left(QueueFailure)`, or `Left(QueueRefusal)` as the operations of `groupQueue` do.
 * Effects  reads and writes the log.
 * Cost     each call reads what all others did since the last one: events, not rollouts, whose bytes the trainer alone reads.
 * Source   a log as the only truth, Kreps 2013; leases, Gray and Cheriton 1989.
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
  const client = queueClient(log, {
    client: name,
    patienceMs: options.patienceMs ?? 60_000,
    snapshotEvery: options.snapshotEvery ?? 1000,
    key: options.key ?? keyFromSeed(Math.floor(Math.random() * 2 ** 53)),
    timers,
  })
  return pipe(
    wanted === undefined ? TE.right(undefined) : client.patiently(log.create(openingText(wanted))),
    TE.chain(() => client.read),
    TE.chain(({ shared }): TE.TaskEither<QueueFailure, RolloutQueue> => {
      const { settings: found } = shared.queue
      return wanted === undefined || isSame(found, wanted)
        ? TE.right(queueOf(log, client, name))
        : () => Promise.resolve(queueFailure('other', `the queue has other settings: ${JSON.stringify(found)}`))
    }),
  )
}
