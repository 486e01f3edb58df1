/** Requests through the proxies of the environment, with a real proxy. */
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import * as E from 'fp-ts/lib/Either.js'
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { proxyServer, SELF_SIGNED } from '../../../../test/kit/proxyServer.js'
import { leftOf, rightOf } from '../../../../test/kit/results.js'
import { itemsOf, POST, startServer, transportTo } from '../../../../test/kit/transports.js'
import { liveHub } from '../../src/hub.js'
import { plainRequest } from '../../src/transport/plainRequest.js'
import { proxyFor } from '../../src/transport/proxies.js'
import { liveWebFetch } from '../../src/transport/webFetch.js'

const NAMES = ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY'].flatMap((name) => [name, name.toLowerCase()])

const environment = (variables: Readonly<Record<string, string>>): void => {
  for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value)
}

beforeEach(() => {
  for (const name of NAMES) vi.stubEnv(name, undefined)
  return () => void vi.unstubAllEnvs()
})

const chosen = (server: string, variables: Readonly<Record<string, string>>): string | null => {
  const proxy = proxyFor(server, variables)
  return E.isLeft(proxy) ? proxy.left : (proxy.right?.url ?? null)
}

describe('the proxy of a server', () => {
  const both = { HTTP_PROXY: 'http://plain:1', HTTPS_PROXY: 'https://secure:2' }

  it('is chosen by the scheme of the server, in lower case before upper case', () => {
    expect(chosen('http://a.test/v1', both)).toBe('http://plain:1')
    expect(chosen('https://a.test/v1', both)).toBe('https://secure:2')
    expect(chosen('https://a.test', { HTTP_PROXY: 'http://plain:1' })).toBe(null)
    expect(chosen('http://a.test', { ...both, http_proxy: 'lower:3' })).toBe('http://lower:3')
    expect(chosen('http://a.test', { ...both, http_proxy: '' })).toBe(null)
    expect(chosen('http://a.test', {})).toBe(null)
  })

  it.each(['localhost', 'a.localhost', '127.0.0.1', '127.1.2.3', '[::1]', '127.1'])('is none for %s', (host) => {
    expect(chosen(`http://${host}:8000`, both)).toBe(null)
    expect(chosen(`http://${host}:8000`, { ...both, NO_PROXY: 'a.test, <-loopback>' })).toBe('http://plain:1')
  })

  it.each([
    ['*', 'http://a.test', 'direct'],
    ['b.test, *', 'http://a.test', 'direct'],
    ['a.test', 'http://a.test', 'direct'],
    ['a.test', 'http://x.a.test', 'direct'],
    ['a.test', 'http://xa.test', 'proxied'],
    ['.a.test', 'http://a.test', 'direct'],
    ['*.a.test', 'https://x.a.test', 'direct'],
    ['A.Test', 'http://a.TEST.', 'direct'],
    ['a.test.', 'http://a.test', 'direct'],
    ['bücher.test', 'http://bücher.test', 'direct'],
    ['a.test:80', 'http://a.test', 'direct'],
    ['a.test:443', 'https://a.test', 'direct'],
    ['a.test:8000', 'http://a.test', 'proxied'],
    ['b.test a.test', 'http://a.test', 'direct'],
    ['b.test,,a.test,', 'http://a.test', 'direct'],
    ['10.0.0.1', 'http://10.0.0.1:8000', 'direct'],
    ['10.0.0.1:8000', 'http://10.0.0.1:8000', 'direct'],
    ['10.0.0.1:8001', 'http://10.0.0.1:8000', 'proxied'],
    ['10.0.0', 'http://10.0.0.1', 'proxied'],
    ['0.0.1', 'http://10.0.0.1', 'proxied'],
    ['10.0.0.0/8', 'http://10.9.8.7', 'direct'],
    ['10.0.0.0/8', 'http://11.9.8.7', 'proxied'],
    ['10.0.0.0/99', 'http://10.9.8.7', 'proxied'],
    ['fd00::1', 'http://[fd00::1]', 'direct'],
    ['FD00:0:0::1', 'http://[fd00::1]:8000', 'direct'],
    ['[fd00::1]', 'http://[fd00::1]:8000', 'direct'],
    ['[fd00::1]:8000', 'http://[fd00::1]:8000', 'direct'],
    ['[fd00::1]:8001', 'http://[fd00::1]:8000', 'proxied'],
    ['fd00::1:8000', 'http://[fd00::1]:8000', 'proxied'],
    ['fd00::/8', 'http://[fdff::1]', 'direct'],
    ['fd00::/8', 'http://[fc00::1]', 'proxied'],
    ['fd00::1', 'http://[fd00::2]', 'proxied'],
  ])('with NO_PROXY %s, %s is %s', (list, server, way) => {
    expect(chosen(server, { ...both, NO_PROXY: list }) === null ? 'direct' : 'proxied').toBe(way)
    expect(chosen(server, { ...both, NO_PROXY: '*', no_proxy: list }) === null ? 'direct' : 'proxied').toBe(way)
  })

  it.each(['socks5://p:1', 'ftp://p', 'http://', 'a b'])('is refused if it is %s, with the variable', (address) => {
    expect(chosen('http://a.test', { http_proxy: address })).toMatch(
      /^http_proxy: expected the address of an HTTP proxy/,
    )
    vi.stubEnv('HTTP_PROXY', address)
    expect(() => transportTo('http://a.test')).toThrow('HTTP_PROXY: expected the address of an HTTP proxy')
  })
})

