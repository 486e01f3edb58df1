/** The record of a shared queue: what happened, in one order for all, and the bytes of rollouts beside it. */
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Clock, Timers } from '../../core/capabilities.js'
import type { PackageFailure } from '../../data/codecs/optionalPackage.js'
import { liveClock, liveTimers } from '../../live/clock.js'

/** A queue that cannot be used, or not now. */
export interface QueueFailure {
  readonly _tag: 'QueueFailure'
  readonly kind: /** No answer came. What was asked for may have been done, or be done yet. */
    | 'unreachable'
    /** There is no queue of that name. */
    | 'absent'
    /** There is another queue of that name. */
    | 'other'
    /** What was there is there no more: a server that was started without its data. */
    | 'lost'
    /** There is no room for more. Nothing was done. */
    | 'memory'
    /** What is there is none of a queue's records. */
    | 'damaged'
    /** The server says no, and will say so again. */
    | 'refused'
    /** A package is missing. */
    | 'package'
    /** Nothing has happened for a long time. */
    | 'silent'
    /** The queue was closed here. */
    | 'closed'
  readonly reason: string
  readonly cause?: PackageFailure
}

/** A failure, as the result of an operation. */
export const queueFailure = (kind: QueueFailure['kind'], reason: string): E.Either<QueueFailure, never> =>
  E.left({ _tag: 'QueueFailure', kind, reason })

/** One record. */
export interface LogRecord {
  /** Where it stands: later ones come after it. What it looks like is the log's own affair. */
  readonly place: string
  /** When it was recorded, in milliseconds of the log's clock. */
  readonly at: number
  readonly text: string
}

/** All records up to a place as one text. */
export interface LogSnapshot {
  readonly place: string
  readonly text: string
}

export interface LogRead {
  /** Milliseconds of the log's clock. */
  readonly now: number
  /** What the reader has to begin with, because the records that it has not read are no longer there one by one. */
  readonly snapshot?: LogSnapshot
  /** The place of the snapshot that there is now; null without one. */
  readonly base: string | null
  readonly records: readonly LogRecord[]
  /** Whether there were more than were read at once. */
  readonly hasMore: boolean
}

/** The bytes of a rollout, under a name that no other one has. */
export interface RolloutBytes {
  readonly name: string
  readonly bytes: Uint8Array
}

/**
 * A record that many processes write and read.
 *
 * Whatever fails with `unreachable` may be repeated. A record that is appended twice is there twice: who reads it has to know.
 */
export interface QueueLog {
  /** Begins the log, unless there is one. */
  readonly create: (text: string) => TaskEither<QueueFailure, void>
  /** What came after a place, or what there is; `lost` if the place is not there any more and no snapshot has it. */
  readonly read: (after: string | null) => TaskEither<QueueFailure, LogRead>
  /** Adds a record at the end, together with the bytes of a rollout: both or none. */
  readonly append: (text: string, rollout?: RolloutBytes) => TaskEither<QueueFailure, void>
  /** Puts a snapshot in the place of all records up to its own, unless the one that there is is not `base`: then nothing is done. */
  readonly compact: (snapshot: LogSnapshot, base: string | null) => TaskEither<QueueFailure, void>
  /** Undefined where there is nothing of that name. */
  readonly rollouts: (names: readonly string[]) => TaskEither<QueueFailure, readonly (Uint8Array | undefined)[]>
  readonly rolloutNames: TaskEither<QueueFailure, readonly string[]>
  readonly forget: (names: readonly string[]) => TaskEither<QueueFailure, void>
  /** Waits until there is a record after a place, or for so long. */
  readonly changed: (after: string, limitMs: number) => TaskEither<QueueFailure, ChangedQueue>
  /** To be called once; what waits ends. */
  readonly close: () => Promise<void>
}

/** Whether there is something new, or the time was over. */
export type ChangedQueue = 'changed' | 'silent'

/** Records that are read at a time. */
export const READ_AT_ONCE = 1000

const orderOf = (place: string): number => Number(place)

/**
 * A log in the memory of this process, for all queues that are opened on it.
 *
 * Effects  none outside: it holds what it is given.
 */
export const memoryQueueLog = (
  options: { readonly clock?: Pick<Clock, 'now'>; readonly timers?: Timers } = {},
): QueueLog => {
  const { clock = liveClock, timers = liveTimers } = options
  let records: LogRecord[] = []
  let snapshot: LogSnapshot | undefined
  let count = 0
  const blobs = new Map<string, Uint8Array>()
  const waiting = new Set<() => void>()
  const add = (text: string): void => {
    count++
    records.push({ place: String(count), at: clock.now(), text })
    for (const wake of [...waiting]) wake()
  }
  return {
    create: (text) => async () => {
      if (count === 0) add(text)
      return E.right(undefined)
    },
    read: (after) => async () => {
      if (count === 0) return after === null ? queueFailure('absent', 'there is no queue') : lost(after)
      const base = snapshot?.place ?? null
      const isBehind = snapshot !== undefined && (after === null || orderOf(after) < orderOf(snapshot.place))
      const from = isBehind ? orderOf(snapshot!.place) : orderOf(after ?? '0')
      const later = records.filter(({ place }) => orderOf(place) > from)
      return E.right({
        ...{ now: clock.now(), base, records: later.slice(0, READ_AT_ONCE), hasMore: later.length > READ_AT_ONCE },
        ...(isBehind && { snapshot: snapshot! }),
      })
    },
    append: (text, rollout) => async () => {
      if (rollout !== undefined) blobs.set(rollout.name, rollout.bytes.slice())
      add(text)
      return E.right(undefined)
    },
    compact: (next, base) => async () => {
      const isOld = base !== null && orderOf(next.place) <= orderOf(base)
      if (isOld || (snapshot?.place ?? null) !== base) return E.right(undefined)
      snapshot = next
      records = records.filter(({ place }) => orderOf(place) >= orderOf(next.place))
      return E.right(undefined)
    },
    rollouts: (names) => async () => E.right(names.map((name) => blobs.get(name))),
    rolloutNames: async () => E.right([...blobs.keys()]),
    forget: (names) => async () => {
      for (const name of names) blobs.delete(name)
      return E.right(undefined)
    },
    changed: (after, limitMs) => async () => {
      if (count > orderOf(after)) return E.right('changed')
      await new Promise<void>((go) => {
        const end = (): void => {
          silence()
          waiting.delete(end)
          go()
        }
        const silence = timers.after(limitMs, end)
        waiting.add(end)
      })
      return E.right(count > orderOf(after) ? 'changed' : 'silent')
    },
    close: async () => {
      for (const wake of [...waiting]) wake()
    },
  }
}

/** A place that is gone, with no snapshot in its stead. */
export const lost = (after: string): E.Either<QueueFailure, never> =>
  queueFailure('lost', `the queue's records after ${after} are gone: it was deleted, or its server has lost data`)
