/** Retrieval from a search engine over HTTP, with and without a cache. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import KeyvRedis from '@keyv/redis'
import { keyFromSeed } from '@tandem-rl/base'
import { liveTransport } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import Keyv from 'keyv'
import { afterEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { noRedis, redisServer } from '../../../../test/kit/redisServer.js'
import { openSockets } from '../../../../test/kit/resources.js'
import { type RetrievalOptions, retrievalTool } from '../../src/tools/retrieval.js'
import type { RetrievalStore } from '../../src/tools/retrievalCache.js'

const closes: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closes.splice(0).reverse()) await close()
})

type Answer = (body: string, response: ServerResponse, request: IncomingMessage) => unknown

/** Answers each query with one passage that repeats it. */
const echo: Answer = (body, response) => {
  const { query } = JSON.parse(body) as { readonly query: string }
  response.end(
    JSON.stringify({ results: [{ text: `about ${query}`, title: 'A', url: 'http://a.test/', score: 1, other: 1 }] }),
  )
}

/** A search engine and a tool that asks it. */
const engine = async (answer: Answer, options: Partial<RetrievalOptions> = {}) => {
  const asked: string[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (bytes) => {
      body += String(bytes)
    })
    request.on('end', () => {
      asked.push(`${request.method} ${request.url} ${body}`)
      answer(body, response, request)
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo // a server on TCP has an address with a port
  const transport = liveTransport({
    ...{ url: `http://127.0.0.1:${port}`, headers: { 'x-api-key': 'sk-engine-secret' } },
    retry: { baseMs: 1, capMs: 1 },
  })
  closes.push(async () => {
    await transport.close()
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  })
  const notes: string[] = []
  const tool = retrievalTool({ transport, onNote: (note) => notes.push(note), ...options })
  const ask = (args: Readonly<Record<string, unknown>>, signal = new AbortController().signal) =>
    tool.call(args, { state: null, key: keyFromSeed(0), signal })()
  const said = async (query: string, args = {}): Promise<string> => {
    const result = await ask({ query, ...args })
    return E.isRight(result) ? String(result.right.content) : `${result.left.kind}: ${result.left.reason}`
  }
  return { asked, ask, said, notes, tool }
}

describe('retrievalTool', () => {
  it('gives numbered passages, with their titles and addresses, and no more than were asked for', async () => {
    const results = [
      { text: 'one', title: 'T', url: 'http://t.test/' },
      { text: 'two', title: null },
      { text: 'x'.repeat(50) },
      { text: 'four' },
    ]
    const { said, asked } = await engine((_, response) => response.end(JSON.stringify({ results })), {
      limits: { maxText: 10 },
    })
    expect(await said('a')).toBe(
      `[1] T - http://t.test/\none\n\n[2]\ntwo\n\n[3]\n${'x'.repeat(10)}...\n[40 more characters]`,
    )
    expect(await said('a', { count: 1 })).toBe('[1] T - http://t.test/\none')
    expect(asked).toEqual(['POST /search {"query":"a","count":3}', 'POST /search {"query":"a","count":1}'])
    const none = await engine((_, response) => response.end('{"results":[]}'))
    expect(await none.said('a')).toBe('no passages found')
  })

  it('asks and reads in any form', async () => {
    const { said, asked } = await engine((_, response) => response.end('{"hits":{"a":"first","b":"second"}}'), {
      name: 'wiki',
      request: ({ query, count }) => ({ method: 'GET', path: `/v2?q=${encodeURIComponent(query)}&n=${count}` }),
      response: z
        .object({ hits: z.record(z.string(), z.string()) })
        .transform(({ hits }) => Object.values(hits).map((text) => ({ text }))),
    })
    expect(await said('  naïve \n question\ud800 ')).toBe('[1]\nfirst\n\n[2]\nsecond')
    expect(asked).toEqual([`GET /v2?q=${encodeURIComponent('naïve question\ufffd')}&n=3 `])
  })

  it('refuses queries that are empty, too long or too greedy, before they are sent', async () => {
    const { said, asked, tool } = await engine(echo, { limits: { maxQuery: 20, maxCount: 2 } })
    for (const query of ['', '  \n ', 'x'.repeat(21)]) expect(await said(query)).toMatch(/^arguments: /)
    expect(await said('a', { count: 3 })).toMatch(/^arguments: /)
    expect(asked).toEqual([])
    expect(tool.parameters).toMatchObject({ properties: { count: { default: 2, maximum: 2 } }, required: ['query'] })
  })

  it.each<readonly [string, string, RegExp, Answer]>([
    [
      'refuses the query',
      'failed',
      /400/,
      (_, response) => response.writeHead(400).end('bad query, key sk-engine-secret'),
    ],
    ['is broken', 'infrastructure', /500.*after 4 attempts/, (_, response) => response.writeHead(500).end()],
    ['wants another key', 'infrastructure', /401/, (_, response) => response.writeHead(401).end('sk-engine-secret')],
    ['says what is no JSON', 'infrastructure', /not JSON/, (_, response) => response.end('<html>')],
    ['says something else', 'infrastructure', /expected array/, (_, response) => response.end('{"results":1}')],
    ['says nothing', 'timeout', /deadline of 200 ms/, () => {}],
  ])('says that an engine %s: %s', async (what, kind, reason, answer) => {
    const { ask } = await engine(answer, what === 'says nothing' ? { limits: { searchMs: 200 } } : {})
    const result = await ask({ query: 'a' })
    expect(result).toMatchObject(E.left({ kind, reason: expect.stringMatching(reason) }))
    expect(JSON.stringify(result)).not.toContain('secret')
  })

  it('asks again when the engine is busy', async () => {
    let times = 0
    const { said } = await engine((body, response, request) => {
      times++
      if (times > 1) echo(body, response, request)
      else response.writeHead(429, { 'retry-after': '0' }).end()
    })
    expect(await said('a')).toContain('about a')
  })

  it('sends equal requests at the same time once, and calls them off when nobody waits', async () => {
    const waiting: (() => void)[] = []
    const { ask, asked } = await engine((body, response, request) => waiting.push(() => echo(body, response, request)))
    const [one, other] = [new AbortController(), new AbortController()]
    const calls = [ask({ query: 'a' }, one.signal), ask({ query: ' a ' }, other.signal), ask({ query: 'b' })]
    await expect.poll(() => waiting.length).toBe(2)
    one.abort()
    expect(await calls[0]).toMatchObject(E.left({ kind: 'timeout' }))
    for (const go of waiting) go()
    expect(await calls[1]).toMatchObject(E.right({ content: expect.stringContaining('about a') }))
    expect(await calls[2]).toMatchObject(E.right({}))
    expect(asked.length).toBe(2)
    const alone = new AbortController()
    const last = ask({ query: 'c' }, alone.signal)
    await expect.poll(() => asked.length).toBe(3)
    alone.abort()
    expect(await last).toMatchObject(E.left({ kind: 'timeout' }))
  })

  it('refuses limits below 1', () => {
    const transport = liveTransport({ url: 'http://127.0.0.1:1' })
    expect(() => retrievalTool({ transport, limits: { maxCount: 0, maxText: -1 } })).toThrow(
      'retrievalTool: maxCount must be at least 1, got 0; maxText must be at least 1, got -1',
    )
  })
})

describe('retrievalTool with a cache', () => {
  it('in memory answers equal requests once, as long as an entry is good, and caches no failure', async () => {
    const store = new Keyv()
    let mood: 'bad' | 'good' = 'bad'
    const { said, asked } = await engine(
      (body, response, request) => (mood === 'bad' ? response.writeHead(400).end() : echo(body, response, request)),
      { cache: { store, ttlMs: 60_000 } },
    )
    expect(await said('a')).toMatch(/^failed/)
    mood = 'good'
    for (const query of ['a', ' a', 'a\n']) expect(await said(query)).toBe('[1] A - http://a.test/\nabout a')
    expect(await said('a', { count: 2 })).toContain('about a')
    expect(asked.length).toBe(3)
    await store.clear()
    await said('a')
    expect(asked.length).toBe(4)
  })

  it('ignores malformed and foreign entries, and reports them', async () => {
    const held = new Map<string, unknown>()
    const store: RetrievalStore = { get: async (key) => held.get(key), set: async (key, value) => held.set(key, value) }
    const { said, asked, notes } = await engine(echo, { cache: { store } })
    await said('a')
    const [[key, good] = ['', '']] = [...held]
    const other = String(good).replace(key, 'search:0')
    const poison = ['{', '{"key":1}', 7, other, `{"key":"${key}","passages":[{"text":1}]}`, { key, passages: [] }]
    for (const entry of poison) {
      held.set(key, entry)
      expect(await said('a')).toContain('about a')
    }
    expect(asked.length).toBe(1 + poison.length)
    expect(notes.length).toBe(poison.length)
    expect(notes[0]).toBe(`the cache entry ${key} is invalid and is replaced`)
    expect(await said('a')).toContain('about a')
    expect(asked.length).toBe(1 + poison.length)
  })

  it('that throws, hangs or fails costs no answer, and is reported once until it works again', async () => {
    let mood: 'throws' | 'hangs' | 'works' = 'throws'
    const held = new Map<string, unknown>()
    const act = async <T>(work: () => T): Promise<T> => {
      if (mood === 'throws') throw new Error('no route')
      if (mood === 'hangs') await new Promise(() => {})
      return work()
    }
    const store = {
      get: (key: string) => act(() => held.get(key)),
      set: (key: string, value: string) => act(() => held.set(key, value)),
    }
    const { said, notes, asked } = await engine(echo, { cache: { store, waitMs: 50 } })
    for (const query of ['a', 'a', 'b']) expect(await said(query)).toContain('about')
    mood = 'hangs'
    expect(await said('a')).toContain('about')
    expect(notes).toEqual(['the cache failed and is bypassed: no route'])
    mood = 'works'
    for (const query of ['a', 'a']) expect(await said(query)).toContain('about')
    expect(asked.length).toBe(5)
    mood = 'throws'
    expect(await said('a')).toContain('about')
    expect(notes.length).toBe(2)
  })

  const why = noRedis === undefined ? '' : ` (skipped: ${noRedis})`
  it.skipIf(noRedis !== undefined)(`in Redis is shared by tools, outlives them, and may die${why}`, async () => {
    const before = openSockets()
    const redis = await redisServer()
    const open = () =>
      new Keyv({ store: new KeyvRedis({ socket: { path: redis.socket, tls: false, reconnectStrategy: false } }) })
    const [store, second] = [open(), open()]
    const first = await engine(echo, { cache: { store, ttlMs: 600_000 } })
    await first.said('a')
    const other = await engine(echo, { cache: { store: second } })
    expect(await other.said('a')).toContain('about a')
    expect([first.asked.length, other.asked.length]).toEqual([1, 0])
    await redis.kill()
    expect(await other.said('a')).toContain('about a')
    expect(await other.said('b')).toContain('about b')
    expect(other.asked.length).toBe(2)
    expect(other.notes.length).toBe(1)
    await Promise.all([store.disconnect().catch(() => {}), second.disconnect().catch(() => {})])
    await redis.start()
    await redis.close()
    for (const close of closes.splice(0).reverse()) await close()
    await expect.poll(openSockets).toBeLessThanOrEqual(before)
  })
})
