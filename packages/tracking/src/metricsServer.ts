/** Serves the metrics of a run to Prometheus. */
import { checkOptions } from '@tandem-rl/base'
import { type ListenFailure, liveHttpServer } from '@tandem-rl/host'
import { pipe } from 'fp-ts/lib/function.js'
import type { Task } from 'fp-ts/lib/Task.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { SERVE_METRICS_OPTIONS } from './optionKinds.js'

export interface MetricsServerOptions {
  /** Default: `127.0.0.1`, only this computer. */
  readonly host?: string
  /** 0 picks a free port. */
  readonly port: number
}

/** Metrics in a text format: a `Registry` of prom-client, such as the one of `prometheusSink`. */
export interface ReadableMetrics {
  readonly contentType: string
  readonly metrics: () => Promise<string>
}

/** A running metrics server. */
export interface MetricsServer {
  readonly url: string
  /** Stops listening, and aborts responses after one second. Later calls do nothing. */
  readonly close: Task<void>
}

const plain = (status: number, text: string, headers: Readonly<Record<string, string>> = {}): Response =>
  new Response(text, { status, headers: { 'content-type': 'text/plain; charset=utf-8', ...headers } })

const answer =
  (registry: ReadableMetrics) =>
  async ({ url, method }: Request): Promise<Response> => {
    if (new URL(url).pathname !== '/metrics') return plain(404, 'metrics are at /metrics\n')
    if (method !== 'GET' && method !== 'HEAD') return plain(405, 'only GET is supported\n', { allow: 'GET, HEAD' })
    return plain(200, await registry.metrics(), { 'content-type': registry.contentType })
  }

/** Grace period of requests when the server closes. */
const GRACE_MS = 1000

/**
 * Serves metrics at `/metrics` for Prometheus.
 *
 * Errors   `Left(ListenFailure)` if the port is not available. Throws RangeError for unknown
 *          options.
 * Effects  listens on a socket until `close`.
 *
 * @example
 * serveMetrics(prometheusSink().registry, { port: 9464 })
 */
export const serveMetrics = (
  registry: ReadableMetrics,
  options: MetricsServerOptions,
): TE.TaskEither<ListenFailure, MetricsServer> => {
  checkOptions('serveMetrics', options, SERVE_METRICS_OPTIONS)
  return pipe(
    liveHttpServer(answer(registry), { ...options, refusal: (_, reason) => `${reason}\n` }),
    TE.map(({ url, close }) => {
      let closed: Promise<void> | undefined
      return {
        url: `${url}/metrics`,
        close: () => {
          closed ??= close({ graceMs: GRACE_MS, atLimit: async () => undefined, cutMs: 0 })
          return closed
        },
      }
    }),
  )
}
