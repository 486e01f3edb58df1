/** Every sink keeps what all of them promise. */
import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { Writable } from 'node:stream'
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import type { Transport } from '@tandem-rl/base'
import { liveTransport } from 'tandem-rl/remote'
import { describe } from 'vitest'
import { boardSteps } from '../../../test/kit/boardFiles.js'
import { faultyFiles } from '../../../test/kit/faultyFiles.js'
import { mlflowServer } from '../../../test/kit/mlflowServer.js'
import { rightOf } from '../../../test/kit/results.js'
import { parseJsonLines, useTemporaryFolder } from '../../../test/kit/runs.js'
import { type SinkSubject, sinkSuite } from '../../../test/kit/sinkSuite.js'
import { trackioServer } from '../../../test/kit/trackioServer.js'
import type { TroubledServer } from '../../../test/kit/troubledServer.js'
import { wandbServer } from '../../../test/kit/wandbServer.js'
import { streamOutput } from '../../base/src/host/output.js'
import { consoleSink } from '../src/console.js'
import { jsonlSink } from '../src/jsonl.js'
import { mlflowSink } from '../src/mlflow.js'
import { openTelemetrySink } from '../src/openTelemetry.js'
import { prometheusSink } from '../src/prometheus.js'
import type { Sink } from '../src/sink.js'
import { tensorBoardSink } from '../src/tensorBoard.js'
import { trackioSink } from '../src/trackio.js'
import { wandbSink } from '../src/wandb.js'

const path = useTemporaryFolder()
let made = 0

const newFolder = (): string => {
  const folder = path(String(made++))
  mkdirSync(folder)
  return folder
}

const nothing = async (): Promise<void> => undefined

const jsonl: SinkSubject = {
  name: 'jsonlSink',
  place: async (trouble) => {
    const file = `${newFolder()}/events.jsonl`
    return {
      session: async () => jsonlSink(file, faultyFiles(trouble)),
      read: async () => parseJsonLines(readFileSync(file, 'utf8')),
      close: nothing,
    }
  },
  steps: async ({ read }) => ((await read()) as { type: string }[]).filter(({ type }) => type !== 'start'), // as it reads
}

const tensorBoard: SinkSubject = {
  name: 'tensorBoardSink',
  place: async (trouble) => {
    const folder = newFolder()
    return {
      session: async () => tensorBoardSink(folder, faultyFiles(trouble)),
      read: async () =>
        readdirSync(folder)
          .sort()
          .map((name) => [name, readFileSync(`${folder}/${name}`)] as const),
      close: nothing,
    }
  },
  steps: async ({ read }) => boardSteps((await read()) as (readonly [string, Buffer])[]), // as it reads
}

/** A place on a server. */
const served = async <S extends TroubledServer>(
  start: () => Promise<S>,
  trouble: Parameters<SinkSubject['place']>[0],
  { sink, read }: { readonly sink: (transport: Transport) => Sink; readonly read: (server: S) => unknown },
): ReturnType<SinkSubject['place']> => {
  const server = await start()
  server.trouble(() => (({ none: 'none', fails: 'refuse', half: 'lose-answer' }) as const)[trouble()])
  const opened: Transport[] = []
  return {
    session: async () => {
      const authorization = `Basic ${Buffer.from('api:key').toString('base64')}`
      const headers = { 'x-trackio-write-token': 'token', authorization }
      const transport = liveTransport({ url: server.url, headers, retry: { attempts: 1 }, circuit: { failures: 1000 } })
      opened.push(transport)
      return sink(transport)
    },
    read: async () => read(server),
    close: async () => {
      await Promise.all(opened.map(({ close }) => close()))
      await server.close()
    },
  }
}

const mlflow: SinkSubject = {
  name: 'mlflowSink',
  place: (trouble) =>
    served(mlflowServer, trouble, {
      sink: (transport) => mlflowSink({ transport, runId: 'abc' }),
      // A state may be sent again after a lost answer: the last one counts.
      read: (server) => server.runs.map(({ states, ...run }) => ({ ...run, state: states.at(-1) })),
    }),
  steps: async ({ read }) => read(),
}

const trackio: SinkSubject = {
  name: 'trackioSink',
  place: (trouble) =>
    served(trackioServer, trouble, {
      sink: (transport) => trackioSink({ transport, runId: 'abc' }),
      // The settings are attached to the first item of a write.
      read: (server) => ({ logs: server.logs().map(({ config: _, ...log }) => log), alerts: server.alerts() }),
    }),
  steps: async ({ read }) => read(),
}

const wandb: SinkSubject = {
  name: 'wandbSink',
  place: (trouble) =>
    served(wandbServer, trouble, {
      sink: (transport) => wandbSink({ transport, runId: 'abc' }),
      read: (server) => ({ rows: server.rows, ...server.last() }),
    }),
  // The last step of a killed run is not sent. `wandb.test.ts` resumes from a checkpoint.
  steps: null,
}

const prometheus: SinkSubject = {
  name: 'prometheusSink',
  place: async () => {
    const sink = prometheusSink()
    return { session: async () => sink, read: () => sink.registry.metrics(), close: nothing }
  },
  steps: null,
}

const openTelemetry: SinkSubject = {
  name: 'openTelemetrySink',
  place: async () => {
    const spans = new InMemorySpanExporter()
    const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
    const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 2 ** 30 })
    const meters = new MeterProvider({ readers: [reader] })
    const tracers = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] })
    return {
      session: () => rightOf(openTelemetrySink({ meter: meters.getMeter('test'), tracer: tracers.getTracer('test') })),
      read: async () => {
        await meters.forceFlush()
        const metrics = exporter
          .getMetrics()
          .at(-1)
          ?.scopeMetrics.flatMap((scope) => scope.metrics)
        return {
          spans: spans.getFinishedSpans().map(({ name, startTime, endTime, attributes, events }) => ({
            ...{ name, startTime, endTime, attributes, events },
          })),
          metrics: metrics?.map(({ descriptor: { name }, dataPoints }) => [
            name,
            dataPoints.map(({ attributes, value }) => [attributes, value]),
          ]),
        }
      },
      close: () => meters.shutdown(),
    }
  },
  steps: null,
}

const onConsole: SinkSubject = {
  name: 'consoleSink',
  place: async () => {
    const parts: string[] = []
    const stream = new Writable({
      decodeStrings: false,
      write: (text: string, _, done) => {
        parts.push(text)
        done()
      },
    })
    return {
      session: async () => consoleSink({ output: streamOutput(stream) }),
      read: async () => parts.join(''),
      close: nothing,
    }
  },
  steps: null,
}

describe('every sink', () => {
  for (const subject of [jsonl, tensorBoard, prometheus, openTelemetry, onConsole]) sinkSuite(subject, 20)
  for (const subject of [mlflow, trackio, wandb]) sinkSuite(subject, 4) // each has servers of its own
})
