import { context, metrics, ROOT_CONTEXT, trace } from '@opentelemetry/api'
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import {
  BasicTracerProvider,
  BatchSpanProcessor,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base'
import { afterEach, describe, expect, it } from 'vitest'
import { leftOf, rightOf } from '../../../test/kit/results.js'
import { openTelemetrySink } from '../src/openTelemetry.js'
import type { TrackedEvent } from '../src/sink.js'

/** A real SDK that records its events. */
const sdk = () => {
  const spans = new InMemorySpanExporter()
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 2 ** 30 })
  const meters = new MeterProvider({ readers: [reader] })
  const tracers = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] })
  return { spans, exporter, meters, tracers }
}

type Point = readonly [attributes: unknown, value: unknown]

/** Values by name of the instrument, as last exported; of histograms count and sum. */
const pointsOf = (exporter: InMemoryMetricExporter): Readonly<Record<string, readonly Point[]>> =>
  Object.fromEntries(
    exporter
      .getMetrics()
      .at(-1)!
      .scopeMetrics.flatMap((scope) => scope.metrics)
      .map(({ descriptor, dataPoints }) => [
        descriptor.name,
        dataPoints.map(({ attributes, value }): Point => {
          const number = typeof value === 'object' && 'sum' in value ? [value.count, value.sum] : value
          return [attributes, number]
        }),
      ]),
  )

const ms = ([seconds, nanoseconds]: readonly [number, number]): number => seconds * 1000 + nanoseconds / 1e6

/** A span by what a reader of the trace sees. */
const shown = (span: ReadableSpan, spans: readonly ReadableSpan[]) => ({
  name: span.name,
  from: ms(span.startTime),
  to: ms(span.endTime),
  in: spans.find((each) => each.spanContext().spanId === span.parentSpanContext?.spanId)?.attributes['tandem.step'],
})

const T = 1_795_000_000_000
const RUN = { 'tandem.run': 'first' }
const EVENTS: readonly TrackedEvent[] = [
  { type: 'start', at: T, run: 'first', from: 0, settings: { seed: 1 } },
  { type: 'scalars', at: T + 500, step: 0, values: { 'eval/accuracy': 0.5 }, seconds: { evaluation: 0.25 } },
  {
    ...{ type: 'scalars', at: T + 5000, step: 1, values: { 'train/clipFraction': 0.5, 'train/tokens': 8 } },
    seconds: { generation: 2, training: 1 },
    spans: [
      { name: 'generation', from: T + 1000, to: T + 3000 },
      { name: 'training', from: T + 3000.5, to: T + 4000.25 },
    ],
  },
  { type: 'alarm', at: T + 5001, step: 1, name: 'truncation', text: 'cut' },
  { type: 'failure', at: T + 5002, step: 1, name: 'EnvFailure', text: 'gone' },
  { type: 'samples', at: T + 5002, step: 1, samples: [{ name: '0', text: 'x' }] },
  { type: 'scalars', at: T + 6000, step: 1, values: { 'eval/accuracy': 0.75 }, seconds: { evaluation: 0.5 } },
  {
    ...{ type: 'saved', at: T + 7000, step: 1, what: 'checkpoint', path: 'a/b' },
    spans: [{ name: 'checkpoint', from: T + 6000, to: T + 7000 }],
  },
  { type: 'scalars', at: T + 9000, step: 2, values: { 'train/clipFraction': 0.25, 'train/tokens': 9 }, seconds: {} },
  { type: 'saved', at: T + 9100, step: 2, what: 'model', path: 'c' },
  { type: 'end', at: T + 9200, step: 2, status: 'finished' },
]

afterEach(() => {
  trace.disable()
  metrics.disable()
  context.disable()
})

