/** Servers and transports for tests of what lies between them; all are closed after each test. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type HttpEvents, type HttpRequest, keyFromSeed, orThrow, type Transport } from '@tandem-rl/base'
import { liveTransport, type TransportOptions } from '@tandem-rl/host'
import { onTestFinished } from 'vitest'
import { type FaultProxy, type FaultProxyOptions, faultProxy } from './faultProxy.js'

/** A server on this machine. */
export const startServer = async (
  handle: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<string> => {
  const server = createServer(handle)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(
    () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  )
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}` // a TCP server
}

/** A proxy before a server. */
export const startProxy = async (upstream: string, options: FaultProxyOptions = {}): Promise<FaultProxy> => {
  const proxy = await faultProxy(upstream, options)
  onTestFinished(() => proxy.close())
  return proxy
}

/** A transport whose pauses are short. */
export const transportTo = (url: string, options: Partial<TransportOptions> = {}): Transport => {
  const { retry, ...rest } = options
  const transport = liveTransport({ url, key: keyFromSeed(1), retry: { baseMs: 1, capMs: 2, ...retry }, ...rest })
  onTestFinished(() => transport.close())
  return transport
}

export const GET: HttpRequest = { method: 'GET', path: '/thing', repeat: 'safe' }
export const POST: HttpRequest = { method: 'POST', path: '/sample', json: { x: 1 }, repeat: 'fresh' }
export const LOAD: HttpRequest = { method: 'POST', path: '/load', json: { version: 2 }, repeat: 'never' }

export const bodyOf = async (request: IncomingMessage): Promise<string> => {
  let text = ''
  for await (const part of request) text += String(part)
  return text
}

type StreamItem = HttpEvents['events'] extends AsyncIterable<infer T> ? T : never

/** All items of a stream that has to begin. */
export const itemsOf = async (transport: Transport, request: HttpRequest): Promise<readonly StreamItem[]> => {
  const items: StreamItem[] = []
  for await (const item of orThrow(await transport.events(request)()).events) items.push(item)
  return items
}
