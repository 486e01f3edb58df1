/**
 * The log of a shared queue: its events in one order for all clients, and the bytes of rollouts.
 */
import type { Clock, PackageFailure, Timers } from '@tandem-rl/base'
import { liveClock, liveTimers } from '@tandem-rl/base/host'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'

/** A queue that is permanently or temporarily unusable. */
export interface QueueFailure {
  readonly _tag: 'QueueFailure'
  readonly kind: /** No answer arrived. The request may or may not take effect, now or later. */
    | 'unreachable'
    /** No queue has this name. */
    | 'absent'
    /** The queue of this name was made with other settings. */
    | 'other'
    /** Recorded data is missing, for example because a server restarted without its data. */
    | 'lost'
    /** The server has no space left. Nothing was changed. */
    | 'memory'
    /** The stored data is not a valid queue log. */
    | 'damaged'
    /** The server refuses the request permanently. */
    | 'refused'
    /** A package is missing. */
    | 'package'
    /** Nothing happened for a long time. */
    | 'silent'
    /** The queue was closed by this client. */
    | 'closed'
  readonly reason: string
  readonly cause?: PackageFailure
}

/** Returns a failure as the result of an operation. */
export const queueFailure = (kind: QueueFailure['kind'], reason: string): E.Either<QueueFailure, never> =>
  E.left({ _tag: 'QueueFailure', kind, reason })

/** One record. */
export interface LogRecord {
  /** Its position in the order of records. The format depends on the log. */
  readonly place: string
  /** The time of recording, in milliseconds on the log's clock. */
  readonly at: number
  readonly text: string
}

/** The state up to a place as a single text, which replaces all records up to there. */
export interface LogSnapshot {
  readonly place: string
  readonly text: string
}

export interface LogRead {
  /** Milliseconds on the log's clock. */
  readonly now: number
  /** The snapshot to start from, present if records that the reader lacks were compacted. */
  readonly snapshot?: LogSnapshot
  /** The place of the current snapshot, or `null`. */
  readonly base: string | null
  readonly records: readonly LogRecord[]
  /** True if more records are available. */
  readonly hasMore: boolean
}

/** The bytes of a rollout, under a unique name. */
export interface RolloutBytes {
  readonly name: string
  readonly bytes: Uint8Array
}

/**
 * A log that many processes write and read.
 *
 * Calls that fail with `unreachable` may be retried. An append that is retried can add its record
 * twice, and readers must handle that.
 */
export interface QueueLog {
  /** Creates the log if it does not exist. */
  readonly create: (text: string) => TaskEither<QueueFailure, void>
  /**
   * Returns the records after a place, or from the start. Fails with `lost` if the place was
   * deleted and no snapshot covers it.
   */
  readonly read: (after: string | null) => TaskEither<QueueFailure, LogRead>
  /** Appends a record together with the bytes of a rollout, atomically. */
  readonly append: (text: string, rollout?: RolloutBytes) => TaskEither<QueueFailure, void>
  /**
   * Replaces all records up to the snapshot's place by the snapshot. Does nothing if `base` is not
   * the place of the current snapshot.
   */
  readonly compact: (snapshot: LogSnapshot, base: string | null) => TaskEither<QueueFailure, void>
  /** Returns the bytes of each name, or `undefined` for names without bytes. */
  readonly rollouts: (names: readonly string[]) => TaskEither<QueueFailure, readonly (Uint8Array | undefined)[]>
  readonly rolloutNames: TaskEither<QueueFailure, readonly string[]>
  readonly forget: (names: readonly string[]) => TaskEither<QueueFailure, void>
  /** Waits for a record after a place, for at most `limitMs`. */
  readonly changed: (after: string, limitMs: number) => TaskEither<QueueFailure, ChangedQueue>
  /** Ends all waits. Must be called once only. */
  readonly close: () => Promise<void>
}

/** `changed` for a new record, `silent` after a timeout. */
export type ChangedQueue = 'changed' | 'silent'

/** Maximum number of records in one read. */
export const READ_AT_ONCE = 1000

const orderOf = (place: string): number => Number(place)

/**
 * Makes a log in the memory of this process, shared by all queues that are opened on it.
 *
 * Effects  none outside the process: it keeps the data that it receives.
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
        now: clock.now(),
        base,
        records: later.slice(0, READ_AT_ONCE),
        hasMore: later.length > READ_AT_ONCE,
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
          cancelTimer()
          waiting.delete(end)
          go()
        }
        const cancelTimer = timers.after(limitMs, end)
        waiting.add(end)
      })
      return E.right(count > orderOf(after) ? 'changed' : 'silent')
    },
    close: async () => {
      for (const wake of [...waiting]) wake()
    },
  }
}

/** Returns the failure for a place that was deleted without a snapshot. */
export const lost = (after: string): E.Either<QueueFailure, never> =>
  queueFailure(
    'lost',
    `the queue's records after ${after} are missing: the queue was deleted, or its server has lost data`,
  )
