/**
 * Secrets stay secret: planted ones are looked for in everything that comes out of each policy and
 * client, against a server that repeats all that it received, and in every file of recorded
 * exchanges.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { keyFromSeed, describe as told } from '@tandem-rl/base'
import { liveTransport } from '@tandem-rl/host'
import { History, message } from '@tandem-rl/text'
import type { Either } from 'fp-ts/lib/Either.js'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import type { HistoryPrompt, Policy, TokenPrompt } from '../src/data/policy.js'
import { data, ragged } from '../src/data/tensorDict/leaf.js'
import { TensorDict } from '../src/data/tensorDict/tensorDict.js'
import { aiSDKWrapper } from '../src/modules/remote/chat/aiSDKWrapper.js'
import { OpenAIWrapper } from '../src/modules/remote/chat/openAIWrapper.js'
import { vLLMClient } from '../src/modules/remote/vllm/client.js'
import { vLLMWrapper } from '../src/modules/remote/vllm/vLLMWrapper.js'

/** Not of the form of any provider's keys: only whoever holds it can know that it is one. */
const PLANTED = 'Zq7.planted+key/0815='

/** The server's response to a request, and everything that it received. */
type Tell = (seen: string) => { readonly status: number; readonly body: string; readonly type?: string }

const ANSWERS: Readonly<Record<string, Tell>> = {
  'refuses the key': (seen) => ({ status: 401, body: JSON.stringify({ error: { message: `wrong key: ${seen}` } }) }),
  'refuses the request': (seen) => ({ status: 400, body: JSON.stringify({ error: { message: seen } }) }),
  fails: (seen) => ({ status: 500, body: seen, type: 'text/plain' }),
  'answers what is no JSON': (seen) => ({ status: 200, body: `{"oops": ${seen}`, type: 'application/json' }),
  'answers other JSON': (seen) => ({
    status: 200,
    body: JSON.stringify({ detail: seen, version: seen, data: [seen] }),
  }),
}

let answer: Tell = ANSWERS.fails!
let server: Server
let url = ''
/** The number of requests with the key. A test without any would show nothing. */
let arrivals = 0

beforeAll(async () => {
  server = createServer((request, response) => {
    const pieces: Buffer[] = []
    request.on('data', (piece: Buffer) => pieces.push(piece))
    request.on('end', () => {
      const seen = [request.url, JSON.stringify(request.headers), Buffer.concat(pieces).toString()].join(' ')
      if (seen.includes(PLANTED)) arrivals++
      const { status, body, type = 'application/json' } = answer(seen)
      response.writeHead(status, { 'content-type': type })
      response.end(body)
    })
  })
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve)
  })
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}` // it listens on a port
})
afterAll(() => new Promise<unknown>((resolve) => server.close(resolve)))

/** The output. */
const printed: string[] = []
const spies = [
  vi.spyOn(process.stdout, 'write'),
  vi.spyOn(process.stderr, 'write'),
  ...(['log', 'warn', 'error', 'info', 'debug'] as const).map((name) => vi.spyOn(console, name)),
]
for (const spy of spies) {
  spy.mockImplementation((...args: unknown[]) => {
    printed.push(args.map(String).join(' '))
    return true
  })
}
afterEach(() => {
  expect(printed.filter((line) => line.includes(PLANTED))).toEqual([])
  printed.length = 0
})
afterAll(() => {
  for (const spy of spies) spy.mockRestore()
})

const tokens = (): TensorDict<TokenPrompt> =>
  TensorDict({ tokens: { prompt: ragged('int32', [[1, 2, 3]]), spans: data([[]]) } }, [1])

const history = (): TensorDict<HistoryPrompt> =>
  TensorDict({ history: { prompt: data([History([message('user', 'hello')])]) } }, [1])

/** Asks once and closes. */
type Ask = () => Promise<Either<object, unknown>>

const once = async <In, Out>(
  policy: Policy<In, Out> & { readonly close?: () => Promise<void> },
  state: TensorDict<In>,
): Promise<Either<object, unknown>> => {
  const result = await policy.act(state, keyFromSeed(1))()
  await policy.close?.()
  return result
}

const transport = () =>
  liveTransport({
    url,
    headers: { authorization: `Bearer ${PLANTED}` },
    retry: { attempts: 2, baseMs: 1, capMs: 2 },
  })

const ASKED: Readonly<Record<string, Ask>> = {
  vLLMWrapper: () => once(vLLMWrapper({ clients: [vLLMClient({ transport: transport(), model: 'm' })] }), tokens()),
  OpenAIWrapper: () =>
    once(
      OpenAIWrapper({
        model: 'm',
        baseUrl: `${url}/v1`,
        apiKey: PLANTED,
        maxRequestsPerMinute: 1e6,
      }),
      history(),
    ),
  aiSDKWrapper: () => {
    const provider = createOpenAICompatible({ name: 'p', baseURL: `${url}/v1`, apiKey: PLANTED })
    return once(aiSDKWrapper({ model: provider('m'), secrets: [PLANTED] }), history())
  },
  liveTransport: async () => {
    const wire = transport()
    const reply = await wire.send({
      method: 'POST',
      path: `/v1/x?key=${PLANTED}`,
      json: { PLANTED },
      repeat: 'fresh',
    })()
    await wire.close()
    return reply._tag === 'Right' ? { _tag: 'Right', right: 'an answer is the caller’s, as it came' } : reply
  },
  'vLLMClient, control': async () => {
    const client = vLLMClient({ transport: transport(), model: 'm' })
    const results = [await client.health(), await client.state(), await client.resume(), await client.connect()]
    await client.close()
    return { _tag: 'Left', left: { _tag: 'Several', reason: 'of each call', results } }
  },
}

describe.each(Object.keys(ASKED))('%s', (name) => {
  it.each(Object.keys(ANSWERS))('tells no secret of a server that %s', async (how) => {
    answer = ANSWERS[how]!
    arrivals = 0
    const result = await ASKED[name]!()
    expect(arrivals).toBeGreaterThan(0)
    const texts = [JSON.stringify(result)]
    if (result._tag === 'Left') texts.push(told(result.left as Parameters<typeof told>[0])) // a tagged failure
    for (const text of texts) {
      expect(text).not.toContain(PLANTED)
      expect(text).not.toContain(JSON.stringify(PLANTED).slice(1, -1))
      expect(text).not.toContain(encodeURIComponent(PLANTED))
    }
  })
})

const filesUnder = (folder: string): readonly string[] =>
  readdirSync(folder).flatMap((name) => {
    const path = join(folder, name)
    return statSync(path).isDirectory() ? filesUnder(path) : [path]
  })

describe('recorded exchanges', () => {
  it('hold no key, no token and no path of a machine', () => {
    const files = filesUnder('test/golden/engines')
    expect(files.length).toBeGreaterThan(0)
    const forms = [
      /\bBearer\s+\S/i,
      /\b(?:sk|hf|gsk|ghp)[-_][A-Za-z0-9]{8}/,
      /"authorization"/i,
      /"\/(?:home|root|work|Users|tmp)\//,
    ]
    const found = files.flatMap((file) => {
      const text = readFileSync(file, 'utf8')
      return forms.flatMap((form) => (form.test(text) ? [`${file}: ${form}`] : []))
    })
    expect(found).toEqual([])
  })
})
