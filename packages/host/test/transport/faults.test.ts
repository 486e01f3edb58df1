/**
 * Every fault of a connection: what the caller gets, how often the server saw the request, and that
 * it ends.
 */
import { describe, expect, it } from 'vitest'
import type { Fault, FaultProxy, FaultProxyOptions } from '../../../../test/kit/faultProxy.js'
import { manualTime } from '../../../../test/kit/manualTime.js'
import { GET, itemsOf, LOAD, POST, startProxy, startServer, transportTo } from '../../../../test/kit/transports.js'

const ANSWER = JSON.stringify({ ids: [1, 2, 3], text: 'abc' })
const EVENTS = 'data: {"n":1}\n\ndata: {"n":2}\n\ndata: [DONE]\n\n'

const spoiled = async (
  fault: NonNullable<FaultProxyOptions['fault']>,
  rest: Omit<FaultProxyOptions, 'fault'> = {},
): Promise<FaultProxy> => {
  const url = await startServer((request, response) => {
    if (request.url === '/events') response.writeHead(200, { 'content-type': 'text/event-stream' }).end(EVENTS)
    else response.writeHead(200, { 'content-type': 'application/json' }).end(ANSWER)
  })
  return startProxy(url, { fault, ...rest })
}

/** A fault of the first requests; then all is well. */
const first =
  (count: number, fault: Fault): NonNullable<FaultProxyOptions['fault']> =>
  (_, nth) =>
    nth < count ? fault : undefined

const always = (fault: Fault): NonNullable<FaultProxyOptions['fault']> => first(Infinity, fault)

const RESET: Fault = { _tag: 'Reset', upstream: 'sees' }
const WELL = { right: { status: 200, text: ANSWER } }

describe('a connection that is refused', () => {
  it.each([GET, POST, LOAD])(
    'is tried again for every kind of request, for nobody has seen it: %j',
    async (request) => {
      const proxy = await spoiled(() => undefined)
      await proxy.refuse()
      const result = await transportTo(proxy.url).send(request)()
      expect(result).toMatchObject({ left: { kind: 'unreachable', acted: 'no', attempts: 4, server: proxy.url } })
      expect(proxy.seen).toEqual([])
    },
  )

  it('is well again when the server is', async () => {
    const proxy = await spoiled(() => undefined)
    await proxy.refuse()
    const asked = transportTo(proxy.url, { retry: { baseMs: 200, capMs: 1000, attempts: 20 } }).send(LOAD)()
    await proxy.accept()
    expect(await asked).toMatchObject(WELL)
    expect(proxy.seen).toHaveLength(1)
  })
})

describe('a reset before the first byte', () => {
  it('is tried again for what may be repeated, and told of what may not', async () => {
    const proxy = await spoiled(first(2, RESET))
    const transport = transportTo(proxy.url)
    expect(await transport.send(POST)()).toMatchObject({ right: { text: ANSWER, attempts: 3 } })
    expect(proxy.seen).toHaveLength(3)
    proxy.setFault(always(RESET))
    expect(await transport.send(LOAD)()).toMatchObject({ left: { kind: 'reset', acted: 'perhaps', attempts: 1 } })
    expect(proxy.seen).toHaveLength(4)
  })

  it('of a connection that was idle is repaired at once, without a pause and without the budget', async () => {
    // Every second request meets a connection that the server gives up.
    const proxy = await spoiled((_, nth) => (nth % 2 === 1 ? { _tag: 'Reset', upstream: 'spared' } : undefined))
    const transport = transportTo(proxy.url, { retry: { baseMs: 1e9, capMs: 1e9, share: 0, floor: 0 } })
    for (let i = 0; i < 3; i++) expect(await transport.send(GET)()).toMatchObject(WELL)
    expect(transport.state()).toMatchObject({ requests: 3, attempts: 5, circuit: 'closed' })
  })
})

describe('an answer that breaks off', () => {
  it.each(['reset', 'end'] as const)('is tried again, and never taken for the whole: %s', async (how) => {
    const proxy = await spoiled(first(1, { _tag: 'Cut', afterBytes: 9, how }))
    expect(await transportTo(proxy.url).send(POST)()).toMatchObject({ right: { text: ANSWER, attempts: 2 } })
    proxy.setFault(always({ _tag: 'Cut', afterBytes: 9, how }))
    const lost = await transportTo(proxy.url).send(LOAD)()
    expect(lost).toMatchObject({ left: { acted: 'perhaps', attempts: 1 } })
    expect(proxy.seen).toHaveLength(3)
  })

  it('as proper HTTP is an answer: its JSON is the business of who reads it', async () => {
    const proxy = await spoiled(always({ _tag: 'Short', bytes: 9 }))
    expect(await transportTo(proxy.url).send(POST)()).toMatchObject({ right: { text: ANSWER.slice(0, 9) } })
  })
})

