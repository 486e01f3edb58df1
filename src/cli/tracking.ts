/** Options of `tandem train` that name places to follow the run at, and the tracker that they ask for. */
import { resolve } from 'node:path'
import { Option } from 'commander'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { Environment, Files } from '../core/capabilities.js'
import { describe, type FileFailure } from '../core/failure.js'
import type { Transport } from '../core/http.js'
import { liveEnvironment } from '../live/environment.js'
import { liveFiles } from '../live/files.js'
import { liveIds } from '../live/ids.js'
import { liveTransport } from '../live/transport/liveTransport.js'
import { type MetricsServer, serveMetrics } from '../tracking/metricsServer.js'
import { mlflowSink } from '../tracking/mlflow.js'
import { openTelemetrySink } from '../tracking/openTelemetry.js'
import { type PrometheusSink, prometheusSink } from '../tracking/prometheus.js'
import type { Sink } from '../tracking/sink.js'
import { tensorBoardSink } from '../tracking/tensorBoard.js'
import { trackedRun } from '../tracking/trackedRun.js'
import { makeTracker, type SinkReport, type Tracker } from '../tracking/tracker.js'
import type { RunEvent } from '../training/events.js'
import { CommandError, orFail } from './failure.js'
import { naturalNumber } from './options.js'

export interface TrackingFlags {
  readonly tensorboard?: string | true
  readonly mlflow?: string
  readonly metricsPort?: number
  readonly metricsHost?: string
  readonly otel?: true
  readonly trackSamples?: number
}

/** A run that is followed. */
export interface FollowedRun {
  readonly folder: string
  readonly isResumed: boolean
}

/** Places that are ready to follow a run. */
export interface Tracking {
  /** The events of a run, followed at the places. To be called once. */
  readonly follow: (run: FollowedRun, events: AsyncIterable<RunEvent>) => AsyncIterable<RunEvent>
  /** Waits for what the places still take, says what they have not taken, and closes them. A second time does nothing. */
  readonly close: () => Promise<void>
}

export const trackingOptions = (): readonly Option[] => [
  new Option(
    '--tensorboard [folder]',
    'write event files for TensorBoard (default folder: tensorboard in the run folder)',
  ),
  new Option(
    '--mlflow <url>',
    'log to an MLflow server; MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, are sent to it',
  ),
  new Option(
    '--metrics-port <n>',
    'serve metrics for Prometheus at /metrics of this port while the run goes on; 0 takes a free one',
  ).argParser(naturalNumber),
  new Option('--metrics-host <address>', 'address for --metrics-port (default: 127.0.0.1)'),
  new Option(
    '--otel',
    "record metrics and a trace of each step with OpenTelemetry's API, to the SDK that NODE_OPTIONS=--import sets up",
  ),
  new Option(
    '--track-samples <n>',
    'completions of each step that are tracked as texts, of those that --trajectories keeps (default: 0)',
  ).argParser(naturalNumber),
]

/** What tells the server who asks. */
const authorization = ({ variables }: Environment): Readonly<Record<string, string>> => {
  const { MLFLOW_TRACKING_TOKEN: token, MLFLOW_TRACKING_USERNAME: user, MLFLOW_TRACKING_PASSWORD: password } = variables
  if (token) return { authorization: `Bearer ${token}` }
  if (!user) return {}
  return { authorization: `Basic ${Buffer.from(`${user}:${password ?? ''}`).toString('base64')}` }
}

/** A name of the run that no other one has, the same in every session: it is in the run folder. */
const markOf = (files: Files, folder: string): TE.TaskEither<FileFailure, string> => {
  const path = `${folder}/tracking-id`
  return pipe(
    files.exists(path),
    TE.chain((isMarked) => {
      if (isMarked) return files.readText(path)
      const mark = liveIds.fresh()
      return pipe(
        files.write(path, mark),
        TE.map(() => mark),
      )
    }),
  )
}

