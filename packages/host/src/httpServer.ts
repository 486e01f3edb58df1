/** The real HTTP server: sockets in front of a function from requests to responses. */
import { createServer, type Server, type ServerResponse } from 'node:http'
import { isIPv6, type Socket } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { ABORTED, asError, type SocketOptions, unlessLate } from '@tandem-rl/base'
import { liveTimers } from '@tandem-rl/base/host'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { isLoopback } from './transport/loopback.js'
import { liveSockets, respondAndClose } from './webSockets.js'

/** A failure to listen on a port. */
export interface ListenFailure {
  readonly _tag: 'ListenFailure'
  readonly host: string
  readonly port: number
  /** The system's error code, such as EADDRINUSE. */
  readonly code: string
  readonly reason: string
}

export interface HttpServerOptions {
  /** Default: only this computer. */
  readonly host?: string
  /** 0 selects a free port. */
  readonly port: number
  /**
   * Further accepted names in `Host` headers if `host` is loopback. Otherwise all names are
   * accepted.
   */
  readonly names?: readonly string[]
  /**
   * Time in milliseconds for which a connection without requests stays open. Default 5,000, as in
   * vLLM.
   */
  readonly keepAliveMs?: number
  /** Time limit in milliseconds for receiving a complete request. Default 300,000. */
  readonly requestMs?: number
  /** Returns the body of the response to a request that is not valid HTTP. */
  readonly refusal: (status: number, reason: string) => string
  /** Answers WebSocket connections. Default: they are requests like others. */
  readonly sockets?: SocketOptions
}

export interface HttpServer {
  readonly url: string
  readonly host: string
  readonly port: number
  /**
   * Stops accepting connections and requests, and waits for pending responses. After `graceMs`,
   * `atLimit` is called to end them; connections still open `cutMs` later (default 5,000) are
   * closed. Resolves when no connection is open.
   */
  readonly close: (options: {
    readonly graceMs: number
    readonly atLimit: () => Promise<void>
    readonly cutMs?: number
  }) => Promise<void>
}

const HINTS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is in use; choose another one',
  EACCES: 'permission denied for this port; choose one above 1023',
  EADDRNOTAVAIL: 'this computer has no such address',
  ENOTFOUND: 'no such host',
}

const codeOf = (error: Error): string => ('code' in error && typeof error.code === 'string' ? error.code : 'UNKNOWN')

/** Statuses for Node's errors about the bytes of a request. */
const STATUS: Readonly<Record<string, readonly [number, string]>> = {
  HPE_HEADER_OVERFLOW: [431, 'Request Header Fields Too Large'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'Request Timeout'],
}

/** Responds to bytes that are not a request, if the connection is still open. */
const refuseSocket = (error: Error, socket: Socket, refusal: HttpServerOptions['refusal']): void => {
  if (!socket.writable || codeOf(error) === 'ECONNRESET') {
    socket.destroy()
    return
  }
  const [status, reason] = STATUS[codeOf(error)] ?? [400, 'Bad Request']
  respondAndClose(socket, status, refusal(status, status === 400 ? 'Invalid HTTP request received.' : reason))
}

/** Returns the name in a `Host` header, without the port. */
const hostName = (header: string): string =>
  header
    .replace(/:\d*$/, '')
    .replace(/^\[(.*)\]$/, '$1')
    .toLowerCase()

/**
 * Returns `true` if the `Host` header names this server. A web page whose own name resolves to
 * 127.0.0.1 would pass as the server's own page (DNS rebinding), but its requests carry its name.
 */
const isForUs = (header: string | undefined, names: readonly string[] | 'any'): boolean => {
  if (names === 'any' || header === undefined) return true
  const name = hostName(header)
  return isLoopback(name) || names.includes(name)
}

const NOT_FOR_US = 'This server only answers requests to a loopback address of this computer.'

const listening = (server: Server, host: string, port: number): TE.TaskEither<ListenFailure, number> =>
  TE.tryCatch(
    () =>
      new Promise<number>((resolve, reject) => {
        server.once('error', reject)
        server.listen(port, host, () => {
          server.off('error', reject)
          const address = server.address()
          resolve(typeof address === 'object' && address !== null ? address.port : port)
        })
      }),
    (error): ListenFailure => {
      const caught = asError(error)
      const code = codeOf(caught)
      return {
        _tag: 'ListenFailure',
        host,
        port,
        code,
        reason: `cannot listen on ${host}:${port}: ${HINTS[code] ?? caught.message}`,
      }
    },
  )

/**
 * Listens for requests and answers them with `fetch`. A request's `signal` aborts if its client
 * disconnects before the response is complete. On a loopback address, requests whose `Host` header
 * has another name are refused with 421, as a protection against DNS rebinding.
 *
 * Errors   `Left(ListenFailure)` if the port is unavailable.
 * Effects  keeps a listening socket open until `close`.
 */
export const liveHttpServer = (
  fetch: (request: Request) => Promise<Response>,
  {
    host = '127.0.0.1',
    port,
    keepAliveMs = 5000,
    requestMs = 300_000,
    names = [],
    refusal,
    sockets: door,
  }: HttpServerOptions,
): TE.TaskEither<ListenFailure, HttpServer> => {
  const listener = getRequestListener(fetch, { overrideGlobalObjects: false })
  const accepted = isLoopback(host) ? names.map((name) => name.toLowerCase()) : 'any'
  let isClosing = false
  const server = createServer(
    {
      keepAliveTimeout: keepAliveMs,
      requestTimeout: requestMs,
      headersTimeout: Math.min(60_000, requestMs),
      connectionsCheckingInterval: Math.min(30_000, requestMs),
    },
    (request, response: ServerResponse) => {
      if (isClosing) response.setHeader('connection', 'close')
      response.once('close', () => {
        if (isClosing) server.closeIdleConnections()
      })
      if (isForUs(request.headers.host, accepted)) void listener(request, response)
      else {
        const body = refusal(421, NOT_FOR_US)
        response.writeHead(421, { 'content-type': 'application/json', connection: 'close' }).end(body)
      }
    },
  )
  server.on('clientError', (error, stream) => refuseSocket(error, stream as Socket, refusal)) // a server of TCP has no other streams
  const sockets = door && liveSockets(door)
  if (sockets !== undefined)
    server.on('upgrade', (request, socket, head) => {
      if (isForUs(request.headers.host, accepted)) sockets.upgrade(request, socket, head)
      else respondAndClose(socket, 421, refusal(421, NOT_FOR_US))
    })
  const close: HttpServer['close'] = async ({ graceMs, atLimit, cutMs = 5000 }) => {
    isClosing = true
    const closed = new Promise<void>((resolve) => {
      server.close(() => resolve())
    })
    server.closeIdleConnections()
    sockets?.close()
    if ((await unlessLate(closed, graceMs, liveTimers)) === ABORTED) {
      sockets?.abort()
      await unlessLate(atLimit(), cutMs, liveTimers)
      if ((await unlessLate(closed, cutMs, liveTimers)) === ABORTED) server.closeAllConnections()
    }
    await closed
  }
  return TE.map((taken: number) => ({
    url: `http://${isIPv6(host) ? `[${host}]` : host}:${taken}`,
    host,
    port: taken,
    close,
  }))(listening(server, host, port))
}
