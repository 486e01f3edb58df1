/** Records events as metrics and traces of OpenTelemetry. */
import type { Attributes, Context, HrTime, Meter, Span, Tracer } from '@opentelemetry/api'
import { cell, checkOptions, errorMessage, optionalPackage, type PackageFailure } from '@tandem-rl/base'
import { importPackage } from '@tandem-rl/base/host'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { distinctNames, snakeCase, TOTALS } from './metricNames.js'
import { OPEN_TELEMETRY_SINK_OPTIONS } from './optionKinds.js'
import { phaseSpans } from './phases.js'
import { type PhaseSpan, type Sink, type SinkFailure, sinkFailure, type TrackedEvent } from './sink.js'

type Api = typeof import('@opentelemetry/api')

/**
 * A `Meter` of `@opentelemetry/api`, by some of its functions. Declarations that import an optional
 * package do not compile without it.
 */
interface MeterOption {
  readonly createCounter: (name: string, options?: never) => object
  readonly createGauge: (name: string, options?: never) => object
  readonly createHistogram: (name: string, options?: never) => object
}

/** A `Tracer` of `@opentelemetry/api`. */
interface TracerOption {
  readonly startSpan: (name: string, options?: never, context?: never) => object
  readonly startActiveSpan: unknown
}

export interface OpenTelemetryOptions {
  /** A `Meter` of `@opentelemetry/api`. Default: the global provider's. */
  readonly meter?: MeterOption
  /** A `Tracer` of `@opentelemetry/api`. Default: the global provider's. */
  readonly tracer?: TracerOption
  /**
   * Scalars that are also summed in counters. Default: sampled tokens, trained tokens, failed
   * groups.
   */
  readonly totals?: readonly string[]
}

/**
 * The span of a step. It stays open until the next step, to include evaluations and checkpoints.
 */
interface OpenStep {
  readonly step: number
  readonly span: Span
  readonly context: Context
  /** The latest end of its contents. */
  readonly end: number
}

/** No SDK is set up, or recorded data was not exported. */
export interface OpenTelemetryFailure {
  readonly _tag: 'OpenTelemetryFailure'
  readonly reason: string
}

const failure = (reason: string): OpenTelemetryFailure => ({ _tag: 'OpenTelemetryFailure', reason })

const SCOPE = 'tandem-rl'

/** Converts milliseconds since 1970 to seconds and nanoseconds, an unambiguous absolute time. */
const hrTime = (ms: number): HrTime => {
  const nanoseconds = Math.round((ms % 1000) * 1e6)
  return [Math.floor(ms / 1000) + Math.floor(nanoseconds / 1e9), nanoseconds % 1e9]
}

/**
 * Makes a valid instrument name: letters, digits and `_.-/`, at most 255 with a number appended.
 */
const instrumentName = (scalar: string): string =>
  `tandem.${snakeCase(scalar)
    .replace(/\//g, '.')
    .replace(/[^a-z0-9_.-]/g, '_')
    .slice(0, 230)}`

