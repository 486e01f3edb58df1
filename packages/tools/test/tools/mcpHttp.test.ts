/** Tools of real MCP servers over Streamable HTTP and in memory. */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import * as E from 'fp-ts/lib/Either.js'
import { afterEach, describe, expect, it } from 'vitest'
import { closesTools, openTools, refusalOf } from '../../../../test/kit/mcp.js'
import { makeMcpServer } from '../../../../test/kit/mcpServer.mjs'
import { openSockets } from '../../../../test/kit/resources.js'

closesTools()
const servers = new Set<Server>()
const stop = async (server: Server): Promise<void> => {
  servers.delete(server)
  server.closeAllConnections()
  server.close()
  await once(server, 'close')
}
afterEach(async () => {
  await Promise.all([...servers].map(stop))
})

const listen = async (listener: RequestListener, port = 0) => {
  const server = createServer(listener).listen(port, '127.0.0.1')
  await once(server, 'listening')
  servers.add(server)
  const { port: taken } = server.address() as AddressInfo // a server on TCP has an address with a port
  return { server, port: taken, url: `http://127.0.0.1:${taken}/mcp` }
}

/** A listener with a server of the SDK for each session. `json`: answers in one piece, not as events. */
const sdkListener = (answers: 'events' | 'json' = 'events') => {
  const calls: Record<string, number> = {}
  const headers: (string | undefined)[] = []
  const sessions = new Map<string, StreamableHTTPServerTransport>()
  const listener: RequestListener = (request, response) => {
    headers.push(request.headers.authorization)
    const known = sessions.get(String(request.headers['mcp-session-id']))
    if (known !== undefined) {
      void known.handleRequest(request, response)
      return
    }
    if (request.headers['mcp-session-id'] !== undefined) {
      response.writeHead(404).end()
      return
    }
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      enableJsonResponse: answers === 'json',
      onsessioninitialized: (id) => void sessions.set(id, transport),
      onsessionclosed: (id) => void sessions.delete(id),
    })
    const server = makeMcpServer({ calls, die: () => request.socket.destroy() })
    // The SDK's own transport does not fit its own type with exact optional properties.
    void server.connect(transport as Transport).then(() => transport.handleRequest(request, response))
  }
  return { listener, calls, headers, sessions }
}

const http = (url: string, headers: Readonly<Record<string, string>> = {}) => ({ kind: 'http', url, headers }) as const

describe('tools of a server at an address', () => {
  it.each(['events', 'json'] as const)(
    'answer in %s, with the headers of the user, and end their session',
    async (answers) => {
      const { listener, headers, sessions } = sdkListener(answers)
      const { url } = await listen(listener)
      const tools = await openTools({ servers: { far: http(url, { authorization: 'Bearer abcdef123' }) } })
      expect(await tools.call('far.add', { a: 1, b: 2 })).toMatchObject(E.right({ content: '3' }))
      expect(await tools.call('far.fail')).toMatchObject(E.left({ kind: 'failed', reason: 'no such customer' }))
      expect(new Set(headers)).toEqual(new Set(['Bearer abcdef123']))
      expect(sessions.size).toBe(1)
      await tools.close()
      expect(sessions.size).toBe(0)
    },
  )

  it('are called off, and the connection of the call is not kept', async () => {
    const { listener, calls } = sdkListener()
    const { url, server } = await listen(listener)
    const { call } = await openTools({ servers: { far: http(url) } })
    const mine = new AbortController()
    const given = Promise.all(Array.from({ length: 4 }, () => call('far.sleep', {}, mine.signal)))
    await expect.poll(() => calls.sleep).toBe(4)
    mine.abort()
    for (const each of await given) expect(each).toMatchObject(E.left({ kind: 'timeout' }))
    await expect.poll(() => calls.cancelled).toBe(4)
    await expect.poll(() => new Promise((go) => server.getConnections((_, n) => go(n)))).toBeLessThan(4)
  })

  it('work again after the server was away: a new session, and the call as if nothing had been', async () => {
    const first = sdkListener()
    const { url, server, port } = await listen(first.listener)
    const { call, connects } = await openTools({ servers: { far: http(url) }, limits: { pauseMs: 1, attempts: 2 } })
    await stop(server)
    expect(await call('far.echo', { text: 'a' })).toMatchObject(
      E.left({ kind: 'infrastructure', reason: expect.stringContaining('ECONNREFUSED') }),
    )
    await listen(sdkListener().listener, port)
    expect(await call('far.echo', { text: 'b' })).toMatchObject(E.right({ content: 'b' }))
    expect(connects().far).toBeGreaterThan(1)
  })

  it('work again after the server forgot the session', async () => {
    const { listener, sessions } = sdkListener()
    const { url } = await listen(listener)
    const { call, connects } = await openTools({ servers: { far: http(url) } })
    sessions.clear()
    expect(await call('far.echo', { text: 'c' })).toMatchObject(E.right({ content: 'c' }))
    expect(connects()).toEqual({ far: 2 })
  })

  it('leave no socket behind', async () => {
    const { url } = await listen(sdkListener().listener)
    const before = openSockets()
    const tools = await openTools({ servers: { far: http(url) } })
    await Promise.all(Array.from({ length: 20 }, (_, a) => tools.call('far.add', { a, b: 1 })))
    expect(openSockets()).toBeGreaterThan(before)
    await tools.close()
    await expect.poll(openSockets).toBeLessThanOrEqual(before)
  })
})

