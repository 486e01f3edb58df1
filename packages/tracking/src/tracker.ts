/** Sends events to several sinks. A sink cannot stop or delay the run, or affect other sinks. */
import { cell, checkOptions, type Timers, unlessLate } from '@tandem-rl/base'
import { harmless, liveTimers, thrownText } from '@tandem-rl/base/host'
import * as E from 'fp-ts/lib/Either.js'
import type { Task } from 'fp-ts/lib/Task.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { MAKE_TRACKER_OPTIONS } from './optionKinds.js'
import { type Sink, type SinkFailure, sinkFailure, type TrackedEvent } from './sink.js'

/** The counts of one sink: `written`, `dropped` and `waiting` sum to all tracked events. */
export interface SinkReport {
  readonly sink: string
  readonly written: number
  /** Dropped because the queue was full, or because the sink rejected them. */
  readonly dropped: number
  readonly waiting: number
  /** Failed calls of the sink. */
  readonly failures: number
  readonly lastFailure: SinkFailure | null
}

/** Sends events to sinks. */
export interface Tracker {
  /**
   * Queues events for the sinks, in order. Never blocks or throws. Events after `close` are
   * dropped.
   */
  readonly track: (events: readonly TrackedEvent[]) => void
  /** Returns one report per sink, in order. */
  readonly reports: () => readonly SinkReport[]
  /** Waits for the sinks, at most `closeMs`, and retries failed events once. */
  readonly flush: Task<readonly SinkReport[]>
  /** Flushes and closes the sinks. Later calls return the same. */
  readonly close: Task<readonly SinkReport[]>
}

export interface TrackerOptions {
  /**
   * Queue size per sink. More events are dropped, except the first and last of a session. Default
   * 4,096.
   */
  readonly waiting?: number
  /**
   * Time limit of `flush`, and of each part of `close`: flushing and closing. Default 15,000 ms.
   */
  readonly closeMs?: number
  /** Called for the first failure of each sink. */
  readonly onFailure?: (failure: SinkFailure) => void
  /** Default: real timers. */
  readonly timers?: Timers
}

/** Most events per write. */
const WRITE_EVENTS = 256

interface Lane {
  readonly add: (events: readonly TrackedEvent[]) => void
  readonly report: () => SinkReport
  readonly flush: Task<void>
  readonly close: Task<void>
}

/** Converts exceptions of a sink to failures. */
const guarded = (sink: Sink, call: () => TE.TaskEither<SinkFailure, void>): Task<E.Either<SinkFailure, void>> => {
  const thrown = (error: unknown): SinkFailure =>
    sinkFailure(sink.name, 'never', {
      _tag: 'SinkDefect',
      reason: `it threw ${thrownText(error)}`,
    })
  return async () => E.flatten(await TE.tryCatch(async () => call()(), thrown)())
}

const isEdge = ({ type }: TrackedEvent): boolean => type === 'start' || type === 'end'

/** Makes a sink's queue. */
const makeLane = (sink: Sink, options: Required<TrackerOptions>): Lane => {
  let queue: readonly TrackedEvent[] = []
  let [written, dropped, failures] = [0, 0, 0]
  let lastFailure: SinkFailure | null = null
  let pumping: Promise<void> | null = null
  let state: 'open' | 'closing' | 'closed' = 'open'

  const fail = (failure: SinkFailure): void => {
    failures++
    lastFailure = failure
    if (failures === 1) harmless('onFailure', options.onFailure)(failure)
  }

  /** Writes queued events until the queue is empty or the sink fails with `later`. */
  const pump = async (): Promise<void> => {
    while (queue.length > 0 && state !== 'closed') {
      const batch = queue.slice(0, WRITE_EVENTS)
      const result = await guarded(sink, () => sink.write(batch))()
      if (E.isLeft(result)) fail(result.left)
      if (E.isLeft(result) && result.left.again === 'later') break
      queue = queue.slice(batch.length)
      if (E.isLeft(result)) dropped += batch.length
      else written += batch.length
    }
    pumping = null
  }
  const start = (): Promise<void> => {
    pumping ??= Promise.resolve().then(pump) // deferred, because `pump` resets `pumping` at its end
    return pumping
  }

  /** Waits for a pending write, then for one retry if it failed. */
  const flush = async (): Promise<void> => {
    const drained = (pumping ?? Promise.resolve()).then(() => (queue.length > 0 ? start() : undefined))
    await unlessLate(drained, options.closeMs, options.timers)
  }

  return {
    add: (events) => {
      const room = options.waiting - queue.length
      const ordinary = events.filter((event) => !isEdge(event))
      const refused = new Set(state !== 'open' ? events : ordinary.slice(Math.max(0, room)))
      queue = [...queue, ...events.filter((event) => !refused.has(event))]
      dropped += refused.size
      if (queue.length > 0) void start()
    },
    report: () => ({ sink: sink.name, written, dropped, waiting: queue.length, failures, lastFailure }),
    flush,
    close: async () => {
      state = 'closing'
      await flush()
      state = 'closed'
      const closing = guarded(sink, () => sink.close)().then((result) => {
        if (E.isLeft(result)) fail(result.left)
      })
      await unlessLate(closing, options.closeMs, options.timers)
    },
  }
}

/**
 * Makes a tracker that sends each event to every sink, in order. Each sink has its own queue, whose
 * events are written together as soon as the previous write ends. Failed events are retried with
 * the next event, and once more on flush and close.
 *
 * Errors   failures and exceptions of sinks are part of the reports. Throws RangeError for unknown
 *          options.
 * Effects  those of the sinks; timers during `flush` and `close`.
 * Cost     each event is stored once, with a queue entry per sink that has not written it.
 *
 * @example
 * makeTracker([]).reports() // []
 */
export const makeTracker = (sinks: readonly Sink[], options: TrackerOptions = {}): Tracker => {
  checkOptions('makeTracker', options, MAKE_TRACKER_OPTIONS)
  const settings = { waiting: 4096, closeMs: 15_000, onFailure: () => undefined, timers: liveTimers, ...options }
  const lanes = sinks.map((sink) => makeLane(sink, settings))
  const reports = (): readonly SinkReport[] => lanes.map(({ report }) => report())
  const closed = cell<Promise<unknown> | null>(null)
  return {
    track: (events) => {
      for (const lane of lanes) lane.add(events)
    },
    reports,
    flush: async () => {
      await Promise.all(lanes.map(({ flush }) => flush()))
      return reports()
    },
    close: async () => {
      const closing = closed.get() ?? Promise.all(lanes.map(({ close }) => close()))
      closed.set(closing)
      await closing
      return reports()
    },
  }
}