const mlflowTransport = (url: string): Transport => {
  try {
    return liveTransport({ servers: url, headers: authorization(liveEnvironment), retry: { attempts: 2 } })
  } catch (error) {
    throw new CommandError(`--mlflow: ${error instanceof Error ? error.message : String(error)}`)
  }
}

/** Metrics, and where they are served. */
interface ServedMetrics {
  readonly sink: PrometheusSink
  readonly server: MetricsServer
}

const servedMetrics = async ({
  metricsPort: port,
  metricsHost: host,
}: TrackingFlags): Promise<ServedMetrics | null> => {
  if (port === undefined) {
    if (host !== undefined) throw new CommandError('--metrics-host is where --metrics-port listens: give that, too')
    return null
  }
  const sink = prometheusSink()
  return { sink, server: await orFail(serveMetrics(sink.registry, { port, ...(host !== undefined && { host }) })) }
}

const untold = ({ sink, dropped, waiting, lastFailure }: SinkReport): string =>
  `${sink} lacks ${dropped + waiting} events${lastFailure === null ? '' : `: ${describe(lastFailure)}`}\n`

/** The events after the first one has come, that one included. Errors: rejects as the run does before its first event. */
const begin = async (events: AsyncIterable<RunEvent>): Promise<AsyncGenerator<RunEvent>> => {
  const iterator = events[Symbol.asyncIterator]()
  const first = await iterator.next()
  return (async function* () {
    try {
      if (first.done !== true) yield first.value
      for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) yield next.value
    } finally {
      await iterator.return?.()
    }
  })()
}

/** What is there before the run. */
interface Places {
  readonly transport: Transport | null
  readonly metrics: ServedMetrics | null
  readonly telemetry: Sink | null
}

/** The sinks of a run: those that need its folder are made for it. */
const sinksOf = async (
  { tensorboard }: TrackingFlags,
  { folder }: FollowedRun,
  { transport, metrics, telemetry }: Places,
): Promise<readonly Sink[]> => {
  const board = tensorboard === true ? `${folder}/tensorboard` : tensorboard
  return [
    ...(board === undefined ? [] : [tensorBoardSink(resolve(board))]),
    ...(transport === null ? [] : [mlflowSink({ transport, runId: await orFail(markOf(liveFiles, folder)) })]),
    ...(metrics === null ? [] : [metrics.sink]),
    ...(telemetry === null ? [] : [telemetry]),
  ]
}

/**
 * Opens the places of the flags, before there is a run. `say` is told where metrics are, once of each place that fails, and at the end of
 * what each lacks.
 *
 * Errors   throws CommandError for a port that cannot be taken, an address that is none, and OpenTelemetry that is not set up.
 */
export const openTracking = async (flags: TrackingFlags, say: (text: string) => void): Promise<Tracking> => {
  const transport = flags.mlflow === undefined ? null : mlflowTransport(flags.mlflow)
  const telemetry = flags.otel === true ? await orFail(openTelemetrySink()) : null
  const metrics = await servedMetrics(flags)
  if (metrics !== null) say(`metrics at ${metrics.server.url}\n`)
  let tracker: Tracker | undefined
  let closed: Promise<void> | undefined

  async function* follow(run: FollowedRun, events: AsyncIterable<RunEvent>): AsyncGenerator<RunEvent> {
    const begun = await begin(events) // a run that is refused leaves nothing behind; one that began has its folder
    const sinks = await sinksOf(flags, run, { transport, metrics, telemetry })
    tracker = makeTracker(sinks, { onFailure: (failure) => say(`${describe(failure)}\n`) })
    const { folder, isResumed } = run
    yield* trackedRun(begun, { tracker, run: folder, isResumed, samples: flags.trackSamples ?? 0 })
  }
  const close = async (): Promise<void> => {
    for (const report of (await tracker?.close()) ?? []) if (report.dropped + report.waiting > 0) say(untold(report))
    await metrics?.server.close()
    if (tracker === undefined) await transport?.close()
  }
  return {
    follow,
    close: () => {
      closed ??= close()
      return closed
    },
  }
}
