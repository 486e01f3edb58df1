/** A proxy before a real server that injects faults: connections, answers, bytes, numbers. */
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { settle } from './manualTime.js'

/** A request as it came. */
export interface SeenRequest {
  readonly method: string
  /** Path and query. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/**
 * The fault that replaces a faithful answer. Bytes are counted from the beginning of
 * the body.
 *
 * `Reset`: the connection is reset before a byte of an answer; the upstream has seen the request or was spared it. `Cut`: the true head, so
 * many bytes, and then the connection is reset, or ended as if all was said. `Short`: proper HTTP,
 * but only so many bytes of the body.
 * `Drip`: the body, byte by byte. `Silence`: the upstream answers, but after so many bytes (none, not even a head, by default) nothing more
 * comes, ever. `Status`: an answer of the proxy itself. `Garbage`: bytes that are not HTTP.
 * `Twice`: the same answer two times. `Late`: the
 * answer, after so long. `Rewrite`: the body changed; see `rewriteJson`. `Kill`: `kill` is called
 * when the upstream has the request.
 */
export type Fault =
  | { readonly _tag: 'Reset'; readonly upstream: 'sees' | 'spared' }
  | { readonly _tag: 'Cut'; readonly afterBytes: number; readonly how: 'reset' | 'end' }
  | { readonly _tag: 'Short'; readonly bytes: number }
  | { readonly _tag: 'Drip'; readonly everyMs: number }
  | { readonly _tag: 'Silence'; readonly afterBytes?: number }
  | {
      readonly _tag: 'Status'
      readonly status: number
      readonly headers?: Readonly<Record<string, string>>
      readonly body?: string
    }
  | { readonly _tag: 'Garbage'; readonly bytes?: string }
  | { readonly _tag: 'Twice' }
  | { readonly _tag: 'Late'; readonly ms: number }
  | { readonly _tag: 'Rewrite'; readonly text: (body: string) => string }
  | { readonly _tag: 'Kill'; readonly kill: () => Promise<void> }

export interface FaultProxyOptions {
  /** The fault of a request; `nth` counts all requests from 0. None: a faithful answer. */
  readonly fault?: (request: SeenRequest, nth: number) => Fault | undefined
  /**
   * Called when the fault `Silence` has begun: a client in this process has read all that will ever
   * come.
   */
  readonly onSilence?: () => void
}

export interface FaultProxy {
  readonly url: string
  /** Requests that came, in order. */
  readonly requests: readonly SeenRequest[]
  /** Requests that were sent to the upstream, in order: what was counted there. */
  readonly seen: readonly SeenRequest[]
  /** Requests whose client went away before the answer was complete. */
  readonly abandoned: readonly SeenRequest[]
  /** Connections since the start. */
  readonly connections: () => number
  /** Replaces the fault of requests from now on. */
  readonly setFault: (fault: NonNullable<FaultProxyOptions['fault']>) => void
  /** Cuts all connections and refuses new ones. */
  readonly refuse: () => Promise<void>
  /** Takes connections again, on the same port. */
  readonly accept: () => Promise<void>
  readonly close: () => Promise<void>
}

/** A value as Python's json writes it: numbers that are none, too. */
const pythonJson = (value: unknown): string => {
  const marks: string[] = []
  const marked = JSON.stringify(value, (_, each: unknown) => {
    if (typeof each !== 'number' || Number.isFinite(each)) return each
    marks.push(Number.isNaN(each) ? 'NaN' : each > 0 ? 'Infinity' : '-Infinity')
    return `\u0001${marks.length - 1}\u0001`
  })
  return marked.replaceAll(/"\\u0001(\d+)\\u0001"/g, (_, index: string) => marks[Number(index)]!)
}

/**
 * Changes the JSON of an answer, or of each event of one; NaN and infinities are written as Python
 * does.
 */
export const rewriteJson = (change: (json: unknown) => unknown): Fault => ({
  _tag: 'Rewrite',
  text: (body) =>
    /^data:/m.test(body)
      ? body.replaceAll(/^data: ?(\{.*)$/gm, (_, json: string) => `data: ${pythonJson(change(JSON.parse(json)))}`)
      : pythonJson(change(JSON.parse(body))),
})

const textOf = async (message: IncomingMessage): Promise<string> => {
  const parts: Buffer[] = []
  for await (const part of message) parts.push(part as Buffer) // streams without an encoding give buffers
  return Buffer.concat(parts).toString('utf8')
}

const flat = (headers: IncomingMessage['headers']): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]))

