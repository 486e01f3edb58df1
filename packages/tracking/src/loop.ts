/** Tracks a custom training loop. */
import { type Calendar, type Clock, cell, checkOptions } from '@tandem-rl/base'
import { liveCalendar, liveClock } from '@tandem-rl/base/host'
import { TRACK_LOOP_OPTIONS } from './optionKinds.js'
import type { PhaseSpan, RunStatus, SettingValue, Sink, TrackedEvent } from './sink.js'
import { makeTracker, type SinkReport, type TrackerOptions } from './tracker.js'

/** An event between steps, without its time. */
export type LoopEvent = {
  readonly [T in 'samples' | 'saved' | 'alarm' | 'failure']: Omit<Extract<TrackedEvent, { readonly type: T }>, 'at'>
}['samples' | 'saved' | 'alarm' | 'failure']

export interface LoopOptions extends TrackerOptions {
  /** Display name of the run. A resumed run keeps its name. */
  readonly run: string
  /** The first step of this session. Default 0: a new run. */
  readonly from?: number
  readonly settings?: Readonly<Record<string, SettingValue>>
  /** Default: the real clock. */
  readonly clock?: Clock
  readonly calendar?: Calendar
}

/** The tracker of a loop. */
export interface LoopTracker {
  /** Runs a phase of the current step and measures its time, even if it throws. */
  readonly phase: <T>(name: string, work: () => T | Promise<T>) => Promise<T>
  /** Reports the numbers of a step, with the phases since the previous step. */
  readonly step: (step: number, values: Readonly<Record<string, number>>) => void
  readonly tell: (event: LoopEvent) => void
  /**
   * Reports the end, flushes and closes the sinks, and returns their reports. Later calls return
   * the same.
   */
  readonly end: (status: RunStatus) => Promise<readonly SinkReport[]>
}

/**
 * Starts tracking a loop with several sinks. Reports the start, and returns functions that report
 * the rest.
 *
 * Errors   failures of sinks are part of the reports and passed to `onFailure`. Throws RangeError
 *          for unknown options.
 * Effects  those of the sinks.
 *
 * @example
 * trackLoop([], { run: 'first' }).step(1, { 'train/loss': 0.5 })
 */
export const trackLoop = (sinks: readonly Sink[], options: LoopOptions): LoopTracker => {
  checkOptions('trackLoop', options, TRACK_LOOP_OPTIONS)
  const { run, from = 0, settings = {}, clock = liveClock, calendar = liveCalendar, ...rest } = options
  const tracker = makeTracker(sinks, rest)
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
