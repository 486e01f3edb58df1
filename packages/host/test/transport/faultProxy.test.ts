import { createServer, request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { type Fault, type FaultProxy, faultProxy, rewriteJson } from '../../../../test/kit/faultProxy.js'

const opened: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

const ANSWER = JSON.stringify({ ids: [1, 2, 3], logProb: -0.5 })

const through = async (fault?: Fault): Promise<FaultProxy> => {
  const server = createServer((request, response) => {
    if (request.url === '/events')
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end('data: {"n":1}\n\ndata: [DONE]\n\n')
    else response.writeHead(200, { 'content-type': 'application/json' }).end(ANSWER)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const close = (): Promise<void> =>
    new Promise((resolve) => {
      server.close(() => resolve())
      server.closeAllConnections()
    })
  const { port } = server.address() as AddressInfo // a TCP server
  const proxy = await faultProxy(`http://127.0.0.1:${port}`, { fault: () => fault })
  opened.push(close, () => proxy.close())
  return proxy
}

/** Status, body, and how it ended: as a plain client of Node's sees it. */
const ask = (
  url: string,
  { timeoutMs = 120_000, leave = 'at-end' }: { readonly timeoutMs?: number; readonly leave?: 'at-end' | 'early' } = {},
): Promise<readonly [number, string, string]> =>
  new Promise((resolve) => {
    let hasBegun = false
    const asked = httpRequest(url, { method: 'POST', agent: false }, (answer) => {
      let text = ''
      hasBegun = true
      answer.setEncoding('utf8')
      answer.on('data', (part: string) => {
        text += part
        if (leave === 'early') asked.destroy()
      })
      answer.on('end', () => resolve([answer.statusCode!, text, 'whole']))
      answer.on('error', () => resolve([answer.statusCode!, text, 'broken']))
    })
    asked.on('error', (error) => {
      if (!hasBegun) resolve([0, '', 'code' in error ? String(error.code) : error.message])
    })
    asked.setTimeout(timeoutMs, () => asked.destroy(new Error('silent')))
    asked.end('{"a":1}')
  })

describe('a proxy that spoils answers', () => {
  it('without a fault passes requests and answers on, and records them', async () => {
    const proxy = await through()
    expect(await ask(`${proxy.url}/x?y=1`)).toEqual([200, ANSWER, 'whole'])
    expect(proxy.seen).toMatchObject([{ method: 'POST', path: '/x?y=1', body: '{"a":1}' }])
    expect(proxy.abandoned).toEqual([])
  })

  it('resets a connection before an answer, with and without the upstream having seen the request', async () => {
    const sees = await through({ _tag: 'Reset', upstream: 'sees' })
    expect(await ask(sees.url)).toEqual([0, '', 'ECONNRESET'])
    expect(sees.seen).toHaveLength(1)
    const spared = await through({ _tag: 'Reset', upstream: 'spared' })
    expect(await ask(spared.url)).toEqual([0, '', 'ECONNRESET'])
    expect(spared.seen).toEqual([])
    expect(spared.requests).toHaveLength(1)
  })

  it.each(['reset', 'end'] as const)('cuts an answer after some bytes: %s', async (how) => {
    const proxy = await through({ _tag: 'Cut', afterBytes: 5, how })
    expect(await ask(proxy.url)).toEqual([200, ANSWER.slice(0, 5), 'broken'])
  })

  it('shortens, repeats, drips, delays and rewrites', async () => {
    expect(await ask((await through({ _tag: 'Short', bytes: 7 })).url)).toEqual([200, ANSWER.slice(0, 7), 'whole'])
    expect(await ask((await through({ _tag: 'Drip', everyMs: 0 })).url)).toEqual([200, ANSWER, 'whole'])
    expect(await ask((await through({ _tag: 'Late', ms: 1 })).url)).toEqual([200, ANSWER, 'whole'])
    expect((await ask((await through({ _tag: 'Twice' })).url))[0]).toBe(200)
    const nan = rewriteJson((json) => ({ ...(json as object), logProb: Number.NaN })) // an object, by ANSWER
    expect(await ask((await through(nan)).url)).toEqual([200, '{"ids":[1,2,3],"logProb":NaN}', 'whole'])
    const events = await through(rewriteJson(() => ({ n: -9999 })))
    expect(await ask(`${events.url}/events`)).toEqual([200, 'data: {"n":-9999}\n\ndata: [DONE]\n\n', 'whole'])
  })

  it('answers by itself, with a status or with garbage', async () => {
    const busy = await through({ _tag: 'Status', status: 429, headers: { 'retry-after': '3' }, body: 'busy' })
    expect(await ask(busy.url)).toEqual([429, 'busy', 'whole'])
    const garbage = await through({ _tag: 'Garbage' })
    expect((await ask(garbage.url))[2]).toMatch(/^HPE_/)
    expect([...busy.seen, ...garbage.seen]).toEqual([])
  })

  it('is silent, at once or in the middle', async () => {
    expect((await ask((await through({ _tag: 'Silence' })).url, { timeoutMs: 50 }))[2]).toBe('silent')
    const proxy = await through({ _tag: 'Silence', afterBytes: 3 })
    expect(await ask(proxy.url, { leave: 'early' })).toEqual([200, ANSWER.slice(0, 3), 'broken'])
    // The proxy hears of it a moment later.
    await expect.poll(() => proxy.abandoned.length).toBe(1)
  })

  it('refuses connections and takes them again', async () => {
    const proxy = await through()
    await proxy.refuse()
    expect(await ask(proxy.url)).toEqual([0, '', 'ECONNREFUSED'])
    await proxy.accept()
    expect(await ask(proxy.url)).toEqual([200, ANSWER, 'whole'])
  })

  it('kills the upstream while it has a request, and the client sees a broken connection', async () => {
    const server = createServer(() => undefined)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo // a TCP server
    const kill = (): Promise<void> =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      })
    const proxy = await faultProxy(`http://127.0.0.1:${port}`, { fault: () => ({ _tag: 'Kill', kill }) })
    opened.push(() => proxy.close())
    expect((await ask(proxy.url))[2]).toBe('ECONNRESET')
    expect(proxy.seen).toHaveLength(1)
  })
})