/** Headers that belong to one connection and are made anew. */
const HOP = new Set(['connection', 'keep-alive', 'transfer-encoding', 'host'])

const endToEnd = (headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP.has(name)))

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms).unref())

/** Sends bytes and waits until they are on their way. */
const push = (response: ServerResponse, bytes: Uint8Array): Promise<void> =>
  new Promise((resolve) => {
    if (response.destroyed) resolve()
    else response.write(bytes, () => resolve())
  })

const cutOff = async (response: ServerResponse, how: 'reset' | 'end'): Promise<void> => {
  await settle() // a reset connection loses data sent just before
  if (how === 'reset') response.socket?.resetAndDestroy()
  else response.socket?.end()
}

/** Faults after which the connection breaks by themselves. */
const CUTS = new Set<string | undefined>(['Reset', 'Cut', 'Garbage', 'Twice', 'Kill'])

/** Passes bytes on, at most `limit` of them. */
const passOn = async (answer: IncomingMessage, response: ServerResponse, limit: number): Promise<void> => {
  let left = limit
  response.flushHeaders()
  if (left === 0) return
  // What comes after the limit is left where it is: the upstream is to believe that all is well.
  for await (const part of answer.iterator({ destroyOnReturn: false })) {
    const bytes = part as Buffer // streams without an encoding give buffers
    await push(response, bytes.subarray(0, left))
    left -= bytes.length
    if (left <= 0) return
  }
}

const raw = (status: number, headers: Readonly<Record<string, string>>, body: string): string => {
  const length = Buffer.byteLength(body)
  const lines = Object.entries({ ...headers, 'content-length': String(length) }).map(
    ([name, value]) => `${name}: ${value}`,
  )
  return `HTTP/1.1 ${status} OK\r\n${lines.join('\r\n')}\r\n\r\n${body}`
}

/** Answers with a body as a whole, so that it may be changed. */
const sendText = (answer: IncomingMessage, response: ServerResponse, text: string): void => {
  const { 'content-length': _, ...headers } = endToEnd(flat(answer.headers))
  response.writeHead(answer.statusCode!, { ...headers, 'content-length': String(Buffer.byteLength(text)) }).end(text)
}

/** Passes the upstream's answer on, spoiled. */
const relay = async (answer: IncomingMessage, response: ServerResponse, fault: Fault | undefined): Promise<void> => {
  const head = (): ServerResponse => response.writeHead(answer.statusCode!, endToEnd(flat(answer.headers)))
  switch (fault?._tag) {
    case 'Reset':
      response.socket?.resetAndDestroy()
      return
    case 'Cut':
      await passOn(answer, head(), fault.afterBytes)
      return cutOff(response, fault.how)
    case 'Silence':
      if (fault.afterBytes !== undefined) await passOn(answer, head(), fault.afterBytes)
      return
    case 'Short':
      return sendText(
        answer,
        response,
        Buffer.from(await textOf(answer))
          .subarray(0, fault.bytes)
          .toString('utf8'),
      )
    case 'Rewrite':
      return sendText(answer, response, fault.text(await textOf(answer)))
    case 'Drip': {
      const bytes = Buffer.from(await textOf(answer))
      head().flushHeaders()
      for (let i = 0; i < bytes.length && !response.destroyed; i++) {
        await push(response, bytes.subarray(i, i + 1))
        await pause(fault.everyMs)
      }
      response.end()
      return
    }
    case 'Twice': {
      const text = raw(answer.statusCode!, endToEnd(flat(answer.headers)), await textOf(answer))
      response.socket?.write(text + text)
      return
    }
    default:
      if (fault?._tag === 'Late') await pause(fault.ms)
      await passOn(answer, head(), Infinity)
      response.end()
  }
}

