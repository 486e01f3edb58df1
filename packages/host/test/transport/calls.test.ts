/**
 * The duties of a call besides the request: it waits for its turn, can be cancelled, keeps secrets,
 * and leaves nothing behind.
 */
import type { HttpRequest } from '@tandem-rl/base'
import { describe, expect, it } from 'vitest'
import { manualTime } from '../../../../test/kit/manualTime.js'
import { bodyOf, GET, itemsOf, POST, startServer, transportTo } from '../../../../test/kit/transports.js'
import { liveTransport } from '../../src/transport/liveTransport.js'

/** A signal that counts who listens to it. */
const countedSignal = (): {
  readonly abort: () => void
  readonly signal: AbortSignal
  readonly listeners: () => number
} => {
  const controller = new AbortController()
  const { signal } = controller
  let listeners = 0
  const add = signal.addEventListener.bind(signal)
  const remove = signal.removeEventListener.bind(signal)
  signal.addEventListener = (...given: Parameters<typeof add>) => {
    listeners++
    add(...given)
  }
  signal.removeEventListener = (...given: Parameters<typeof remove>) => {
    listeners--
    remove(...given)
  }
  return { abort: () => controller.abort(), signal, listeners: () => listeners }
}

/** A server that answers on demand, and counts pending and closed requests. */
const patientServer = async () => {
  const waiting: (() => void)[] = []
  const seen = { requests: 0, closed: 0 }
  const url = await startServer((request, response) => {
    seen.requests++
    response.on('close', () => {
      if (!response.writableFinished) seen.closed++
    })
    if (request.url === '/stream') {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write('data: 1\n\n')
    }
    if (request.url === '/body') response.writeHead(200, { 'content-length': '100' }).write('begun')
    waiting.push(() => response.end('done'))
  })
  return {
    url,
    seen,
    answerAll: () => {
      for (const answer of waiting.splice(0)) answer()
    },
  }
}

describe('a cancelled request', () => {
  it.each(['/headers', '/body'])(
    'closes its connection, so that the server knows: while waiting for %s',
    async (path) => {
      const server = await patientServer()
      const { abort, signal, listeners } = countedSignal()
      const transport = transportTo(server.url)
      const asked = transport.send({ ...GET, path, signal })()
      await expect.poll(() => server.seen.requests).toBe(1)
      abort()
      expect(await asked).toMatchObject({ left: { kind: 'cancelled', acted: 'perhaps', attempts: 1 } })
      await expect.poll(() => server.seen.closed).toBe(1)
      expect(transport.state()).toMatchObject({ inFlight: 0 })
      expect(listeners()).toBe(0)
    },
  )

  it('in the middle of a stream ends it, and closes its connection', async () => {
    const server = await patientServer()
    const { abort, signal, listeners } = countedSignal()
    const transport = transportTo(server.url)
    const stream = await transport.events({ ...GET, path: '/stream', signal })()
    if (stream._tag === 'Left') throw new Error(stream.left.reason)
    const tags: string[] = []
    for await (const item of stream.right.events) {
      tags.push(item._tag === 'HttpFailure' ? item.kind : item.event.data)
      abort()
    }
    expect(tags).toEqual(['1', 'cancelled'])
    await expect.poll(() => server.seen.closed).toBe(1)
    expect([listeners(), transport.state().inFlight]).toEqual([0, 0])
  })

  it('whose reader leaves the stream closes its connection, too', async () => {
    const server = await patientServer()
    const { signal, listeners } = countedSignal()
    const transport = transportTo(server.url)
    const stream = await transport.events({ ...GET, path: '/stream', signal })()
    if (stream._tag === 'Left') throw new Error(stream.left.reason)
    for await (const _ of stream.right.events) break
    await expect.poll(() => server.seen.closed).toBe(1)
    expect([listeners(), transport.state().inFlight]).toEqual([0, 0])
    expect(() => stream.right.events[Symbol.asyncIterator]()).toThrow('can be read once')
  })

  it('in the line leaves it, and was seen by nobody', async () => {
    const server = await patientServer()
    const { abort, signal, listeners } = countedSignal()
    const transport = transportTo(server.url, { connections: 1 })
    const before = transport.send(GET)()
    const asked = transport.send({ ...GET, signal })()
    const behind = transport.send(GET)()
    await expect.poll(() => server.seen.requests).toBe(1)
    expect(transport.state()).toMatchObject({ inFlight: 1, waiting: 2 })
    abort()
    expect(await asked).toMatchObject({ left: { kind: 'cancelled', acted: 'no', attempts: 0 } })
    server.answerAll()
    await before
    await expect.poll(() => server.seen.requests).toBe(2)
    server.answerAll()
    expect(await behind).toMatchObject({ right: { text: 'done' } })
    expect(listeners()).toBe(0)
  })

  it('in the pause before another attempt ends at once', async () => {
    const url = await startServer((_, response) => response.writeHead(503).end())
    const { abort, signal, listeners } = countedSignal()
    const transport = transportTo(url, { retry: { baseMs: 1e6, capMs: 1e6 } })
    const asked = transport.send({ ...GET, signal })()
    await expect.poll(() => transport.state().failures).toBe(1)
    abort()
    expect(await asked).toMatchObject({ left: { kind: 'cancelled', acted: 'perhaps', attempts: 1 } })
    expect(listeners()).toBe(0)
  })

  it('before it began goes nowhere', async () => {
    const server = await patientServer()
    const asked = await transportTo(server.url).send({ ...GET, signal: AbortSignal.abort() })()
    expect(asked).toMatchObject({ left: { kind: 'cancelled', acted: 'no', attempts: 0 } })
    expect(server.seen.requests).toBe(0)
  })
})

