/** Records events as Prometheus metrics. */
import { cell, checkOptions, refuse } from '@tandem-rl/base'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import { distinctNames, snakeCase, TOTALS } from './metricNames.js'
import { PROMETHEUS_SINK_OPTIONS } from './optionKinds.js'
import { nothingToClose, type Sink, type TrackedEvent } from './sink.js'

export interface PrometheusOptions {
  /** Prefix of every name. Default `tandem_`. */
  readonly prefix?: string
  /**
   * Scalars that are also summed in counters. Default: sampled tokens, trained tokens, failed
   * groups.
   */
  readonly totals?: readonly string[]
  /** Increasing upper bounds of the phase histogram, in seconds. Default: 0.01 to 1,800. */
  readonly buckets?: readonly number[]
}

/** A sink with readable metrics. */
export interface PrometheusSink extends Sink {
  /** The metrics of this run, for serving or for merging with others. */
  readonly registry: Registry
}

const BUCKETS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800]

const checkSettings = ({ prefix, buckets }: Required<PrometheusOptions>): void => {
  const isIncreasing = buckets.every((bound, i) => Number.isFinite(bound) && (i === 0 || bound > buckets[i - 1]!))
  refuse('prometheusSink', [
    !/^[a-zA-Z_][a-zA-Z0-9_]*$/.test(prefix) &&
      `prefix must consist of letters, digits and _, and not start with a digit, got '${prefix}'`,
    !isIncreasing && `buckets must increase, got ${buckets.join(', ')}`,
  ])
}

/** Names of the histogram's parts in the text format. */
const HISTOGRAM_SERIES = ['bucket', 'sum', 'count'].map((part) => `phase_seconds_${part}`)

/** Makes the metrics of every run. */
const ownMetrics = (registry: Registry, { prefix, buckets }: Required<PrometheusOptions>) => {
  const of = <L extends string>(name: string, help: string, labelNames: readonly L[] = []) => ({
    name: prefix + name,
    help,
    labelNames,
    registers: [registry],
  })
  return {
    info: new Gauge(of('run_info', '1 for the run, by its name.', ['run'])),
    running: new Gauge(of('run_running', '1 during the run, 0 after its end.')),
    reported: new Gauge(of('last_event_timestamp_seconds', 'Time of the last event, in seconds since 1970.')),
    step: new Gauge(of('step', 'The last step.')),
    steps: new Counter(of('steps_total', 'Steps done by this process.')),
    alarms: new Counter(of('alarms_total', 'Alarms, by kind.', ['alarm'])),
    failures: new Counter(of('failures_total', 'Failures that did not end the run, by kind.', ['failure'])),
    saved: new Counter(of('saved_total', 'Saved items, such as checkpoints.', ['what'])),
    phases: new Histogram({
      ...of('phase_seconds', 'Time spent, by phase.', ['phase']),
      buckets: [...buckets],
    }),
  }
}

/**
 * Makes a sink that records metrics of a run in its own registry: a gauge for each scalar, such as
 * `tandem_train_clip_fraction`; a histogram `tandem_phase_seconds` by phase; counters
 * `tandem_steps_total`, `tandem_alarms_total`, `tandem_failures_total`, `tandem_saved_total`, and
 * one for each scalar of `totals`, such as `tandem_train_tokens_total`. `tandem_step`,
 * `tandem_run_info`, `tandem_run_running` and `tandem_last_event_timestamp_seconds` describe the
 * state of the run. If names of scalars collide, later ones are numbered.
 *
 * Counters belong to this process. In a resumed run they start at 0 again, as Prometheus expects.
 * Sample texts and settings are omitted.
 *
 * Units    seconds, steps and tokens; scalars are unchanged.
 * Errors   none when writing. Throws RangeError for unknown options, an invalid prefix, or buckets
 *          that do not increase.
 * Effects  holds the last value of each metric.
 *
 * @example
 * prometheusSink().name // 'prometheus'
 */
export const prometheusSink = (options: PrometheusOptions = {}): PrometheusSink => {
  checkOptions('prometheusSink', options, PROMETHEUS_SINK_OPTIONS)
  const settings = {
    prefix: 'tandem_',
    totals: TOTALS,
    buckets: BUCKETS,
    ...options,
  }
  checkSettings(settings)
  const registry = new Registry()
  const own = ownMetrics(registry, settings)
  const series = HISTOGRAM_SERIES.map((name) => settings.prefix + name)
  const isTaken = (name: string): boolean => registry.getSingleMetric(name) !== undefined || series.includes(name)
  const named = (suffix: '' | '_total') =>
    distinctNames((scalar) => `${settings.prefix}${snakeCase(scalar).replace(/[^a-z0-9_]/g, '_')}`, { suffix, isTaken })
  const [gaugeName, counterName] = [named(''), named('_total')]
  const gauges = new Map<string, Gauge>()
  const counters = new Map<string, Counter>()
  const lastStep = cell(0)

  const setScalar = (scalar: string, value: number): void => {
    const gauge =
      gauges.get(scalar) ?? new Gauge({ name: gaugeName(scalar), help: `Scalar ${scalar}.`, registers: [registry] })
    gauges.set(scalar, gauge)
    gauge.set(value)
  }
  const addUp = (scalar: string, value: number): void => {
    const counter =
      counters.get(scalar) ??
      new Counter({ name: counterName(scalar), help: `Sum of scalar ${scalar}.`, registers: [registry] })
    counters.set(scalar, counter)
    if (value > 0 && Number.isFinite(value)) counter.inc(value)
  }
  const observe = (phase: string, seconds: number): void => {
    if (seconds >= 0 && Number.isFinite(seconds)) own.phases.observe({ phase }, seconds)
  }
  const reach = (step: number): void => {
    own.step.set(step)
    if (step > lastStep.get()) own.steps.inc()
    lastStep.update((last) => Math.max(last, step))
  }

  const take = (event: TrackedEvent): void => {
    own.reported.set(event.at / 1000)
    switch (event.type) {
      case 'start':
        own.info.set({ run: event.run }, 1)
        own.running.set(1)
        lastStep.set(Math.max(0, event.from - 1))
        return
      case 'scalars':
        reach(event.step)
        for (const [name, value] of Object.entries(event.values)) setScalar(name, value)
        for (const [phase, seconds] of Object.entries(event.seconds)) observe(phase, seconds)
        for (const name of settings.totals) {
          const value = event.values[name]
          if (value !== undefined) addUp(name, value)
        }
        return
      case 'saved':
        own.saved.inc({ what: event.what })
        for (const { name, from, to } of event.spans ?? []) observe(name, (to - from) / 1000)
        return
      case 'alarm':
        own.alarms.inc({ alarm: event.name })
        return
      case 'failure':
        own.failures.inc({ failure: event.name })
        return
      case 'end':
        own.running.set(0)
        return
      case 'samples':
        return
    }
  }
  return {
    name: 'prometheus',
    registry,
    write: (events) =>
      TE.fromIO(() => {
        for (const event of events) take(event)
      }),
    close: nothingToClose,
  }
}