describe('a server that is slow', () => {
  it('to death ends with the deadline, and is told of it by a closed connection', async () => {
    const timing = manualTime()
    const proxy = await spoiled(always({ _tag: 'Silence' }), { onSilence: () => timing.pass(100) })
    const transport = transportTo(proxy.url, { timing })
    const result = await transport.send({ ...POST, deadlineMs: 100 })()
    expect(result).toMatchObject({ left: { kind: 'timeout', acted: 'perhaps', attempts: 1 } })
    expect(transport.state()).toMatchObject({ inFlight: 0, waiting: 0 })
    await expect.poll(() => proxy.abandoned.length).toBe(1)
  })

  it('byte by byte ends with the deadline, too, though it is never silent', async () => {
    const proxy = await spoiled(always({ _tag: 'Drip', everyMs: 50 }))
    const result = await transportTo(proxy.url, { idleMs: 60_000 }).send({ ...POST, deadlineMs: 200 })()
    expect(result).toMatchObject({ left: { kind: 'timeout' } })
  })

  it('byte by byte is heard to the end if there is time', async () => {
    const proxy = await spoiled(always({ _tag: 'Drip', everyMs: 1 }))
    expect(await transportTo(proxy.url).send(POST)()).toMatchObject({ right: { text: ANSWER, attempts: 1 } })
  })

  it('in the middle of an answer is given up after `silenceMs`, and asked again', async () => {
    const timing = manualTime()
    const proxy = await spoiled(first(1, { _tag: 'Silence', afterBytes: 5 }), { onSilence: () => timing.pass(150) })
    const transport = transportTo(proxy.url, { idleMs: 150, timing })
    expect(await transport.send(POST)()).toMatchObject({ right: { text: ANSWER, attempts: 2 } })
    await expect.poll(() => proxy.abandoned.length).toBe(1)
  })
})

describe('a server that is too busy', () => {
  const busy = (after: string): Fault => ({ _tag: 'Status', status: 429, headers: { 'retry-after': after } })

  it('is retried after its Retry-After time', async () => {
    const timing = manualTime()
    const proxy = await spoiled(first(1, busy('1')))
    const asked = transportTo(proxy.url, { timing }).send({ ...POST, deadlineMs: 5000 })()
    await expect.poll(timing.waits).toHaveLength(2) // for the deadline, and for what the server says
    const [, wait] = timing.waits()
    expect(wait).toBeGreaterThanOrEqual(1000)
    expect(wait).toBeLessThanOrEqual(1002)
    timing.pass(wait!)
    expect(await asked).toMatchObject({ right: { attempts: 2 } })
  })

  it('is not waited for if that is later than the deadline, as seconds or as a date', async () => {
    const date = new Date(Date.now() + 3_600_000).toUTCString()
    for (const after of ['3600', date]) {
      const proxy = await spoiled(always(busy(after)))
      const result = await transportTo(proxy.url).send({ ...POST, deadlineMs: 60_000 })()
      expect(result).toMatchObject({ left: { kind: 'status', status: 429, acted: 'no', attempts: 1 } })
      expect(result).toMatchObject({
        left: { reason: expect.stringMatching(/a wait of \d+ ms, and \d+ ms are left/) },
      })
    }
  })
})

