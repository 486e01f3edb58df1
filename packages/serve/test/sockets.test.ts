/**
 * Servers on real sockets: many clients, clients that go away, clients that speak no HTTP, and the
 * end.
 */
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { liveHttpServer } from '@tandem-rl/host'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { checkCrowd, stream } from '../../../test/kit/crowd.js'
import { leftOf } from '../../../test/kit/results.js'
import { saying, scripted, served, until, useServers } from '../../../test/kit/served.js'

const listen = useServers()

describe('many clients', () => {
  it('are served at once, and those that drop leave nothing behind', async () => {
    const engine = scripted({ maxConcurrent: 16, beforeToken: () => new Promise((resolve) => setImmediate(resolve)) })
    await checkCrowd({ engine, app: served(engine), listen })
  })
})

describe('a client that goes away', () => {
  it.each(['whole', 'stream'])('before its answer (%s) ends its request', async (way) => {
    const engine = saying('abc', { beforeToken: (_, t) => (t === 1 ? new Promise(() => {}) : undefined) })
    const app = served(engine)
    const control = new AbortController()
    const { url } = await listen(app)
    const asked = stream(url, { stream: way === 'stream' }, control.signal).then((response) => response.text())
    await until(() => engine.running() === 1)
    control.abort()
    await expect(asked).rejects.toThrow()
    await until(() => engine.running() === 0 && app.inFlight() === 0)
  })

  it('while its request waits for a slot leaves the queue', async () => {
    const engine = saying('abc', {
      maxConcurrent: 1,
      beforeToken: (_, t) => (t === 1 ? new Promise(() => {}) : undefined),
    })
    const app = served(engine)
    const { url } = await listen(app)
    const [first, second] = [new AbortController(), new AbortController()]
    const asked = [stream(url, {}, first.signal), stream(url, {}, second.signal)]
    const ended = Promise.allSettled(asked.map(async (response) => (await response).text()))
    await until(() => engine.waiting() === 1)
    second.abort()
    await until(() => app.inFlight() === 1)
    first.abort()
    await until(() => engine.running() === 0)
    await ended
  })
})

/**
 * Sends bytes as they are and reads until the server closes, or until `enough` of the answer is
 * there.
 */
const raw = (
  port: number,
  parts: readonly (string | Uint8Array)[],
  { half = false, pauseMs = 0 } = {},
): Promise<string> =>
  new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    let answer = ''
    socket.setEncoding('latin1').on('data', (text: string) => {
      answer += text
    })
    socket.on('error', (error: NodeJS.ErrnoException) =>
      error.code === 'ECONNRESET' || error.code === 'EPIPE' ? resolve(answer) : reject(error),
    )
    socket.on('end', () => {
      socket.end()
      resolve(answer)
    })
    void (async () => {
      for (const part of parts) {
        socket.write(part)
        if (pauseMs > 0) await sleep(pauseMs)
      }
      if (half) socket.end()
    })()
  })

const head = (length: number, more = ''): string =>
  `POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: ${length}\r\n${more}\r\n`

const statusOf = (answer: string): number => Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1] ?? 0)

describe('bytes that are no request', () => {
  const engine = saying('abc')
  const app = served(engine)

  it('are refused in the form of vLLM, and the server keeps running', async () => {
    const { port, url } = await listen(app)
    const body = '{"prompt": "a"}'
    const answers = await Promise.all([
      raw(port, ['hello\r\n\r\n']),
      raw(port, [`GET / HTTP/1.1\r\nhost: localhost\r\nx: ${'y'.repeat(20_000)}\r\n\r\n`]),
      raw(port, [head(5, 'content-length: 6\r\n'), body]),
      raw(port, [head(body.length).replace('/v1/completions', '/%ff%00/../v1'), body]),
      raw(port, [head(body.length).replace('POST', 'BREW'), body]),
      raw(port, [head(3), new Uint8Array([0xff, 0xfe, 0x22])]),
    ])
    for (const answer of answers) {
      expect(statusOf(answer)).toBeGreaterThanOrEqual(400)
      expect(statusOf(answer)).toBeLessThan(500)
      expect(answer).toContain('"error":{"message":')
    }
    expect((await fetch(`${url}/health`)).status).toBe(200)
  })

  it('may come slowly, or from a client that has closed its half: it is answered', async () => {
    const { port } = await listen(app)
    const body = '{"prompt": "a"}'
    const slow = await raw(port, [...head(body.length), ...body], { pauseMs: 1 })
    const half = await raw(port, [head(body.length), body], { half: true })
    expect([statusOf(slow), statusOf(half)]).toEqual([200, 200])
  })

  it('that never end are cut off, while others are served', async () => {
    const { port, url } = await listen(app, { requestMs: 300 })
    const stuck = Array.from({ length: 20 }, () => raw(port, [head(100), '{"prompt": ']))
    await expect.poll(async () => (await stream(url, {})).status).toBe(200) // one that is slow to come is cut off, too
    for (const answer of await Promise.all(stuck)) expect([0, 400, 408]).toContain(statusOf(answer))
    await until(() => app.inFlight() === 0)
  })

  it('whatever they are, leave the server answering', async () => {
    const { port, url } = await listen(app)
    const pieces = fc.oneof(
      fc.constantFrom(
        'POST ',
        'GET ',
        '/v1/completions',
        ' HTTP/1.1\r\n',
        'content-length: 4\r\n',
        'transfer-encoding: chunked\r\n',
        '\r\n',
        '0\r\n',
        '{"prompt"',
        ': 1}',
        'ffffffff\r\n',
      ),
      fc.uint8Array({ maxLength: 20 }),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(pieces, { maxLength: 10 }), async (parts) => {
        const answer = await raw(port, parts, { half: true })
        expect([0, 200, 400, 404, 405, 408, 413, 417]).toContain(statusOf(answer))
      }),
      { numRuns: 150 },
    )
    expect((await fetch(`${url}/health`)).status).toBe(200)
    expect([app.inFlight(), engine.running()]).toEqual([0, 0])
  })
})