/** Records events as metrics. */
const metricsOf = (meter: Meter, totals: readonly string[]) => {
  const own = {
    steps: meter.createCounter('tandem.steps', { description: 'Steps done.' }),
    alarms: meter.createCounter('tandem.alarms', { description: 'Alarms, by kind.' }),
    failures: meter.createCounter('tandem.failures', { description: 'Failures that did not end the run, by kind.' }),
    saved: meter.createCounter('tandem.saved', { description: 'Saved items, such as checkpoints.' }),
    phases: meter.createHistogram('tandem.phase.duration', { description: 'Time spent, by phase.', unit: 's' }),
  }
  const used = new Set(['steps', 'alarms', 'failures', 'saved', 'phase.duration'].map((name) => `tandem.${name}`))
  const once = <T>(make: (scalar: string) => T): ((scalar: string) => T) => {
    const made = new Map<string, T>()
    return (scalar) => {
      const instrument = made.get(scalar) ?? make(scalar)
      made.set(scalar, instrument)
      return instrument
    }
  }
  const named = (suffix: string): ((scalar: string) => string) => {
    const nameOf = distinctNames(instrumentName, { suffix, isTaken: (name) => used.has(name) })
    return (scalar) => {
      const name = nameOf(scalar)
      used.add(name)
      return name
    }
  }
  const [gaugeName, counterName] = [named(''), named('.total')]
  const gauge = once((scalar) => meter.createGauge(gaugeName(scalar), { description: `Scalar ${scalar}.` }))
  const counter = once((scalar) => meter.createCounter(counterName(scalar), { description: `Sum of ${scalar}.` }))
  const lastStep = cell(0)

  return (event: TrackedEvent, spans: readonly PhaseSpan[], of: Attributes): void => {
    for (const { name, from, to } of spans) own.phases.record((to - from) / 1000, { ...of, 'tandem.phase': name })
    switch (event.type) {
      case 'start':
        lastStep.set(Math.max(0, event.from - 1))
        return
      case 'scalars':
        if (event.step > lastStep.get()) own.steps.add(1, of)
        lastStep.update((last) => Math.max(last, event.step))
        for (const [name, value] of Object.entries(event.values)) gauge(name).record(value, of)
        for (const name of totals) {
          const value = event.values[name] ?? 0
          if (value > 0 && Number.isFinite(value)) counter(name).add(value, of)
        }
        return
      case 'saved':
        own.saved.add(1, { ...of, 'tandem.what': event.what })
        return
      case 'alarm':
        own.alarms.add(1, { ...of, 'tandem.alarm': event.name })
        return
      case 'failure':
        own.failures.add(1, { ...of, 'tandem.failure': event.name })
        return
      case 'samples':
      case 'end':
        return
    }
  }
}

/** Records events as spans: one per step, with child spans for its phases. */
const tracesOf = (api: Api, tracer: Tracer) => {
  const parent = api.context.active()
  const open = cell<OpenStep | null>(null)

  const finish = (): void => {
    const last = open.get()
    last?.span.end(hrTime(last.end))
    open.set(null)
  }
  const begin = (step: number, from: number, of: Attributes): OpenStep => {
    const span = tracer.startSpan(
      'step',
      { startTime: hrTime(from), attributes: { ...of, 'tandem.step': step } },
      parent,
    )
    return { step, span, context: api.trace.setSpan(parent, span), end: from }
  }
  /** Returns the span of a step, extended to at least `at`. */
  const reach = (
    step: number,
    { from, at }: { readonly from: number; readonly at: number },
    of: Attributes,
  ): OpenStep => {
    if (open.get()?.step !== step) finish()
    const now = open.get() ?? begin(step, from, of)
    const reached = { ...now, end: Math.max(now.end, at) }
    open.set(reached)
    return reached
  }

  const take = (event: TrackedEvent, spans: readonly PhaseSpan[], of: Attributes): void => {
    if (event.type === 'start' || event.type === 'samples') return
    if (event.type === 'end') {
      const error = { code: api.SpanStatusCode.ERROR, message: 'the run failed' }
      if (event.status === 'failed') reach(event.step, { from: event.at, at: event.at }, of).span.setStatus(error)
      finish()
      return
    }
    const from = spans.reduce((first, span) => Math.min(first, span.from), event.at)
    const { span, context } = reach(event.step, { from, at: event.at }, of)
    for (const phase of spans) {
      const attributes = event.type === 'saved' ? { ...of, 'tandem.path': event.path } : of
      tracer.startSpan(phase.name, { startTime: hrTime(phase.from), attributes }, context).end(hrTime(phase.to))
    }
    if (event.type === 'alarm' || event.type === 'failure')
      span.addEvent(event.type, { 'tandem.name': event.name, 'tandem.text': event.text }, hrTime(event.at))
    if (event.type === 'saved' && spans.length === 0)
      span.addEvent(event.type, { 'tandem.name': event.what, 'tandem.path': event.path }, hrTime(event.at))
  }
  return { take, finish }
}

/** Flushes a global provider, which is behind a proxy. Only some providers support it. */
const flushed = async (provider: unknown): Promise<void> => {
  if (typeof provider !== 'object' || provider === null) return
  if ('getDelegate' in provider && typeof provider.getDelegate === 'function') await flushed(provider.getDelegate())
  else if ('forceFlush' in provider && typeof provider.forceFlush === 'function') await provider.forceFlush()
}

