/** Connections to one server, which are reused, with one request at a time on each. */
import { buildConnector, Client, type Dispatcher } from 'undici'
import { type ForwardProxy, proxiedDispatcher, throughProxy } from './proxies.js'
import type { Trouble } from './retry.js'

/** A request as it is sent. */
export interface ConnectionMessage {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** The path, including the prefix of the server. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
  /** `fresh`: a new connection, which the server cannot have closed while it was idle. */
  readonly connection: 'kept' | 'fresh'
}

/** The callbacks of an answer. None is called after `end` or `broken`. */
interface Listener {
  readonly start: (status: number, headers: Readonly<Record<string, string>>) => void
  readonly data: (bytes: Uint8Array) => void
  readonly end: () => void
  readonly broken: (trouble: Trouble) => void
}

/** A request in progress. */
interface Exchange {
  /** Stops reading from the connection until `resume`. */
  readonly pause: () => void
  readonly resume: () => void
  /** Closes the connection without further callbacks. */
  readonly drop: () => void
  /** Returns true if any byte of the request may have been sent. */
  readonly isSent: () => boolean
}

export interface ConnectionOptions {
  readonly keepAliveMs: number
  readonly connectMs: number
  readonly proxy: ForwardProxy | null
}

export interface Connections {
  readonly exchange: (message: ConnectionMessage, listener: Listener) => Exchange
  readonly close: () => Promise<void>
}

/** A connection, which is opened on demand. */
interface Line {
  readonly client: Dispatcher
  /** `used` if its connection has already delivered an answer. */
  state: 'new' | 'used'
  /** The description of its proxy. */
  readonly through: string
}

const codeOf = (error: Error): string => ('code' in error && typeof error.code === 'string' ? error.code : error.name)

/**
 * Returns the message of an error. Some of Node's errors are lists of others, with an empty
 * message.
 */
const messageOf = (error: Error): string => {
  const first: unknown = error instanceof AggregateError ? error.errors[0] : undefined
  return (error.message || (first instanceof Error ? first.message : '') || codeOf(error)).replaceAll(/\s+/g, ' ')
}

const isGarbled = (code: string): boolean =>
  code === 'HTTPParserError' ||
  code.startsWith('HPE_') ||
  code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH' ||
  code === 'UND_ERR_INFO'

/** Classifies an error of the connection, given the part of the answer that had arrived. */
const troubleOf = (
  error: Error,
  { state, through }: Pick<Line, 'state' | 'through'>,
  reported: 'unsent' | 'nothing' | 'something',
): Trouble => {
  const message = messageOf(error)
  const code = codeOf(error)
  if (through !== '' && code === 'UND_ERR_INVALID_ARG')
    return { kind: 'unreachable', reason: `no connection${through} (${message})`, acted: 'no', passing: 'no' }
  if (reported === 'unsent')
    return { kind: 'unreachable', reason: `no connection${through} (${message})`, acted: 'no', wire: 'nothing' }
  if (code === 'UND_ERR_HEADERS_OVERFLOW')
    return { kind: 'too-large', reason: `the headers of the answer are too large (${message})`, acted: 'perhaps' }
  if (isGarbled(code))
    return { kind: 'malformed', reason: `the answer is not proper HTTP (${message})`, acted: 'perhaps' }
  const when = reported === 'nothing' ? 'before an answer began' : 'in the middle of the answer'
  return {
    kind: 'reset',
    reason: `the connection broke ${when} (${message})`,
    acted: 'perhaps',
    ...(reported === 'nothing' && state === 'used' && { wire: 'stale' }),
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

/** Makes the error that undici reports for a dropped connection. It is never thrown. */
const dropped = (): Error => new Error('the request was dropped')

/** The state of one exchange. */
interface Controls {
  controller: Dispatcher.DispatchController | undefined
  /** True while the listener wants callbacks. */
  isLive: boolean
}

const handlerOf = (
  line: Line,
  listener: Listener,
  { over, controls }: { readonly over: (how: 'end' | 'broken') => boolean; readonly controls: Controls },
): Dispatcher.DispatchHandler => {
  let reported: 'unsent' | 'nothing' | 'something' = 'unsent'
  let status = 0
  return {
    onRequestStart: (controller) => {
      reported = 'nothing'
      controls.controller = controller
    },
    onResponseStart: (_, code, headers) => {
      reported = 'something'
      status = code
      // Statuses below 200 precede the actual answer.
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
      if (over('broken')) listener.broken(troubleOf(error, line, status >= 200 ? 'something' : reported))
    },
    onRequestUpgrade: (controller) => controller.abort(dropped()),
  }
}

/** Manages the connections to one server, used and idle. */
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
  const { proxy, connectMs, keepAliveMs } = options
  const clientOptions: Client.Options = {
    connect: buildConnector({ timeout: connectMs }),
    headersTimeout: 0,
    bodyTimeout: 0,
    keepAliveTimeout: keepAliveMs,
    keepAliveMaxTimeout: keepAliveMs,
    pipelining: 1,
  }
  const lines = new Set<Line>()
  /** Idle connections. The most recent one is reused first, so that surplus ones can time out. */
  const idle: Line[] = []

  const discard = (line: Line): void => {
    const at = idle.indexOf(line)
    if (at >= 0) idle.splice(at, 1)
    lines.delete(line)
    // No exchange waits for its end, because all of them have been completed.
    void line.client.destroy(dropped())
  }
  const open = (): Line => {
    const client = proxiedDispatcher(origin, { proxy, connectMs, options: clientOptions }, (address, own) =>
      new Client(address, own)
        .on('connect', () => {
          line.state = 'new'
        })
        .on('disconnect', () => {
          if (idle.includes(line)) discard(line)
        }),
    )
    const line: Line = { client, state: 'new', through: throughProxy(proxy) }
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
 * Opens connections to the server of an origin. There are as many as simultaneous exchanges, which
 * the caller must limit.
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
      line.client.dispatch({ ...rest, origin, body: body ?? null }, handlerOf(line, listener, { over, controls }))
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