/** A server with JSON and events, behind a proxy for all names. */
const behind = async (status?: number) => {
  const hosts: (string | undefined)[] = []
  const answer: Parameters<typeof startServer>[0] = (request, response) => {
    hosts.push(request.headers.host)
    if (request.url === '/events') {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end('data: 1\n\ndata: 2\n\n')
      return
    }
    response.writeHead(200, { 'content-type': 'application/json' }).end('{"a": 1}')
  }
  const plain = await startServer(answer)
  const secure = createServer(SELF_SIGNED, answer)
  await new Promise<void>((resolve) => secure.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    secure.closeAllConnections()
    secure.close()
  })
  const { port } = secure.address() as AddressInfo // a TCP server
  const proxy = await proxyServer({ plain, secure: `https://127.0.0.1:${port}` }, status)
  vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0') // the certificate is self-signed
  environment({ HTTP_PROXY: proxy.url, HTTPS_PROXY: proxy.url })
  return { proxy, plain, hosts }
}

describe('a transport', () => {
  it('sends requests to http whole, on connections that are kept', async () => {
    const { proxy, hosts } = await behind()
    const transport = transportTo('http://policy.test:8000/base')
    for (let i = 0; i < 3; i++) expect(await rightOf(transport.send(POST))).toMatchObject({ text: '{"a": 1}' })
    expect(proxy.seen).toEqual(Array.from({ length: 3 }, () => 'POST http://policy.test:8000/base/sample'))
    expect(proxy.connections()).toBe(1)
    expect(hosts[0]).toBe('policy.test:8000')
  })

  it('sends requests to https through a tunnel, which is kept', async () => {
    const { proxy, hosts } = await behind()
    const transport = transportTo('https://policy.test')
    for (let i = 0; i < 3; i++) expect(await rightOf(transport.send(POST))).toMatchObject({ text: '{"a": 1}' })
    expect(proxy.seen).toEqual(['CONNECT policy.test:443'])
    expect(hosts).toEqual(['policy.test', 'policy.test', 'policy.test'])
  })

  it.each(['http://policy.test', 'https://policy.test'])('reads events of %s', async (url) => {
    const { proxy } = await behind()
    expect(await itemsOf(transportTo(url), { ...POST, path: '/events' })).toMatchObject([
      { event: { data: '1' } },
      { event: { data: '2' } },
    ])
    expect(proxy.seen).toHaveLength(1)
  })

  it('connects directly to this computer and to the servers of NO_PROXY', async () => {
    const { proxy, plain } = await behind()
    await rightOf(transportTo(plain).send(POST))
    vi.stubEnv('NO_PROXY', 'direct.invalid')
    const failure = await leftOf(transportTo('http://direct.invalid', { retry: { attempts: 1 } }).send(POST))
    expect(failure.reason).not.toContain('proxy')
    expect(proxy.seen).toEqual([])
  })

  it('uses the proxy for this computer where NO_PROXY has `<-loopback>`', async () => {
    const { proxy, plain } = await behind()
    vi.stubEnv('NO_PROXY', '<-loopback>')
    await rightOf(transportTo(plain).send(POST))
    expect(proxy.seen).toEqual([`POST ${plain}/sample`])
  })

  it('sends the credentials of the address to the proxy only, and shows them nowhere', async () => {
    const { proxy } = await behind()
    const address = proxy.url.replace('http://', 'http://me:p%40ss-0815@')
    environment({ HTTP_PROXY: address, HTTPS_PROXY: address })
    for (const scheme of ['http', 'https']) await rightOf(transportTo(`${scheme}://policy.test`).send(POST))
    const basic = `Basic ${Buffer.from('me:p@ss-0815').toString('base64')}`
    expect([...proxy.credentials]).toEqual([basic])
    environment({ HTTP_PROXY: 'http://me:p%40ss-0815@127.0.0.1:1' })
    const failure = await leftOf(transportTo('http://policy.test', { retry: { attempts: 1 } }).send(POST))
    expect(failure.reason).toContain('no connection through the proxy http://127.0.0.1:1 (HTTP_PROXY)')
    expect(JSON.stringify(failure)).not.toMatch(/0815|bWU6/)
  })

  it('reports the refusal of a proxy with its status', async () => {
    await behind(407)
    const failures = await Promise.all(
      ['http', 'https'].map((scheme) =>
        leftOf(transportTo(`${scheme}://policy.test`, { retry: { attempts: 1 } }).send(POST)),
      ),
    )
    expect(failures).toMatchObject([
      { kind: 'unreachable', acted: 'no' },
      { kind: 'unreachable', acted: 'no' },
    ])
    expect(failures[0]!.reason).toMatch(/through the proxy http:.* \(HTTP_PROXY\) \(Proxy Authentication Required/)
    expect(failures[1]!.reason).toMatch(/through the proxy http:.* \(HTTPS_PROXY\) \(Proxy response \(407\)/)
  })
})

describe('other clients', () => {
  it.each([
    ['http', ['POST http://policy.test/x']],
    ['https', ['CONNECT policy.test:443']],
  ])('send requests through the proxy: fetch to %s', async (scheme, seen) => {
    const { proxy } = await behind()
    const web = liveWebFetch({ maxBytes: 1000 })
    onTestFinished(() => web.close())
    const answer = await web.fetch(`${scheme}://policy.test/x`, { method: 'POST', body: '{}' })
    expect(await answer.json()).toEqual({ a: 1 })
    expect(proxy.seen).toEqual(seen)
  })

  it('send requests through the proxy: plain requests', async () => {
    const { proxy } = await behind()
    const options = { method: 'GET', headers: {}, signal: AbortSignal.timeout(30_000) } as const
    expect(await plainRequest('http://policy.test/x', options)).toEqual({ status: 200, text: '{"a": 1}' })
    expect(proxy.seen).toEqual(['GET http://policy.test/x'])
  })

  it('send requests through the proxy: the hub, which names it in failures', async () => {
    const { proxy } = await behind()
    const repo = { kind: 'model', name: 'a/b', revision: 'main' } as const
    const hub = liveHub({ endpoint: 'http://hub.test', cacheFolder: '/tmp/never-written' })
    expect(await leftOf(hub.list(repo))).toMatchObject({ kind: 'protocol' }) // the server is no hub
    expect(proxy.seen).toEqual(['GET http://hub.test/api/models/a/b/revision/main'])
    environment({ HTTP_PROXY: 'http://127.0.0.1:1' })
    const away = await leftOf(liveHub({ endpoint: 'http://hub.test', cacheFolder: '/tmp/never-written' }).list(repo))
    expect(away.reason).toContain('cannot be reached through the proxy http://127.0.0.1:1 (HTTP_PROXY)')
  })
})
