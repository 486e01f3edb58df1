/** A network gate: a local proxy that connects only to allowed destinations. */
import { type ClientRequest, createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { connect, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { errorMessage, type GateDestination, type OpenGate } from '@tandem-rl/base'
import * as TE from 'fp-ts/lib/TaskEither.js'

/** Headers that are meant for the proxy, or for one connection. */
const OWN_HEADERS = new Set(['proxy-authorization', 'proxy-connection', 'connection', 'keep-alive', 'upgrade'])

const destinationOf = (url: string): GateDestination | undefined => {
  if (!URL.canParse(url)) return undefined
  const { protocol, hostname, port } = new URL(url)
  return protocol === 'http:' ? { scheme: 'http', host: hostname, port: port === '' ? 80 : Number(port) } : undefined
}

const tunnelOf = (authority: string): GateDestination | undefined => {
  const found = /^(\[[0-9a-f:.]+\]|[a-z0-9.-]+):(\d{1,5})$/i.exec(authority)
  return found === null ? undefined : { scheme: 'any', host: found[1]!.toLowerCase(), port: Number(found[2]) }
}

/**
 * Forwards a request. Any error closes the connection, so that no response of the gate can be
 * mistaken for the server's.
 */
const passOn = (incoming: IncomingMessage, response: ServerResponse): void => {
  const headers = Object.entries(incoming.headers).filter(([name]) => !OWN_HEADERS.has(name))
  const outgoing: ClientRequest = request(
    incoming.url ?? '',
    { method: incoming.method, headers: Object.fromEntries(headers), agent: false },
    (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.rawHeaders)
      answer.pipe(response)
      answer.on('error', () => response.destroy())
    },
  )
  outgoing.on('error', () => response.destroy())
  response.on('close', () => outgoing.destroy())
  incoming.pipe(outgoing)
}

/** Forwards bytes in both directions. */
const tunnel = ({ host, port }: GateDestination, near: Duplex, first: Buffer, opened: Set<Duplex>): void => {
  const far = connect(port, host.replace(/^\[|\]$/g, ''), () => {
    near.write('HTTP/1.1 200 Connection established\r\n\r\n')
    far.write(first)
    near.pipe(far).pipe(near)
  })
  opened.add(far)
  const end = (): void => {
    near.destroy()
    far.destroy()
    opened.delete(far)
  }
  for (const side of [near, far]) side.on('error', end).on('close', end)
}

/**
 * Opens a gate on this computer.
 *
 * Errors   `Left(GateFailure)` if no port is available.
 * Effects  keeps a listening socket and connections open until `close`.
 */
export const liveGate: OpenGate = (allows) =>
  TE.tryCatch(
    () =>
      new Promise((resolve, reject) => {
        const opened = new Set<Duplex>()
        const server = createServer((incoming, response) => {
          const to = destinationOf(incoming.url ?? '')
          if (to !== undefined && allows(to)) passOn(incoming, response)
          else incoming.destroy()
        })
        server.on('connect', ({ url = '' }: IncomingMessage, near, first) => {
          const to = tunnelOf(url)
          if (to !== undefined && allows(to)) tunnel(to, near, first, opened)
          else near.destroy()
        })
        server.on('connection', (socket: Socket) => {
          opened.add(socket)
          socket.on('error', () => socket.destroy()).on('close', () => opened.delete(socket))
        })
        server.once('error', reject)
        server.listen(0, '127.0.0.1', () => {
          const address = server.address()
          const port = typeof address === 'object' && address !== null ? address.port : 0
          resolve({
            url: `http://127.0.0.1:${port}`,
            close: () =>
              new Promise((closed) => {
                server.close(() => closed())
                for (const socket of opened) socket.destroy()
              }),
          })
        })
      }),
    (error) => ({
      _tag: 'GateFailure',
      reason: `a gate to the network cannot be opened: ${errorMessage(error)}`,
    }),
  )
