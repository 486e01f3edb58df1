/** Tracks the events of a run while passing them on. */
import type { Calendar } from '@tandem-rl/base'
import { liveCalendar } from '@tandem-rl/base/host'
import type { RunEvent } from 'tandem-rl'
import type { RunStatus } from './sink.js'
import { type TrackedSession, trackedEvents } from './trackedEvents.js'
import type { Tracker } from './tracker.js'

export interface TrackedRunOptions extends Pick<TrackedSession, 'run' | 'isResumed'> {
  /** Receives every event. Closed by the caller. */
  readonly tracker: Tracker
  /** Completions per step to track as texts. Default 0. */
  readonly samples?: number
  readonly calendar?: Calendar
}

/** Limits the samples of an event. */
const withSamples = (event: RunEvent, count: number): RunEvent =>
  event.type === 'samples' ? { ...event, samples: event.samples.slice(0, count) } : event

/**
 * Yields the events of a run, after passing each to a tracker. A run that throws is reported as
 * `failed`, and one that is not read to its end as `interrupted`.
 *
 * Errors   rethrows errors of the run.
 * Effects  those of the run and of the tracker.
 *
 * @example
 * trackedRun((async function* () {})(), { tracker: makeTracker([]), run: 'first', isResumed: false })
 */
export async function* trackedRun(
  events: AsyncIterable<RunEvent>,
  { tracker, run, isResumed, samples = 0, calendar = liveCalendar }: TrackedRunOptions,
): AsyncGenerator<RunEvent> {
  const now = (): number => calendar.today().getTime()
  let since = now()
  let step = 0
  let status: RunStatus | 'reported' = 'interrupted'
  try {
    for await (const event of events) {
      if ('step' in event) step = event.step
      if (event.type === 'end') status = 'reported'
      tracker.track(trackedEvents(withSamples(event, samples), { run, isResumed, at: now(), since }))
      yield event
      since = now()
    }
  } catch (error) {
    status = 'failed'
    throw error
  } finally {
    if (status !== 'reported') tracker.track([{ type: 'end', at: now(), step, status }])
  }
}