/** A server that greets and lists well, and answers calls in some other way. */
const badAtCalls = (answer: (id: number, response: Parameters<RequestListener>[1]) => void): RequestListener => {
  const tools = [{ name: 'do', inputSchema: { type: 'object' } }]
  return (request, response) => {
    let body = ''
    request.on('data', (bytes) => {
      body += String(bytes)
    })
    request.on('end', () => {
      if (request.method !== 'POST') return void response.writeHead(405).end()
      const { id, method, params } = JSON.parse(body) as {
        readonly id: number
        readonly method: string
        readonly params: { readonly protocolVersion: string }
      }
      const say = (result: unknown): unknown =>
        response
          .writeHead(200, { 'content-type': 'application/json' })
          .end(JSON.stringify({ jsonrpc: '2.0', id, result }))
      const { protocolVersion } = params ?? {}
      if (method === 'initialize')
        say({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'liar', version: '1' } })
      else if (method === 'tools/list') say({ tools })
      else if (method === 'tools/call') answer(id, response)
      else response.writeHead(202).end()
    })
  }
}

const EVENTS = { 'content-type': 'text/event-stream' }

describe('a server at an address that lies', () => {
  it.each<readonly [string, string, RegExp, Parameters<typeof badAtCalls>[0]]>([
    [
      'ends its stream without a result',
      'infrastructure',
      /without a result/,
      (_, response) => response.writeHead(200, EVENTS).end(': bye\n\n'),
    ],
    [
      'breaks off',
      'infrastructure',
      /without a result/,
      (_, response) => response.writeHead(200, EVENTS).write(': hm\n\n', () => response.destroy()),
    ],
    [
      'answers an event that never ends',
      'infrastructure',
      /without a result/,
      (_, response) => response.writeHead(200, EVENTS).write(`data: ${'x'.repeat(20_000)}`),
    ],
    [
      'answers what is no JSON',
      'infrastructure',
      /JSON/,
      (_, response) => response.writeHead(200, { 'content-type': 'application/json' }).end('{'),
    ],
    [
      'answers too much',
      'infrastructure',
      /more than 10000 bytes/,
      (_, response) => response.writeHead(200, { 'content-type': 'application/json' }).end(`"${'x'.repeat(20_000)}"`),
    ],
    [
      'answers a page',
      'infrastructure',
      /content type/,
      (_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<p>'),
    ],
    [
      'answers 500 with the key',
      'infrastructure',
      /no good: \*\*\*/,
      (_, response) => response.writeHead(500).end('no good: key-123456'),
    ],
    ['answers nothing', 'timeout', /no answer within/, () => {}],
    [
      'sends elsewhere',
      'infrastructure',
      /redirect/i,
      (_, response) => response.writeHead(307, { location: 'http://127.0.0.2:1/' }).end(),
    ],
  ])('and %s fails the call as %s', async (_, kind, reason, answer) => {
    const { url } = await listen(badAtCalls(answer))
    const { call } = await openTools({
      servers: { far: http(url, { 'x-api-key': 'key-123456' }) },
      limits: { maxBytes: 10_000, graceMs: 100, ...(kind === 'timeout' && { callMs: 200 }) },
    })
    expect(await call('far.do')).toMatchObject(E.left({ kind, reason: expect.stringMatching(reason) }))
  })

  it('refuses the user without showing the key', async () => {
    const { url } = await listen((_, response) => response.writeHead(401).end('not with Bearer key-123456'))
    const refusal = await refusalOf({ servers: { far: http(url, { authorization: 'Bearer key-123456' }) } })
    expect(refusal).toMatchObject({ kind: 'protocol', reason: expect.stringMatching(/not with \*\*\*$/) })
  })
})

describe('tools of a server in this process', () => {
  it('are called over a transport of the user, and connected to again', async () => {
    const ends: Transport[] = []
    const open = async () => {
      const [ours, theirs] = InMemoryTransport.createLinkedPair()
      ends.push(theirs)
      await makeMcpServer({ die: () => theirs.close() }).connect(theirs)
      return ours
    }
    const { call, connects } = await openTools({ servers: { near: { kind: 'transport', open } } })
    expect(await call('near.add', { a: 1, b: 2 })).toMatchObject(E.right({ content: '3' }))
    await ends[0]?.close()
    expect(await call('near.add', { a: 1, b: 3 })).toMatchObject(E.right({ content: '4' }))
    expect(connects()).toEqual({ near: 2 })
  })
})
