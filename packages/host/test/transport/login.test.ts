/** Users and passwords in addresses: every client sends them, and no message has them. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { splitLogin } from '@tandem-rl/base'
import { commandLine } from '@tandem-rl/base/host'
import { tinkerClient } from '@tandem-rl/tinker'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { chatTransport } from '../../../../src/modules/remote/chat/openAIWrapper.js'
import { rayJobs } from '../../../cluster/src/launch/rayJobs.js'
import { connectUpstream } from '../../../serve/src/commands/captureUpstream.js'
import { liveTransport } from '../../src/transport/liveTransport.js'
import { liveWebFetch } from '../../src/transport/webFetch.js'

const PASSWORD = 'pass@wörd:/?'
const BASIC = `Basic ${Buffer.from(`ann:${PASSWORD}`).toString('base64')}`

const seen: (string | undefined)[] = []
let server: Server
let url = ''

beforeAll(async () => {
  server = createServer((request, response) => {
    seen.push(request.headers.authorization)
    response.writeHead(404).end('{}')
  })
  await new Promise<void>((done) => void server.listen(0, '127.0.0.1', done))
  url = `http://ann:${encodeURIComponent(PASSWORD)}@127.0.0.1:${(server.address() as AddressInfo).port}`
})

afterAll(() => new Promise((done) => server.close(done)))

const GET = { method: 'GET', path: '/x', repeat: 'never' } as const

const upstream = (apiKey: string | null = null) => connectUpstream({ url, model: 'm', apiKey, deadlineMs: 5000 })

/** One request of each client. */
const CLIENTS: Readonly<Record<string, () => Promise<unknown>>> = {
  liveTransport: () => liveTransport({ url }).send(GET)(),
  chatTransport: () => chatTransport({ baseUrl: `${url}/v1` }).send(GET)(),
  'capture upstream': () => upstream().connect(),
  rayJobs: () => rayJobs({ url }).stop('job')(),
  tinkerClient: () => tinkerClient({ url }).models()(),
  liveWebFetch: async () => (await liveWebFetch({ maxBytes: 100 }).fetch(`${url}/x`)).status,
}

describe('a login in an address', () => {
  it.each(Object.keys(CLIENTS))('is sent by %s, and is in no failure', async (name) => {
    seen.length = 0
    const result = JSON.stringify(await CLIENTS[name]!())
    expect(new Set(seen)).toEqual(new Set([BASIC]))
    for (const secret of [PASSWORD, encodeURIComponent(PASSWORD), BASIC.slice(6)]) expect(result).not.toContain(secret)
  })

  it('beside a key is refused, without showing either', () => {
    for (const make of [() => upstream('the-key'), () => chatTransport({ baseUrl: url, apiKey: 'the-key' })]) {
      expect(make).toThrow('beside an authorization header or a key: give one of them')
      expect(make).not.toThrow(/the-key|pass(?!word)|w%C3/)
    }
  })

  it('is not part of the address of a job, which is stored', () => {
    expect(rayJobs({ url }).url).toBe(splitLogin(new URL(url)).url.origin)
  })

  it('is split from any address', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 1 }), fc.string(), (user, password) => {
        const address = new URL('https://host:8000/v1')
        address.username = user
        address.password = password
        const { url: plain, headers } = splitLogin(address)
        expect(plain.href).toBe('https://host:8000/v1')
        const [name, ...rest] = Buffer.from(headers.authorization!.slice(6), 'base64').toString().split(':')
        expect([name, ...rest].join(':').length).toBeGreaterThan(0)
      }),
    )
  })
})

describe('a stored command line', () => {
  it.each([
    [['/bin/tandem', 'train', '--api-key', 'abc', '--steps', '3'], "tandem train --api-key '***' --steps 3"],
    [['tandem', '--upstream-key=abc', '--on', 'http://u:p@ss@h'], "tandem '--upstream-key=***' --on http://***@h"],
    [['tandem', '--queue', 'redis://:pw@h:6379', '--out', 'a b'], "tandem --queue redis://***@h:6379 --out 'a b'"],
    [['tandem', 'bench', '--max-new-tokens', '64'], 'tandem bench --max-new-tokens 64'],
  ])('has no secrets: %j', (words, expected) => {
    expect(commandLine(words)).toBe(expected)
  })
})