/** Sends the request on. Undefined if the upstream broke, and the client's connection with it. */
const forward = (
  upstream: string,
  seen: SeenRequest,
  response: ServerResponse,
  onSent: () => void,
): Promise<IncomingMessage | undefined> =>
  new Promise((resolve) => {
    const { method, path, headers, body } = seen
    const broken = (): void => {
      response.socket?.resetAndDestroy()
      resolve(undefined)
    }
    const sent = httpRequest(`${upstream}${path}`, { method, headers: endToEnd(headers), agent: false }, (answer) => {
      answer.on('error', broken)
      resolve(answer)
    })
    sent.on('error', broken)
    sent.on('finish', onSent)
    response.on('close', () => sent.destroy())
    sent.end(body)
  })

/**
 * A proxy before `upstream`, on a port of its own. Close it in the end; what is underway is cut
 * then.
 *
 * @example
 * const proxy = await faultProxy(url, { fault: (_, nth) => (nth < 2 ? { _tag: 'Status', status: 500 } : undefined) })
 */
export const faultProxy = async (upstream: string, options: FaultProxyOptions = {}): Promise<FaultProxy> => {
  let fault = options.fault ?? ((): undefined => undefined)
  let connections = 0
  let isCutting = false
  const requests: SeenRequest[] = []
  const seen: SeenRequest[] = []
  const abandoned: SeenRequest[] = []
  const sockets = new Set<Socket>()

  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const body = await textOf(request)
    const came: SeenRequest = { method: request.method!, path: request.url!, headers: flat(request.headers), body }
    const mine = fault(came, requests.push(came) - 1)
    response.on('close', () => {
      if (!response.writableFinished && !isCutting && !CUTS.has(mine?._tag)) abandoned.push(came)
    })
    if (mine?._tag === 'Status') {
      response.writeHead(mine.status, { ...mine.headers }).end(mine.body ?? '')
      return
    }
    if (mine?._tag === 'Garbage') {
      response.socket?.end(mine.bytes ?? '\u0000\u0001 this is not HTTP \r\n\r\n')
      return
    }
    if (mine?._tag === 'Reset' && mine.upstream === 'spared') {
      response.socket?.resetAndDestroy()
      return
    }
    seen.push(came)
    const killed = mine?._tag === 'Kill' ? mine.kill : undefined
    const answer = await forward(upstream, came, response, () => void killed?.())
    if (answer === undefined) return
    await relay(answer, response, mine)
    if (mine?._tag !== 'Silence') return
    await settle()
    options.onSilence?.()
  }
  const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
    // A client or an upstream that goes away in the middle ends its own exchange alone.
    handle(request, response).catch(() => response.socket?.resetAndDestroy())
  })
  server.on('connection', (socket) => {
    connections++
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => sockets.delete(socket))
  })
  const listen = (port: number): Promise<void> =>
    new Promise((resolve) => server.listen(port, '127.0.0.1', () => resolve()))
  const refuse = (): Promise<void> =>
    new Promise((resolve) => {
      isCutting = true
      for (const socket of sockets) socket.resetAndDestroy()
      if (server.listening) server.close(() => resolve())
      else resolve()
    })
  await listen(0)
  const { port } = server.address() as AddressInfo // a TCP server
  return {
    url: `http://127.0.0.1:${port}`,
    requests,
    seen,
    abandoned,
    connections: () => connections,
    setFault: (next) => {
      fault = next
    },
    refuse,
    accept: () => {
      isCutting = false
      return listen(port)
    },
    close: refuse,
  }
}
