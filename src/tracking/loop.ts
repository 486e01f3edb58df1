/** Follows a training loop of one's own. */
import type { Calendar, Clock } from '../core/capabilities.js'
import { cell } from '../core/cell.js'
import { liveCalendar, liveClock } from '../live/clock.js'
import type { PhaseSpan, RunStatus, SettingValue, Sink, TrackedEvent } from './sink.js'
import { makeTracker, type SinkReport, type TrackerOptions } from './tracker.js'

/** What can be told between steps: the time is added. */
export type LoopEvent = {
  readonly [T in 'samples' | 'saved' | 'alarm' | 'failure']: Omit<Extract<TrackedEvent, { readonly type: T }>, 'at'>
}['samples' | 'saved' | 'alarm' | 'failure']

export interface LoopOptions extends TrackerOptions {
  /** Of the run, shown to people; a run that goes on has the name that it had. */
  readonly run: string
  /** The first step of this session. Default 0: a new run. */
  readonly from?: number
  readonly settings?: Readonly<Record<string, SettingValue>>
  /** Default: the real time. */
  readonly clock?: Clock
  readonly calendar?: Calendar
}

/** A loop that is followed. */
export interface LoopTracker {
  /** Does a part of the step that is underway, and measures how long it took, also if it throws. */
  readonly phase: <T>(name: string, work: () => T | Promise<T>) => Promise<T>
  /** Tells the numbers of a step, with the phases since the step before. */
  readonly step: (step: number, values: Readonly<Record<string, number>>) => void
  readonly tell: (event: LoopEvent) => void
  /** Tells the end, waits for what the sinks still take, and closes them: what became of the events. A second time gives the same. */
  readonly end: (status: RunStatus) => Promise<readonly SinkReport[]>
}

/**
 * Follows a loop at several sinks: tells its start, and gives what tells the rest.
 *
 * Errors   none: what sinks fail with is in the reports, and told to `onFailure`.
 * Effects  those of the sinks.
 *
 * @example
 * trackLoop([], { run: 'first' }).step(1, { 'train/loss': 0.5 })
 */
export const trackLoop = (
  sinks: readonly Sink[],
  { run, from = 0, settings = {}, clock = liveClock, calendar = liveCalendar, ...options }: LoopOptions,
): LoopTracker => {
  const tracker = makeTracker(sinks, options)
  const spans = cell<readonly PhaseSpan[]>([])
  const last = cell(from)
  const state = cell<'open' | 'ended'>('open')
  const now = (): number => calendar.today().getTime()
  tracker.track([{ type: 'start', at: now(), run, from, settings }])

  const phase: LoopTracker['phase'] = async (name, work) => {
    const [began, started] = [now(), clock.now()]
    try {
      return await work()
    } finally {
      const span = { name, from: began, to: began + clock.now() - started }
      spans.update((earlier) => [...earlier, span])
    }
  }
  const step: LoopTracker['step'] = (number, values) => {
    const seconds: Record<string, number> = {}
    for (const { name, from: began, to } of spans.get()) seconds[name] = (seconds[name] ?? 0) + (to - began) / 1000
    tracker.track([{ type: 'scalars', at: now(), step: number, values, seconds, spans: spans.get() }])
    spans.set([])
    last.set(number)
  }
  const end: LoopTracker['end'] = (status) => {
    if (state.get() === 'open') tracker.track([{ type: 'end', at: now(), step: last.get(), status }])
    state.set('ended')
    return tracker.close()
  }
  return { phase, step, tell: (event) => tracker.track([{ ...event, at: now() }]), end }
}
