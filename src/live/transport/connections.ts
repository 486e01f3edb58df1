/** Connections to one server: kept while they are used, one request at a time on each. */
import { buildConnector, Client, type Dispatcher } from 'undici'
import type { Trouble } from './retry.js'

/** What goes over the wire. */
export interface ConnectionMessage {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** With the prefix of the server. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
  /** `fresh`: a connection of its own, which no server can have closed while it was idle. */
  readonly connection: 'kept' | 'fresh'
}

/** Who is told of an answer. After `end` or `broken` nothing more is told. */
interface Listener {
  readonly start: (status: number, headers: Readonly<Record<string, string>>) => void
  readonly data: (bytes: Uint8Array) => void
  readonly end: () => void
  readonly broken: (trouble: Trouble) => void
}

/** A request on its way. */
interface Exchange {
  /** No more bytes are taken from the connection, until `resume`. */
  readonly pause: () => void
  readonly resume: () => void
  /** Cuts the connection; nothing more is told. */
  readonly drop: () => void
  /** Whether a byte of it may have left. */
  readonly isSent: () => boolean
}

export interface ConnectionOptions {
  readonly keepAliveMs: number
  readonly connectMs: number
}

export interface Connections {
  readonly exchange: (message: ConnectionMessage, listener: Listener) => Exchange
  readonly close: () => Promise<void>
}

/** A connection, or the place of one that is opened when it is needed. */
interface Line {
  readonly client: Client
  /** Whether its connection has brought an answer already. */
  state: 'new' | 'used'
}

const codeOf = (error: Error): string => ('code' in error && typeof error.code === 'string' ? error.code : error.name)

/** Some errors of Node are lists of others, with an empty message. */
const messageOf = (error: Error): string => {
  const first: unknown = error instanceof AggregateError ? error.errors[0] : undefined
  return (error.message || (first instanceof Error ? first.message : '') || codeOf(error)).replaceAll(/\s+/g, ' ')
}

const isGarbled = (code: string): boolean =>
  code === 'HTTPParserError' ||
  code.startsWith('HPE_') ||
  code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH' ||
  code === 'UND_ERR_INFO'

/** What an error of the connection means. `told`: how much of the answer had come. */
const troubleOf = (error: Error, line: Line['state'], told: 'unsent' | 'nothing' | 'something'): Trouble => {
  const message = messageOf(error)
  const code = codeOf(error)
  if (told === 'unsent')
    return { kind: 'unreachable', reason: `no connection (${message})`, acted: 'no', wire: 'nothing' }
  if (code === 'UND_ERR_HEADERS_OVERFLOW')
    return { kind: 'too-large', reason: `the headers of the answer are too large (${message})`, acted: 'perhaps' }
  if (isGarbled(code))
    return { kind: 'malformed', reason: `the answer is not proper HTTP (${message})`, acted: 'perhaps' }
  const when = told === 'nothing' ? 'before an answer began' : 'in the middle of the answer'
  return {
    kind: 'reset',
    reason: `the connection broke ${when} (${message})`,
    acted: 'perhaps',
    ...(told === 'nothing' && line === 'used' && { wire: 'stale' }),
  }
}

const flatHeaders = (
  headers: Readonly<Record<string, string | string[] | undefined>>,
): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [
      name.toLowerCase(),
      Array.isArray(value) ? value.join(', ') : `${value}`,
    ]),
  )

/** Thrown nowhere: it tells undici why a connection is cut. */
const dropped = (): Error => new Error('the request was given up')

/** Of one exchange. */
interface Controls {
  controller: Dispatcher.DispatchController | undefined
  /** Whether somebody wants to hear more. */
  isLive: boolean
}

const handlerOf = (
  line: Line,
  listener: Listener,
  { over, controls }: { readonly over: (how: 'end' | 'broken') => boolean; readonly controls: Controls },
): Dispatcher.DispatchHandler => {
  let told: 'unsent' | 'nothing' | 'something' = 'unsent'
  let status = 0
  return {
    onRequestStart: (controller) => {
      told = 'nothing'
      controls.controller = controller
    },
    onResponseStart: (_, code, headers) => {
      told = 'something'
      status = code
      // Codes below 200 announce an answer.
      if (code >= 200 && controls.isLive) listener.start(code, flatHeaders(headers))
    },
    onResponseData: (_, bytes) => {
      if (controls.isLive) listener.data(bytes)
    },
    onResponseEnd: () => {
      line.state = 'used'
      if (over('end')) listener.end()
    },
    onResponseError: (_, error) => {
      if (over('broken')) listener.broken(troubleOf(error, line.state, status >= 200 ? 'something' : told))
    },
    onRequestUpgrade: (controller) => controller.abort(dropped()),
  }
}

/** The lines to one server, open and closed, and which of them nobody uses. */
const openLines = (
  origin: string,
  options: ConnectionOptions,
): {
  readonly open: () => Line
  readonly take: () => Line
  readonly keep: (line: Line) => void
  readonly discard: (line: Line) => void
  readonly close: () => Promise<void>
} => {
  const connect = buildConnector({ timeout: options.connectMs })
  const lines = new Set<Line>()
  /** The last one that became idle is used first, so that those that are not needed can close. */
  const idle: Line[] = []

  const discard = (line: Line): void => {
    const at = idle.indexOf(line)
    if (at >= 0) idle.splice(at, 1)
    lines.delete(line)
    // Nobody waits for the end: all that was underway on it has been told.
    void line.client.destroy(dropped())
  }
  const open = (): Line => {
    const client = new Client(origin, {
      connect,
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: options.keepAliveMs,
      keepAliveMaxTimeout: options.keepAliveMs,
      pipelining: 1,
    })
    const line: Line = { client, state: 'new' }
    client.on('connect', () => {
      line.state = 'new'
    })
    client.on('disconnect', () => {
      if (idle.includes(line)) discard(line)
    })
    lines.add(line)
    return line
  }
  return {
    open,
    take: () => idle.pop() ?? open(),
    keep: (line) => {
      if (lines.has(line)) idle.push(line)
    },
    discard,
    close: async () => {
      const all = [...lines]
      lines.clear()
      idle.length = 0
      await Promise.all(all.map(({ client }) => client.destroy(dropped())))
    },
  }
}

/**
 * Connections to the server of an origin. As many as there are exchanges at a time: their number is the caller's to bound.
 *
 * Effects  opens TCP and TLS connections. An idle one is closed after `keepAliveMs`.
 */
export const openConnections = (origin: string, options: ConnectionOptions): Connections => {
  const lines = openLines(origin, options)
  return {
    exchange: (message, listener) => {
      const { connection, body, ...rest } = message
      const line = connection === 'fresh' ? lines.open() : lines.take()
      const controls: Controls = { controller: undefined, isLive: true }
      const over = (how: 'end' | 'broken'): boolean => {
        const wasLive = controls.isLive
        controls.isLive = false
        if (how === 'end' && connection === 'kept') lines.keep(line)
        // Not from within the client's own callback.
        else queueMicrotask(() => lines.discard(line))
        return wasLive
      }
      line.client.dispatch({ ...rest, body: body ?? null }, handlerOf(line, listener, { over, controls }))
      return {
        pause: () => controls.controller?.pause(),
        resume: () => controls.controller?.resume(),
        drop: () => {
          controls.isLive = false
          lines.discard(line)
        },
        isSent: () => controls.controller !== undefined,
      }
    },
    close: lines.close,
  }
}
