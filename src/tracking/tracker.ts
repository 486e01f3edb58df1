/** One stream of events to several sinks. No sink can stop the run, delay it, or take events from another one. */
import * as E from 'fp-ts/lib/Either.js'
import type { Task } from 'fp-ts/lib/Task.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { Alarms } from '../core/capabilities.js'
import { cell } from '../core/cell.js'
import { liveAlarms } from '../live/clock.js'
import { type Sink, type SinkFailure, sinkFailure, type TrackedEvent } from './sink.js'

/** What became of the events for one sink: `written`, `dropped` and `waiting` together are all that were tracked. */
export interface SinkReport {
  readonly sink: string
  readonly written: number
  /** Because too many waited, or because the sink can never take them. */
  readonly dropped: number
  readonly waiting: number
  /** Failed calls of the sink. */
  readonly failures: number
  readonly lastFailure: SinkFailure | null
}

/** Gives events to sinks. */
export interface Tracker {
  /** Returns at once and never throws; sinks take the events in order, when they can. Events after `close` are dropped. */
  readonly track: (events: readonly TrackedEvent[]) => void
  /** One for each sink, in their order. */
  readonly reports: () => readonly SinkReport[]
  /** Waits for what the sinks take within the limit of `close`, and gives what they could not take once more. */
  readonly flush: Task<readonly SinkReport[]>
  /** Flushes and closes the sinks. A second time gives the same, and closes nothing twice. */
  readonly close: Task<readonly SinkReport[]>
}

export interface TrackerOptions {
  /** Events that may wait for a sink; more are dropped and counted, but for the first and the last of a session. Default 4,096. */
  readonly waiting?: number
  /** Longest wait in `flush`, and in `close` for each of: what is not written yet, and the closing itself. Default 15,000. */
  readonly closeMs?: number
  /** Told of the first failure of each sink, and not of others. */
  readonly onFailure?: (failure: SinkFailure) => void
  /** Default: the real time. */
  readonly alarms?: Alarms
}

/** Events that a sink is given in one write. */
const WRITE_EVENTS = 256

interface Lane {
  readonly add: (events: readonly TrackedEvent[]) => void
  readonly report: () => SinkReport
  readonly flush: Task<void>
  readonly close: Task<void>
}

/** What a sink throws is a failure of that sink alone. */
const guarded = (sink: Sink, call: () => TE.TaskEither<SinkFailure, void>): Task<E.Either<SinkFailure, void>> => {
  const thrown = (error: unknown): SinkFailure =>
    sinkFailure(sink.name, 'never', {
      _tag: 'SinkDefect',
      reason: `it threw ${error instanceof Error ? error.message : String(error)}`,
    })
  return async () => E.flatten(await TE.tryCatch(async () => call()(), thrown)())
}

/** Waits for work, or until a time has passed. */
const within = (work: Promise<unknown>, ms: number, alarms: Alarms): Promise<'done' | 'late'> =>
  new Promise((resolve) => {
    const cancel = alarms.after(ms, () => resolve('late'))
    void work.then(() => {
      cancel()
      resolve('done')
    })
  })

const isEdge = ({ type }: TrackedEvent): boolean => type === 'start' || type === 'end'

/** One sink with the events that wait for it. */
const makeLane = (sink: Sink, options: Required<TrackerOptions>): Lane => {
  let queue: readonly TrackedEvent[] = []
  let [written, dropped, failures] = [0, 0, 0]
  let lastFailure: SinkFailure | null = null
  let pumping: Promise<void> | null = null
  let state: 'open' | 'closing' | 'closed' = 'open'

  const fail = (failure: SinkFailure): void => {
    failures++
    lastFailure = failure
    if (failures === 1) options.onFailure(failure)
  }

  /** Writes what waits, until there is nothing left or the sink says `later`. */
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
    pumping ??= Promise.resolve().then(pump) // not at once: `pump` takes itself back when it ends
    return pumping
  }

  /** The first wait is for a write that is underway, the second for one more attempt if that one failed. */
  const flush = async (): Promise<void> => {
    const drained = (pumping ?? Promise.resolve()).then(() => (queue.length > 0 ? start() : undefined))
    await within(drained, options.closeMs, options.alarms)
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
      await within(closing, options.closeMs, options.alarms)
    },
  }
}

/**
 * Gives each event to every sink, in order. Each sink has a queue of its own and takes what waits there in one write, as soon as its last
 * write is over. Events that it could not take wait for the next event, and are given once more when the tracker is flushed or closed.
 *
 * Errors   none: what sinks fail with, or throw, is in the reports.
 * Effects  those of the sinks; alarms during `close`.
 * Cost     an event is held once, and a place in the queue of each sink that has not taken it.
 *
 * @example
 * makeTracker([]).reports() // []
 */
export const makeTracker = (sinks: readonly Sink[], options: TrackerOptions = {}): Tracker => {
  const settings = { waiting: 4096, closeMs: 15_000, onFailure: () => undefined, alarms: liveAlarms, ...options }
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
