/** A run whose events are tracked on their way to whoever asked for them. */
import type { Calendar } from '../core/capabilities.js'
import { liveCalendar } from '../live/clock.js'
import type { RunEvent } from '../training/events.js'
import type { RunStatus } from './sink.js'
import { type TrackedSession, trackedEvents } from './trackedEvents.js'
import type { Tracker } from './tracker.js'

export interface TrackedRunOptions extends Pick<TrackedSession, 'run' | 'isResumed'> {
  /** Gets every event. The caller closes it. */
  readonly tracker: Tracker
  /** Completions of each step that are tracked as texts. Default 0. */
  readonly samples?: number
  readonly calendar?: Calendar
}

/** The event with so many samples. */
const withSamples = (event: RunEvent, count: number): RunEvent =>
  event.type === 'samples' ? { ...event, samples: event.samples.slice(0, count) } : event

/**
 * The events of a run, each told to a tracker before it is given out. A run that throws is told as `failed`, and one that nobody reads
 * to its end as `interrupted`.
 *
 * Errors   throws what the run throws.
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
  let status: RunStatus | 'told' = 'interrupted'
  try {
    for await (const event of events) {
      if ('step' in event) step = event.step
      if (event.type === 'end') status = 'told'
      tracker.track(trackedEvents(withSamples(event, samples), { run, isResumed, at: now(), since }))
      yield event
      since = now()
    }
  } catch (error) {
    status = 'failed'
    throw error
  } finally {
    if (status !== 'told') tracker.track([{ type: 'end', at: now(), step, status }])
  }
}