/** Returns the given meter and tracer, or the global ones if an SDK is set up. */
const instruments = (
  api: Api,
  { meter, tracer }: OpenTelemetryOptions,
): E.Either<OpenTelemetryFailure, { readonly api: Api; readonly meter: Meter; readonly tracer: Tracer }> => {
  const [meters, tracers] = [api.metrics.getMeterProvider(), api.trace.getTracerProvider()]
  const nobodysTracers = new api.ProxyTracerProvider().getDelegate()
  const isNobodys =
    meters.getMeter(SCOPE) === api.createNoopMeter() &&
    tracers instanceof api.ProxyTracerProvider &&
    tracers.getDelegate() === nobodysTracers
  return isNobodys && meter === undefined && tracer === undefined
    ? E.left(
        failure(
          'no OpenTelemetry SDK is set up in this process: set one up first, for example with NODE_OPTIONS=--import=./telemetry.mjs',
        ),
      )
    : E.right({
        api,
        // Casts: the options' types are parts of those of the package.
        meter: (meter as Meter | undefined) ?? meters.getMeter(SCOPE),
        tracer: (tracer as Tracer | undefined) ?? tracers.getTracer(SCOPE),
      })
}

/** Returns the time spans of an event's phases. */
const spansOf = (event: TrackedEvent): readonly PhaseSpan[] => {
  if (event.type === 'scalars') return event.spans ?? phaseSpans(event.seconds, event)
  return event.type === 'saved' ? (event.spans ?? []) : []
}

/**
 * Makes a sink that records metrics and traces of a run with OpenTelemetry's API. The user's SDK
 * configuration determines the destination.
 *
 * Metrics: a gauge for each scalar, such as `tandem.train.clip_fraction`; counters `tandem.steps`,
 * `tandem.alarms`, `tandem.failures`, `tandem.saved`, and one for each scalar of `totals`, such as
 * `tandem.train.tokens.total`; the histogram `tandem.phase.duration`. If names of scalars collide,
 * later ones are numbered.
 *
 * Traces: a span `step` for each step, as a child of the span that was active when the sink was
 * made, with child spans for phases, evaluations and checkpoints at their actual times. Alarms and
 * failures are events of the step. All have the attribute `tandem.run`. Sample texts and settings
 * are omitted.
 *
 * A step is exported when the next one begins or the sink is closed. Closing flushes the global
 * providers, but not those of a given meter or tracer.
 *
 * Units    seconds, steps and tokens; scalars are unchanged.
 * Errors   `Left(PackageFailure)` without @opentelemetry/api; `Left(OpenTelemetryFailure)` without
 *          a meter, a tracer or a configured SDK. `close`: `never` if a provider fails to flush.
 *          Throws RangeError for unknown options.
 * Effects  those of the meter and the tracer.
 *
 * @example
 * openTelemetrySink({ totals: ['train/tokens'] })
 */
export const openTelemetrySink = (
  options: OpenTelemetryOptions = {},
): TE.TaskEither<PackageFailure | OpenTelemetryFailure, Sink> => {
  checkOptions('openTelemetrySink', options, OPEN_TELEMETRY_SINK_OPTIONS)
  return pipe(
    optionalPackage('@opentelemetry/api', 'OpenTelemetry', () => importPackage<Api>('@opentelemetry/api', import.meta)),
    TE.chainEitherKW((api) => instruments(api, options)),
    TE.map(({ api, meter, tracer }): Sink => {
      const record = metricsOf(meter, options.totals ?? TOTALS)
      const traces = tracesOf(api, tracer)
      const run = cell<Attributes>({})
      const take = (event: TrackedEvent): void => {
        if (event.type === 'start') run.set({ 'tandem.run': event.run })
        const spans = spansOf(event)
        record(event, spans, run.get())
        traces.take(event, spans, run.get())
      }
      return {
        name: 'opentelemetry',
        write: (events) =>
          TE.fromIO(() => {
            for (const event of events) take(event)
          }),
        close: TE.tryCatch(
          async () => {
            traces.finish()
            if (options.tracer === undefined) await flushed(api.trace.getTracerProvider())
            if (options.meter === undefined) await flushed(api.metrics.getMeterProvider())
          },
          (error): SinkFailure => {
            const what = errorMessage(error)
            return sinkFailure('opentelemetry', 'never', failure(`flushing failed: ${what}`))
          },
        ),
      }
    }),
  )
}
