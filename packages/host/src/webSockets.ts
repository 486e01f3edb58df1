/** WebSocket connections of an HTTP server. */
import { type IncomingMessage, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import type { FrameSession, SocketOptions } from '@tandem-rl/base'
import type { WebSocket, WebSocketServer } from 'ws'

/** The open connections. */
interface Sockets {
  /** Accepts or refuses a connection. */
  readonly upgrade: (request: IncomingMessage, socket: Duplex, head: Buffer) => void
  /** Closes connections once their current frame is answered. */
  readonly close: () => void
  /** Aborts current frames and cuts the connections. */
  readonly abort: () => void
}

/** Most frames of a connection that wait for an earlier one. */
const MAX_WAITING = 32

/** Close codes of RFC 6455. */
const [NORMAL, GOING_AWAY, POLICY, INTERNAL] = [1000, 1001, 1008, 1011] as const

/** Writes a response to a connection that speaks no HTTP, or asks to speak another protocol. */
export const respondAndClose = (socket: Duplex, status: number, body: string): void => {
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ]
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy())
}

interface Connection {
  readonly finish: () => void
  readonly cut: () => void
}

/** Limits of one connection. */
type FrameLimits = Required<Pick<SocketOptions, 'idleMs' | 'maxBytes'>>

/**
 * Answers the frames of one connection in order. Frames that wait have at most `maxBytes` together.
 */
const serveFrames = (socket: WebSocket, session: FrameSession, { idleMs, maxBytes }: FrameLimits): Connection => {
  const gone = new AbortController()
  let [waiting, waitingBytes] = [0, 0]
  let isClosing = false
  let tail = Promise.resolve()
  let idle: NodeJS.Timeout | undefined
  const restart = (): void => {
    clearTimeout(idle)
    idle = setTimeout(() => socket.close(POLICY, 'idle'), idleMs)
  }
  const answer = async (text: string): Promise<void> => {
    if (gone.signal.aborted) return
    const reply = await session.receive(text, gone.signal)
    if (reply.text !== undefined && !gone.signal.aborted) socket.send(reply.text)
    waiting--
    waitingBytes -= Buffer.byteLength(text)
    if (reply.connection === 'close') socket.close(NORMAL)
    else if (isClosing && waiting === 0) socket.close(GOING_AWAY)
    else restart()
  }
  socket.on('message', (bytes, isBinary) => {
    const text = isBinary ? '' : String(bytes)
    const size = Buffer.byteLength(text)
    if (isBinary || waiting === MAX_WAITING || (waiting > 0 && waitingBytes + size > maxBytes)) {
      socket.close(POLICY, isBinary ? 'text frames only' : 'too many frames at a time')
      return
    }
    clearTimeout(idle)
    waiting++
    waitingBytes += size
    tail = tail.then(() => answer(text)).catch(() => socket.close(INTERNAL))
  })
  socket.on('error', () => socket.terminate())
  socket.once('close', () => {
    clearTimeout(idle)
    gone.abort()
    void tail.finally(() => session.end())
  })
  restart()
  return {
    finish: () => {
      isClosing = true
      if (waiting === 0) socket.close(GOING_AWAY)
    },
    cut: () => {
      gone.abort()
      socket.terminate()
    },
  }
}

const requestOf = ({ url = '/', headers }: IncomingMessage): Request => {
  const entries = Object.entries(headers).flatMap(([name, value]) =>
    value === undefined ? [] : ([[name, [value].flat().join(', ')]] as const),
  )
  return new Request(new URL(url, `http://${headers.host ?? 'localhost'}`), {
    headers: entries.map(([name, value]) => [name, value]),
  })
}

/** Makes the connections of a server. The package `ws` is loaded with the first one. */
export const liveSockets = ({
  path,
  open,
  maxBytes = 32 * 2 ** 20,
  maxConnections = 4096,
  idleMs = 15 * 60_000,
}: SocketOptions): Sockets => {
  const connections = new Map<Duplex, Connection | null>()
  let isClosing = false
  let server: Promise<WebSocketServer> | undefined
  const loaded = (): Promise<WebSocketServer> => {
    server ??= import('ws').then(
      (ws) => new ws.WebSocketServer({ noServer: true, maxPayload: maxBytes, perMessageDeflate: false }),
    )
    return server
  }
  const accept = async (request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> => {
    const opened = await open(requestOf(request))
    if (opened instanceof Response) return respondAndClose(socket, opened.status, await opened.text())
    const ws = await loaded()
    if (socket.destroyed || isClosing) {
      opened.end()
      return respondAndClose(socket, 503, '{}')
    }
    let isAccepted = false
    ws.handleUpgrade(request, socket, head, (connected) => {
      isAccepted = true
      connections.set(socket, serveFrames(connected, opened, { idleMs, maxBytes }))
    })
    if (!isAccepted) opened.end() // the handshake was invalid, and is answered
  }
  return {
    upgrade: (request, socket, head) => {
      socket.on('error', () => socket.destroy())
      const { pathname } = new URL(request.url ?? '/', 'http://localhost')
      if (pathname !== path) return respondAndClose(socket, 404, '{}')
      if (connections.size >= maxConnections || isClosing) return respondAndClose(socket, 503, '{}')
      connections.set(socket, null)
      socket.once('close', () => connections.delete(socket))
      accept(request, socket, head).catch(() => respondAndClose(socket, 500, '{}'))
    },
    close: () => {
      isClosing = true
      for (const connection of connections.values()) connection?.finish()
    },
    abort: () => {
      for (const [socket, connection] of connections) {
        connection?.cut()
        socket.destroy()
      }
    },
  }
}
