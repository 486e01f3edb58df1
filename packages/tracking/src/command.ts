/**
 * For those who train by the command line: the trackers of the flags of `tandem train`, which
 * imports this module when a flag needs it.
 *
 * @module
 */
import { resolve } from 'node:path'
import { describe, type Environment, errorMessage, type FileFailure, type Files, type Transport } from '@tandem-rl/base'
import { liveEnvironment, liveIds } from '@tandem-rl/base/host'
import { filesBelow } from '@tandem-rl/host'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { RunEvent } from 'tandem-rl'
import {
  CommandError,
  checkServerUrl,
  type FollowedRun,
  type OpenTracking,
  orFail,
  type TrackingFlags,
} from 'tandem-rl/command'
import { liveTransport } from 'tandem-rl/remote'
import { type MetricsServer, serveMetrics } from './metricsServer.js'
import { mlflowSink } from './mlflow.js'
import { openTelemetrySink } from './openTelemetry.js'
import { type PrometheusSink, prometheusSink } from './prometheus.js'
import type { Sink } from './sink.js'
import { tensorBoardSink } from './tensorBoard.js'
import { trackedRun } from './trackedRun.js'
import { makeTracker, type SinkReport, type Tracker } from './tracker.js'
import { trackioSink } from './trackio.js'
import { wandbSink } from './wandb.js'

/** Returns a unique id of the run. It is stored in the run folder, so all sessions share it. */
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

type Headers = Readonly<Record<string, string>>

const basic = (user: string, password: string): Headers => ({
  authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`,
})

/** Opens a transport to the server of a flag. */
const transportTo = (flag: string, url: string, headers: Headers): Transport => {
  checkServerUrl(flag, url)
  try {
    return liveTransport({ url, headers, retry: { attempts: 2 } })
  } catch (error) {
    throw new CommandError(`${flag}: ${errorMessage(error)}`)
  }
}

/** A server of a sink, which is made when the id of the run is known. */
interface ServedSink {
  readonly transport: Transport
  readonly sink: (runId: string) => Sink
}

const mlflow = (url: string, { variables }: Environment): ServedSink => {
  const { MLFLOW_TRACKING_TOKEN: token, MLFLOW_TRACKING_USERNAME: user, MLFLOW_TRACKING_PASSWORD: password } = variables
  const named = user ? basic(user, password ?? '') : {}
  const transport = transportTo('--mlflow', url, token ? { authorization: `Bearer ${token}` } : named)
  return { transport, sink: (runId) => mlflowSink({ transport, runId }) }
}

const trackio = (url: string, { variables: { TRACKIO_WRITE_TOKEN: token } }: Environment): ServedSink => {
  if (!token)
    throw new CommandError('--trackio: TRACKIO_WRITE_TOKEN is not set; the server shows its write token at its start')
  const transport = transportTo('--trackio', url, { 'x-trackio-write-token': token })
  return { transport, sink: (runId) => trackioSink({ transport, runId }) }
}

const wandb = (project: string, { variables }: Environment): ServedSink => {
  const { WANDB_API_KEY: key, WANDB_BASE_URL: url, WANDB_ENTITY: entity } = variables
  if (!key) throw new CommandError('--wandb: WANDB_API_KEY is not set')
  const transport = transportTo('--wandb', url || 'https://api.wandb.ai', basic('api', key))
  return { transport, sink: (runId) => wandbSink({ transport, project, runId, ...(entity && { entity }) }) }
}

/** Opens the servers of the flags. */
const servedSinks = (flags: TrackingFlags): readonly ServedSink[] => [
  ...(flags.mlflow === undefined ? [] : [mlflow(flags.mlflow, liveEnvironment)]),
  ...(flags.trackio === undefined ? [] : [trackio(flags.trackio, liveEnvironment)]),
  ...(flags.wandb === undefined ? [] : [wandb(flags.wandb, liveEnvironment)]),
]

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
    if (host !== undefined) throw new CommandError('--metrics-host requires --metrics-port')
    return null
  }
  const sink = prometheusSink()
  return { sink, server: await orFail(serveMetrics(sink.registry, { port, ...(host !== undefined && { host }) })) }
}

const unreported = ({ sink, dropped, waiting, lastFailure }: SinkReport): string =>
  `${sink} lacks ${dropped + waiting} events${lastFailure === null ? '' : `: ${describe(lastFailure)}`}\n`

/**
 * Waits for the first event, then returns all events. Rejects if the run fails before its first
 * event.
 */
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

/** The connections that are opened before the run. */
interface Places {
  readonly served: readonly ServedSink[]
  readonly metrics: ServedMetrics | null
  readonly telemetry: Sink | null
}

/** Makes the sinks of a run, including those that need its folder. */
const sinksOf = async (
  { tensorboard }: TrackingFlags,
  { folder }: FollowedRun,
  { served, metrics, telemetry }: Places,
): Promise<readonly Sink[]> => {
  const board = tensorboard === true ? `${folder}/tensorboard` : tensorboard
  const runId = served.length === 0 ? '' : await orFail(markOf(filesBelow(folder), folder))
  return [
    ...(board === undefined ? [] : [tensorBoardSink(resolve(board), filesBelow(folder))]),
    ...served.map(({ sink }) => sink(runId)),
    ...(metrics === null ? [] : [metrics.sink]),
    ...(telemetry === null ? [] : [telemetry]),
  ]
}

/**
 * Opens the trackers of the flags before the run starts. `say` prints the URL of the metrics, each
 * tracker's first failure, and at the end the number of lost events.
 *
 * Errors   throws CommandError if a port is taken, a URL is invalid, a token is missing, or
 *          OpenTelemetry is not set up.
 */
export const openTrackers: OpenTracking = async (flags, say) => {
  const served = servedSinks(flags)
  const telemetry = flags.otel === true ? await orFail(openTelemetrySink()) : null
  const metrics = await servedMetrics(flags)
  if (metrics !== null) say(`metrics at ${metrics.server.url}\n`)
  let tracker: Tracker | undefined
  let closed: Promise<void> | undefined

  async function* follow(run: FollowedRun, events: AsyncIterable<RunEvent>): AsyncGenerator<RunEvent> {
    const begun = await begin(events) // after the first event, the run folder exists
    const sinks = await sinksOf(flags, run, { served, metrics, telemetry })
    tracker = makeTracker(sinks, { onFailure: (failure) => say(`${describe(failure)}\n`) })
    const { folder, isResumed } = run
    yield* trackedRun(begun, { tracker, run: folder, isResumed, samples: flags.trackSamples ?? 0 })
  }
  const close = async (): Promise<void> => {
    for (const report of (await tracker?.close()) ?? [])
      if (report.dropped + report.waiting > 0) say(unreported(report))
    await metrics?.server.close()
    if (tracker === undefined) await Promise.all(served.map(({ transport }) => transport.close()))
  }
  return {
    follow,
    close: () => {
      closed ??= close()
      return closed
    },
  }
}
