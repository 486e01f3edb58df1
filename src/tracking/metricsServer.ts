/** An address at which Prometheus finds the metrics of a run. */
import { pipe } from 'fp-ts/lib/function.js'
import type { Task } from 'fp-ts/lib/Task.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { type ListenFailure, liveHttpServer } from '../live/httpServer.js'

export interface MetricsServerOptions {
  /** Default: this computer alone. */
  readonly host?: string
  /** 0 takes a free one. */
  readonly port: number
}

/** Metrics in a text format: a `Registry` of prom-client, such as that of `prometheusSink`. */
export interface ReadableMetrics {
  readonly contentType: string
  readonly metrics: () => Promise<string>
}

/** Answers until it is closed. */
export interface MetricsServer {
  readonly url: string
  /** Stops listening, and cuts what is not told within a second. A second time does nothing. */
  readonly close: Task<void>
}

const plain = (status: number, text: string, headers: Readonly<Record<string, string>> = {}): Response =>
  new Response(text, { status, headers: { 'content-type': 'text/plain; charset=utf-8', ...headers } })

const answer =
  (registry: ReadableMetrics) =>
  async ({ url, method }: Request): Promise<Response> => {
    if (new URL(url).pathname !== '/metrics') return plain(404, 'metrics are at /metrics\n')
    if (method !== 'GET' && method !== 'HEAD') return plain(405, 'GET is all there is\n', { allow: 'GET, HEAD' })
    return plain(200, await registry.metrics(), { 'content-type': registry.contentType })
  }

/** How long a request may go on when the server is closed. */
const GRACE_MS = 1000

/**
 * Serves metrics at `/metrics`, as Prometheus scrapes them.
 *
 * Errors   `Left(ListenFailure)` where the port cannot be taken.
 * Effects  a listening socket, until `close`.
 *
 * @example
 * serveMetrics(prometheusSink().registry, { port: 9464 })
 */
export const serveMetrics = (
  registry: ReadableMetrics,
  options: MetricsServerOptions,
): TE.TaskEither<ListenFailure, MetricsServer> =>
  pipe(
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