describe('a transport', () => {
  it('listens on a signal of many requests once for each, and not afterwards', async () => {
    const url = await startServer((_, response) => response.end('{}'))
    const { signal, listeners } = countedSignal()
    const transport = transportTo(url)
    const asked = Array.from({ length: 300 }, () => transport.send({ ...GET, signal })())
    expect(listeners()).toBe(300)
    await Promise.all(asked)
    expect(listeners()).toBe(0)
  })

  it('has no more requests underway than connections, and answers in the order of asking', async () => {
    let most = 0
    const order: string[] = []
    const held: (() => unknown)[] = []
    const url = await startServer(async (request, response) => {
      order.push(await bodyOf(request))
      most = Math.max(
        most,
        held.push(() => response.end()),
      )
      // Four are answered together, after a while in which a fifth could come.
      if (held.length === 4) setTimeout(() => held.splice(0).forEach((answer) => answer()), 5)
    })
    const transport = transportTo(url, { connections: 4 })
    const asked = Array.from({ length: 60 }, (_, i) => transport.send({ ...POST, json: i })())
    expect((await Promise.all(asked)).every(({ _tag }) => _tag === 'Right')).toBe(true)
    expect(most).toBe(4)
    // Four connections at a time may overtake each other by so much, and no more.
    for (const [place, name] of order.entries()) expect(Math.abs(Number(name) - place)).toBeLessThan(4)
  })

  it('refuses more than may wait', async () => {
    const server = await patientServer()
    const transport = transportTo(server.url, { connections: 1, waiting: 2 })
    const asked = Array.from({ length: 4 }, () => transport.send(GET)())
    expect(await asked[3]).toMatchObject({ left: { kind: 'overloaded', acted: 'no', attempts: 0 } })
    await transport.close()
    for (const each of asked.slice(0, 3)) expect(await each).toMatchObject({ left: { kind: 'closed' } })
  })

  it('that is closed ends what is underway, and takes no more', async () => {
    const server = await patientServer()
    const transport = transportTo(server.url)
    const whole = transport.send(GET)()
    const items = itemsOf(transport, { ...GET, path: '/stream' })
    await expect.poll(() => server.seen.requests).toBe(2)
    await transport.close()
    expect(await whole).toMatchObject({ left: { kind: 'closed', acted: 'perhaps' } })
    expect((await items).at(-1)).toMatchObject({ kind: 'closed' })
    expect(await transport.send(GET)()).toMatchObject({ left: { kind: 'closed', acted: 'no', attempts: 0 } })
    await expect.poll(() => server.seen.closed).toBe(2)
  })

  it('holds a rate of requests and of tokens', async () => {
    let seen = 0
    const url = await startServer((_, response) => response.end(String(seen++)))
    const timing = manualTime()
    const transport = transportTo(url, { timing, rate: { requestsPerMinute: 5, tokensPerMinute: 100 } })
    const ask = (tokens: number) => transport.send({ ...GET, tokens, deadlineMs: 500 })()
    const asked = [60, 30, 20, 0].map(ask)
    await Promise.all(asked.slice(0, 2))
    timing.pass(500)
    const results = await Promise.all(asked)
    // The third does not fit into this minute, and the fourth does not overtake it.
    expect(results.map((each) => (each._tag === 'Left' ? each.left.kind : 'well'))).toEqual([
      'well',
      'well',
      'timeout',
      'timeout',
    ])
    expect(await ask(101)).toMatchObject({ left: { kind: 'overloaded', reason: expect.stringContaining('a minute') } })
    expect(seen).toBe(2)
  })

  it('slows the server down when the reader stops', async () => {
    let sent = 0
    const url = await startServer((_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      const event = `data: ${'x'.repeat(10_000)}\n\n`
      const more = (): void => {
        while (!response.destroyed && response.write(event)) sent++
        sent++
      }
      response.on('drain', more)
      more()
    })
    const transport = transportTo(url)
    const stream = await transport.events(GET)()
    if (stream._tag === 'Left') throw new Error(stream.left.reason)
    let before = -1
    // No more can be sent than the buffers of both sockets hold.
    await expect
      .poll(
        () => {
          const isStill = sent === before
          before = sent
          return isStill
        },
        { interval: 200 },
      )
      .toBe(true)
    const held = sent
    expect(held).toBeLessThan(5000)
    let read = 0
    for await (const _ of stream.right.events) if (++read > 2 * held) break
    expect(sent).toBeGreaterThan(held)
  })
})