describe('openTelemetrySink', () => {
  it('has a span for each step with its phases in it, at the times at which they were', async () => {
    const { spans, meters, tracers } = sdk()
    const sink = await rightOf(openTelemetrySink({ meter: meters.getMeter('test'), tracer: tracers.getTracer('test') }))
    await rightOf(sink.write(EVENTS))
    await rightOf(sink.close)
    const finished = spans.getFinishedSpans()
    expect(finished.map((span) => shown(span, finished))).toEqual([
      { name: 'evaluation', from: T + 250, to: T + 500, in: 0 },
      { name: 'step', from: T + 250, to: T + 500, in: undefined },
      { name: 'generation', from: T + 1000, to: T + 3000, in: 1 },
      { name: 'training', from: T + 3000.5, to: T + 4000.25, in: 1 },
      { name: 'evaluation', from: T + 5500, to: T + 6000, in: 1 },
      { name: 'checkpoint', from: T + 6000, to: T + 7000, in: 1 },
      { name: 'step', from: T + 1000, to: T + 7000, in: undefined },
      { name: 'step', from: T + 9000, to: T + 9100, in: undefined },
    ])
    expect(finished.every(({ attributes }) => attributes['tandem.run'] === 'first')).toBe(true)
    expect(finished.find(({ name }) => name === 'checkpoint')?.attributes['tandem.path']).toBe('a/b')
    expect(
      finished.flatMap(({ events }) => events.map(({ name, attributes, time }) => [name, attributes, ms(time)])),
    ).toEqual([
      ['alarm', { 'tandem.name': 'truncation', 'tandem.text': 'cut' }, T + 5001],
      ['failure', { 'tandem.name': 'EnvFailure', 'tandem.text': 'gone' }, T + 5002],
      ['saved', { 'tandem.name': 'model', 'tandem.path': 'c' }, T + 9100],
    ])
  })

  it('records the last value of each scalar, counts what happened, and measures phases', async () => {
    const { exporter, meters, tracers } = sdk()
    const sink = await rightOf(openTelemetrySink({ meter: meters.getMeter('test'), tracer: tracers.getTracer('test') }))
    await rightOf(sink.write(EVENTS))
    await meters.forceFlush()
    expect(pointsOf(exporter)).toEqual({
      'tandem.steps': [[RUN, 2]],
      'tandem.alarms': [[{ ...RUN, 'tandem.alarm': 'truncation' }, 1]],
      'tandem.failures': [[{ ...RUN, 'tandem.failure': 'EnvFailure' }, 1]],
      'tandem.saved': [
        [{ ...RUN, 'tandem.what': 'checkpoint' }, 1],
        [{ ...RUN, 'tandem.what': 'model' }, 1],
      ],
      'tandem.phase.duration': [
        [{ ...RUN, 'tandem.phase': 'evaluation' }, [2, 0.75]],
        [{ ...RUN, 'tandem.phase': 'generation' }, [1, 2]],
        [{ ...RUN, 'tandem.phase': 'training' }, [1, 0.99975]],
        [{ ...RUN, 'tandem.phase': 'checkpoint' }, [1, 1]],
      ],
      'tandem.eval.accuracy': [[RUN, 0.75]],
      'tandem.train.clip_fraction': [[RUN, 0.25]],
      'tandem.train.tokens': [[RUN, 9]],
      'tandem.train.tokens.total': [[RUN, 17]],
    })
    await meters.shutdown()
  })

  it('distinguishes scalars with similar names, also those that look like its own', async () => {
    const { exporter, meters, tracers } = sdk()
    const sink = await rightOf(
      openTelemetrySink({ meter: meters.getMeter('test'), tracer: tracers.getTracer('test'), totals: ['a'] }),
    )
    const values = { 'Ümlaut x': 1, _mlaut_x: 2, steps: 3, a: 4, 'a/total': 5, ['x'.repeat(300)]: 6 }
    await rightOf(sink.write([{ type: 'scalars', at: T, step: 1, values, seconds: {} }]))
    await meters.forceFlush()
    const points = pointsOf(exporter)
    expect(Object.values(points).map((each) => each.map(([, value]) => value))).toEqual([
      [1],
      [1],
      [2],
      [3],
      [4],
      [5],
      [6],
      [4],
    ])
    expect(Object.keys(points)).toEqual([
      ...['tandem.steps', 'tandem._mlaut_x', 'tandem._mlaut_x_2', 'tandem.steps_2', 'tandem.a', 'tandem.a.total'],
      ...[`tandem.${'x'.repeat(230)}`, 'tandem.a_2.total'],
    ])
    await meters.shutdown()
  })

  it('uses the global providers unless it is given others, and flushes them when it is closed', async () => {
    const { exporter, meters } = sdk()
    const spans = new InMemorySpanExporter()
    trace.setGlobalTracerProvider(
      new BasicTracerProvider({ spanProcessors: [new BatchSpanProcessor(spans, { scheduledDelayMillis: 2 ** 30 })] }),
    )
    metrics.setGlobalMeterProvider(meters)
    const sink = await rightOf(openTelemetrySink())
    await rightOf(sink.write(EVENTS.slice(0, 3)))
    expect(spans.getFinishedSpans()).toEqual([])
    await rightOf(sink.close)
    await rightOf(sink.close)
    expect(spans.getFinishedSpans().map(({ name }) => name)).toEqual([
      ...['evaluation', 'step', 'generation', 'training', 'step'],
    ])
    expect(pointsOf(exporter)['tandem.steps']).toEqual([[RUN, 1]])
    await meters.shutdown()
  })

  it('fails where there is nothing to record to', async () => {
    expect(await leftOf(openTelemetrySink())).toMatchObject({
      ...{ _tag: 'OpenTelemetryFailure', reason: expect.stringContaining('no OpenTelemetry SDK is set up') },
    })
    const { meters, tracers } = sdk()
    await rightOf(openTelemetrySink({ meter: meters.getMeter('test') }))
    await rightOf(openTelemetrySink({ tracer: tracers.getTracer('test') }))
    metrics.setGlobalMeterProvider(meters)
    await rightOf(openTelemetrySink())
  })

  it('reports records that could not be exported', async () => {
    const { spans, tracers } = sdk()
    trace.setGlobalTracerProvider(tracers)
    spans.forceFlush = () => Promise.reject(new Error('no collector'))
    const sink = await rightOf(openTelemetrySink())
    expect(await leftOf(sink.close)).toMatchObject({
      again: 'never',
      cause: { reason: expect.stringMatching(/^flushing failed: .*no collector/) },
    })
  })

  it('is inside the span in which it was made', async () => {
    const { spans, meters, tracers } = sdk()
    const tracer = tracers.getTracer('test')
    const outer = tracer.startSpan('outer')
    const active = trace.setSpan(ROOT_CONTEXT, outer)
    context.setGlobalContextManager({
      ...{ active: () => active, with: (_, f, self, ...args) => f.call(self!, ...args), bind: (_, target) => target },
      enable() {
        return this
      },
      disable() {
        return this
      },
    })
    const sink = await rightOf(openTelemetrySink({ meter: meters.getMeter('test'), tracer }))
    await rightOf(sink.write(EVENTS))
    const steps = spans.getFinishedSpans().filter(({ name }) => name === 'step')
    expect(steps).toHaveLength(3)
    for (const { parentSpanContext } of steps) expect(parentSpanContext?.spanId).toBe(outer.spanContext().spanId)
  })

  it('marks the last step of a run that failed', async () => {
    const { spans, meters, tracers } = sdk()
    const sink = await rightOf(openTelemetrySink({ meter: meters.getMeter('test'), tracer: tracers.getTracer('test') }))
    await rightOf(sink.write([...EVENTS.slice(0, 3), { type: 'end', at: T + 6000, step: 1, status: 'failed' }]))
    expect(spans.getFinishedSpans().at(-1)).toMatchObject({
      name: 'step',
      status: { code: 2, message: 'the run failed' },
    })
  })
})
