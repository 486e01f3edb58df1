/** The web's fetch on connections of its own, against a real server. */
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { liveWebFetch } from '../../src/transport/webFetch.js'

const closes: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closes.splice(0).reverse()) await close()
})

const serve = async (listener: RequestListener) => {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  closes.push(() => {
    server.closeAllConnections()
    return new Promise((go) => server.close(go))
  })
  const { port } = server.address() as AddressInfo // a server on TCP has an address with a port
  return { server, url: `http://127.0.0.1:${port}` }
}

const web = (maxBytes: number) => {
  const made = liveWebFetch({ maxBytes })
  closes.push(() => made.close())
  return made
}

describe('liveWebFetch', () => {
  it('asks and is answered as fetch is', async () => {
    const { url } = await serve((request, response) => {
      response.writeHead(201, { 'content-type': 'text/plain', 'x-method': request.method })
      request.pipe(response)
    })
    const answer = await web(100).fetch(url, { method: 'POST', body: 'hello' })
    expect([answer.status, answer.headers.get('x-method'), await answer.text()]).toEqual([201, 'POST', 'hello'])
    const empty = await serve((_, response) => response.writeHead(204).end())
    expect((await web(100).fetch(empty.url)).status).toBe(204)
  })

  it('goes along with redirects inside the server, and refuses those that lead to another one', async () => {
    const seen: unknown[] = []
    const other = await serve((request, response) => {
      seen.push(request.headers['x-api-key'])
      response.end('stolen')
    })
    const { url } = await serve((request, response) => {
      if (request.url === '/mcp') response.writeHead(307, { location: '/mcp/' }).end()
      else if (request.url === '/away') response.writeHead(307, { location: other.url }).end()
      else if (request.url === '/get') response.writeHead(302, { location: '/mcp/' }).end()
      else if (request.url === '/round') response.writeHead(308, { location: '/round' }).end()
      else request.pipe(response)
    })
    const asked = { method: 'POST', body: 'hello', headers: { 'x-api-key': 'secret' } }
    expect(await (await web(100).fetch(`${url}/mcp`, asked)).text()).toBe('hello')
    for (const path of ['/away', '/get', '/round'])
      await expect(web(100).fetch(url + path, asked), path).rejects.toThrow('the server redirected')
    expect(seen).toEqual([])
  })

  it('breaks an answer that is too long, and takes a stream of any length whose events are short', async () => {
    const long = await serve((_, response) => response.end('x'.repeat(101)))
    await expect((await web(100).fetch(long.url)).text()).rejects.toThrow('more than 100 bytes')
    const events = (text: string) =>
      serve((_, response) => response.writeHead(200, { 'content-type': 'text/event-stream' }).end(text))
    const short = `data: ${'x'.repeat(80)}\r\n\r\n`.repeat(10)
    expect(await (await web(100).fetch((await events(short)).url)).text()).toBe(short)
    const bad = await events(`data: x\n\n${'data: yyyy\n'.repeat(10)}`)
    await expect((await web(100).fetch(bad.url)).text()).rejects.toThrow('more than 100 bytes')
  })

  it('cuts what is underway when it is closed', async () => {
    const { url, server } = await serve((_, response) => void response.write('begun'))
    const one = liveWebFetch({ maxBytes: 100 })
    const answer = await one.fetch(url)
    const rest = answer.text().then(
      () => 'whole',
      () => 'cut',
    )
    await one.close()
    expect(await rest).toBe('cut')
    await expect.poll(() => new Promise((go) => server.getConnections((_, count) => go(count)))).toBe(0)
  })
})