describe('a burst of errors', () => {
  it('passes for a request that has attempts left', async () => {
    const proxy = await spoiled(first(3, { _tag: 'Status', status: 500, body: 'out of memory' }))
    expect(await transportTo(proxy.url).send(POST)()).toMatchObject({ right: { attempts: 4 } })
  })

  it('is not multiplied: the budget of all requests bounds the retries', async () => {
    const proxy = await spoiled(always({ _tag: 'Status', status: 500 }))
    const transport = transportTo(proxy.url, { retry: { share: 0.2, floor: 5 }, circuit: { failures: 1e6 } })
    const results = await Promise.all(Array.from({ length: 100 }, () => transport.send(POST)()))
    expect(results.every((result) => result._tag === 'Left' && result.left.kind === 'status')).toBe(true)
    // A fifth of the requests, the floor, and what a floor of 5 in a minute adds while they run.
    expect(proxy.requests.length).toBeGreaterThan(100)
    expect(proxy.requests.length).toBeLessThanOrEqual(100 + 20 + 5 + 5)
  })

  it('makes the transport leave the server alone, and try it again with one request', async () => {
    const proxy = await spoiled(always({ _tag: 'Status', status: 500 }))
    const timing = manualTime()
    const transport = transportTo(proxy.url, { timing, retry: { attempts: 1 }, circuit: { failures: 3, coolMs: 300 } })
    for (let i = 0; i < 3; i++) await transport.send(POST)()
    expect(transport.state()).toMatchObject({ circuit: 'open' })
    expect(await transport.send(POST)()).toMatchObject({ left: { kind: 'open-circuit', acted: 'no', attempts: 0 } })
    expect(proxy.requests).toHaveLength(3)
    proxy.setFault(() => undefined)
    timing.pass(300)
    expect(transport.state()).toMatchObject({ circuit: 'half-open' })
    expect(await transport.send(POST)()).toMatchObject(WELL)
    expect(transport.state()).toMatchObject({ circuit: 'closed' })
  })
})

describe('bytes that mean nothing', () => {
  it('are a malformed answer, tried again where that may be', async () => {
    const proxy = await spoiled(first(1, { _tag: 'Garbage' }))
    const transport = transportTo(proxy.url)
    expect(await transport.send(POST)()).toMatchObject({ right: { attempts: 2 } })
    proxy.setFault(always({ _tag: 'Garbage' }))
    expect(await transport.send(LOAD)()).toMatchObject({ left: { kind: 'malformed', attempts: 1 } })
  })

  it('that are not UTF-8 are, too', async () => {
    const url = await startServer((_, response) => response.end(Buffer.from([0x22, 0xff, 0x22])))
    expect(await transportTo(url, { retry: { attempts: 1 } }).send(POST)()).toMatchObject({
      left: { kind: 'malformed' },
    })
  })

  it('in front of the answer of another request never become that answer', async () => {
    const url = await startServer((request, response) => response.end(request.url))
    const proxy = await startProxy(url, { fault: (_, nth) => (nth % 2 === 0 ? { _tag: 'Twice' } : undefined) })
    const transport = transportTo(proxy.url, { connections: 1 })
    for (let i = 0; i < 20; i++) {
      const path = `/${i}`
      expect(await transport.send({ ...GET, path })()).toMatchObject({ right: { text: path } })
    }
  })

  it('beyond the limit are not read', async () => {
    const url = await startServer((_, response) => {
      const more = (): void => {
        if (!response.destroyed) response.write('x'.repeat(65_536), () => setImmediate(more))
      }
      more()
    })
    const result = await transportTo(url, { maxBytes: 200_000 }).send(POST)()
    expect(result).toMatchObject({ left: { kind: 'too-large', attempts: 1 } })
  })
})