describe('secrets', () => {
  it('are in no failure: neither those of the address, nor of headers, nor those that the server repeats', async () => {
    const url = await startServer((request, response) => response.writeHead(401).end(JSON.stringify(request.headers)))
    const planted = ['pa55word', 'planted-key-1', 'planted-own-2', 'planted-3']
    const transport = transportTo(url.replace('//', '//ann:pa55word@'), {
      headers: { 'X-Api-Key': 'planted-key-1' },
      secrets: ['planted-3'],
      retry: { attempts: 1 },
    })
    const request: HttpRequest = {
      ...GET,
      path: '/x?key=planted-3',
      headers: { Authorization: 'Bearer planted-own-2' },
    }
    const failed = [await transport.send(request)(), await transport.send({ ...request, headers: {} })()]
    const basic = Buffer.from('ann:pa55word').toString('base64')
    for (const secret of [...planted, basic]) expect(JSON.stringify(failed)).not.toContain(secret)
    expect(failed).toMatchObject([{ left: { status: 401, server: url } }, { left: { status: 401 } }])
    expect(JSON.stringify(failed[1])).toContain('***')
  })

  it('are in no complaint about options', () => {
    const bad = (url: string) => (): unknown =>
      liveTransport({
        url,
        headers: { 'x-api-key': 'a\npa55word', 'a b': 'c' },
        connections: 0,
        retry: { attempts: 1.5 },
      })
    const places = [
      ['ftp://ann:pa55word@host', 'ftp'],
      ['http://bob:pa55word@host?x', 'query'],
      ['nonsense', 'nonsense'],
    ] as const
    for (const [url, word] of places) {
      expect(bad(url)).toThrow(TypeError)
      expect(bad(url)).toThrow(new RegExp(`${word}.*x-api-key.*connections.*attempts`, 's'))
      expect(bad(url)).not.toThrow(/pa55word/)
    }
  })
})

describe('a wrong call', () => {
  it('is refused before it is sent, with its reasons, and leaves no place taken', async () => {
    const url = await startServer((_, response) => response.end())
    const transport = transportTo(url)
    await expect(transport.send({ ...GET, path: 'x y', headers: { 'x-a': 'b\nc' } })()).rejects.toThrow(/path.*x-a/)
    await expect(transport.send({ ...POST, json: { count: 1n } })()).rejects.toThrow('BigInt')
    expect(transport.state()).toMatchObject({ inFlight: 0, waiting: 0 })
  })
})
