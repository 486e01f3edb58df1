/** A proxy that connects to allowed places only, tested by raw sockets. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import type { GateDestination } from '@tandem-rl/base'
import { afterEach, describe, expect, it } from 'vitest'
import { openSockets } from '../../../test/kit/resources.js'
import { rightOf } from '../../../test/kit/results.js'
import { liveGate } from '../src/gate.js'

const closes: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closes.splice(0).reverse()) await close()
})

const open = async (allows: (to: GateDestination) => boolean) => {
  const before = openSockets()
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (bytes) => {
      body += String(bytes)
    })
    request.on('end', () => response.writeHead(201, { 'x-own': '1' }).end(`${request.method} ${request.url} ${body}`))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo // a server on TCP has an address with a port
  const gate = await rightOf(liveGate(allows))
  closes.push(async () => {
    await gate.close()
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
    await expect.poll(openSockets).toBeLessThanOrEqual(before)
  })
  /** The response to a text, until the gate or the server ends it. */
  const say = (text: string): Promise<string> =>
    new Promise((resolve) => {
      const socket = connect(Number(new URL(gate.url).port), '127.0.0.1', () => socket.write(text))
      let heard = ''
      socket.setEncoding('utf8').on('data', (more: string) => {
        heard += more
      })
      socket.on('error', () => {}).on('close', () => resolve(heard))
    })
  return { origin: `127.0.0.1:${port}`, port, say }
}

const END = 'Host: x\r\nConnection: close\r\n'

describe('liveGate', () => {
  it('passes on requests and tunnels to places that are allowed', async () => {
    const asked: GateDestination[] = []
    const { origin, port, say } = await open((to) => {
      asked.push(to)
      return true
    })
    const posted = await say(`POST http://${origin}/a?b HTTP/1.1\r\n${END}Content-Length: 2\r\n\r\nhi`)
    expect(posted).toMatch(/^HTTP\/1.1 201 [\s\S]*x-own: 1[\s\S]*POST \/a\?b hi/)
    const tunnelled = await say(`CONNECT ${origin} HTTP/1.1\r\n\r\nGET /t HTTP/1.1\r\n${END}\r\n`)
    expect(tunnelled).toMatch(/^HTTP\/1.1 200 Connection established\r\n\r\nHTTP\/1.1 201 [\s\S]*GET \/t/)
    expect(asked).toEqual([
      { scheme: 'http', host: '127.0.0.1', port },
      { scheme: 'any', host: '127.0.0.1', port },
    ])
  })

  it('cuts off all others without a word, and what it does not understand', async () => {
    const { origin, say } = await open(({ port }) => port === 1)
    const lines = [
      ...[
        `GET http://${origin}/`,
        `CONNECT ${origin}`,
        'GET /path',
        'GET https://a.test/',
        'GET http://[',
        'GET ftp://a.test:1/',
      ],
      ...[
        'CONNECT nowhere',
        'CONNECT 127.0.0.1:',
        'CONNECT u@127.0.0.1:1',
        'GET http://127.0.0.1:1/',
        'CONNECT 127.0.0.1:1',
      ],
    ]
    for (const line of lines) expect(await say(`${line} HTTP/1.1\r\n${END}\r\n`), line).toBe('')
  })
})