describe('a stream of events', () => {
  const asked = { ...POST, path: '/events' }
  const tags = (items: readonly { readonly _tag: string; readonly kind?: string }[]): readonly string[] =>
    items.map((item) => item.kind ?? item._tag)

  it('is begun again until it begins, and not afterwards', async () => {
    const proxy = await spoiled(first(2, { _tag: 'Status', status: 503 }))
    expect(tags(await itemsOf(transportTo(proxy.url), asked))).toEqual(['Event', 'Event', 'Event'])
    expect(proxy.requests).toHaveLength(3)
  })

  it.each([
    ['reset', { _tag: 'Cut', afterBytes: 20, how: 'reset' }, ['Event', 'reset']],
    ['closed', { _tag: 'Cut', afterBytes: 20, how: 'end' }, ['Event', 'reset']],
    ['ended in the middle of an event', { _tag: 'Short', bytes: 18 }, ['Event', 'malformed']],
    ['ended within data', { _tag: 'Short', bytes: 25 }, ['Event', 'Unfinished', 'malformed']],
    ['ended before the blank line of an event', { _tag: 'Short', bytes: 29 }, ['Event', 'Unfinished', 'malformed']],
    [
      'no stream of events any more',
      { _tag: 'Rewrite', text: () => 'data: {"n":1}\n\n{"error": "no"}\n' },
      ['Event', 'malformed'],
    ],
  ] as const)('that is %s ends with the failure', async (_, fault, expected) => {
    const proxy = await spoiled(always(fault))
    const items = await itemsOf(transportTo(proxy.url), asked)
    expect(tags(items)).toEqual(expected)
    expect(items.at(-1)).toMatchObject({ acted: 'perhaps', attempts: 1, path: '/events' })
    expect(proxy.seen).toHaveLength(1)
  })

  it('that is not UTF-8 is reported, and one that is cut within a letter is read well', async () => {
    const bytes = Buffer.from('data: grün\n\n')
    const url = await startServer((request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write(bytes.subarray(0, 9))
      const rest = request.url === '/bad' ? Buffer.from([0x20]) : bytes.subarray(9)
      setTimeout(() => response.end(rest), 20)
    })
    expect(await itemsOf(transportTo(url), POST)).toMatchObject([{ event: { data: 'grün' } }])
    expect(tags(await itemsOf(transportTo(url), { ...POST, path: '/bad' }))).toEqual(['malformed'])
  })

  it('with fields that the standard does not have is read without them, and other text is malformed', async () => {
    const url = await startServer((request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.end(request.url === '/bad' ? 'upstream error\n\n' : 'trace-id: 7\nx_cost: {"a": 1}\ndata: 1\n\n')
    })
    expect(await itemsOf(transportTo(url), POST)).toMatchObject([{ event: { data: '1' } }])
    expect(tags(await itemsOf(transportTo(url), { ...POST, path: '/bad' }))).toEqual(['malformed'])
  })

  it('with an event beyond the limit is reported', async () => {
    const url = await startServer((_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.end(`data: 1\n\ndata: ${'x'.repeat(100_000)}`)
    })
    expect(tags(await itemsOf(transportTo(url, { maxBytes: 10_000 }), POST))).toEqual(['Event', 'too-large'])
  })

  it('fails after one request if the server answers with something else', async () => {
    const url = await startServer((_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<p>'))
    const transport = transportTo(url)
    expect(await transport.events(POST)()).toMatchObject({ left: { kind: 'malformed', attempts: 1 } })
    expect(transport.state()).toMatchObject({ inFlight: 0 })
  })

  it('is one event if the server answers with JSON, and a failure if its connection breaks', async () => {
    const url = await startServer((request, response) => {
      response.writeHead(200, { 'content-type': 'application/problem+json; charset=utf-8' })
      response.write('{"n":')
      if (request.url === '/broken') response.destroy()
      else response.end('1}')
    })
    const transport = transportTo(url)
    expect(await itemsOf(transport, POST)).toEqual([{ _tag: 'Event', event: { data: '{"n":1}' } }])
    const broken = await transport.events({ ...POST, repeat: 'never', path: '/broken' })()
    expect(broken).toMatchObject({ left: { kind: 'reset', attempts: 1 } })
    expect(transport.state()).toMatchObject({ inFlight: 0 })
  })

  it('has events after line ends of every kind, in pieces of every size', async () => {
    let [text, size] = ['', 1]
    const url = await startServer(async (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      for (let i = 0; i < text.length; i += size)
        await new Promise((resolve) => response.write(text.slice(i, i + size), resolve))
      response.end()
    })
    const transport = transportTo(url)
    for (const lineEnd of ['\n', '\r\n', '\r'])
      for (size of [1, 2, 7, 100]) {
        text = ['event: a', 'data: 1', 'data: 2', '', 'data: 3', '', ''].join(lineEnd)
        expect(await itemsOf(transport, POST)).toEqual([
          { _tag: 'Event', event: { event: 'a', data: '1\n2' } },
          { _tag: 'Event', event: { data: '3' } },
        ])
      }
  })

  it('that brings signs of life and no event is silent', async () => {
    const timing = manualTime()
    let beats = 0
    const url = await startServer((_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.write('data: 1\n\n')
      const beat = setInterval(() => {
        response.write(': ping\n\n')
        if (++beats > 3) timing.pass(40)
      }, 5)
      response.once('close', () => clearInterval(beat))
    })
    const transport = transportTo(url, { idleMs: 100, timing })
    expect(tags(await itemsOf(transport, asked))).toEqual(['Event', 'timeout'])
  })

  it('that falls silent ends with its deadline', async () => {
    const timing = manualTime()
    const proxy = await spoiled(always({ _tag: 'Silence', afterBytes: 16 }), { onSilence: () => timing.pass(300) })
    const transport = transportTo(proxy.url, { timing })
    expect(tags(await itemsOf(transport, { ...asked, deadlineMs: 300 }))).toEqual(['Event', 'timeout'])
    await expect.poll(() => proxy.abandoned.length).toBe(1)
  })
})