describe('closing', () => {
  const refusal = (): string => '{}'
  const atLimit = async (): Promise<void> => {}

  it('takes no new connection and lets running requests end', async () => {
    let letGo = (): void => {}
    const gate = new Promise<void>((resolve) => {
      letGo = resolve
    })
    const engine = saying('abc', { beforeToken: (_, t) => (t === 1 ? gate : undefined) })
    const { url, close } = await listen(served(engine))
    const running = stream(url, {})
    await until(() => engine.running() === 1)
    const closed = close({ graceMs: 60_000, atLimit })
    await expect(fetch(`${url}/health`)).rejects.toThrow()
    letGo()
    expect(await (await running).text()).toMatch(/"finish_reason":"stop"[\s\S]*\[DONE\]/)
    await closed
  })

  it('ends what still runs at its limit, each with the reason', async () => {
    const engine = saying('abc', { beforeToken: (_, t) => (t === 1 ? new Promise(() => {}) : undefined) })
    const { url, close } = await listen(served(engine))
    const running = stream(url, {})
    await until(() => engine.running() === 1)
    await close({ graceMs: 0, atLimit: async () => void (await engine.abort()) })
    expect(await (await running).text()).toMatch(/"finish_reason":"abort"[\s\S]*\[DONE\]/)
  })

  it('cuts clients that do not go', async () => {
    const { port, url, close } = await listen(served(saying('abc')))
    const stuck = raw(port, [head(100), '{'])
    expect((await fetch(`${url}/health`)).status).toBe(200) // earlier clients are connected, too
    await close({ graceMs: 0, cutMs: 50, atLimit })
    expect(await stuck).toBe('')
  })

  it('comes after a port that was free: one that is not is named', async () => {
    const { port } = await listen(served(saying('abc')))
    const taken = await leftOf(liveHttpServer(async () => new Response(), { port, refusal }))
    expect(taken).toMatchObject({
      _tag: 'ListenFailure',
      port,
      code: 'EADDRINUSE',
      reason: expect.stringContaining('the port is in use; choose another one'),
    })
  })
})

describe('a page whose name was resolved to this computer', () => {
  const named = (port: number, host: string): Promise<string> =>
    raw(port, [`GET /version HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`])

  it('is refused: on a loopback address requests have its names, or those that were allowed', async () => {
    const { port } = await listen(served(saying('abc')), { names: ['Proxy.test'] })
    for (const host of ['localhost', `localhost:${port}`, '127.0.0.1', `[::1]:${port}`, 'proxy.test:80', 'LOCALHOST'])
      expect(statusOf(await named(port, host)), host).toBe(200)
    for (const host of ['evil.test', `evil.test:${port}`, '127.0.0.1.evil.test', 'localhost.evil.test', '10.0.0.1', ''])
      expect(statusOf(await named(port, host)), host).toBe(421)
    expect(await named(port, 'evil.test')).toContain(
      '"error":{"message":"This server only answers requests to a loopback address of this computer.',
    )
  })

  it('is not asked about where others can reach the server anyway', async () => {
    const { port } = await listen(served(saying('abc')), { host: '0.0.0.0' })
    expect(statusOf(await named(port, 'evil.test'))).toBe(200)
  })
})
