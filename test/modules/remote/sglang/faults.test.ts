import { afterAll, describe, expect, it } from 'vitest'
import { orThrow } from '../../../../src/core/failure.js'
import type { GenerationEvent, GenerationFailure, WeightSource } from '../../../../src/data/generation.js'
import { liveTransport } from '../../../../src/live/transport/liveTransport.js'
import { DEFAULT_SAMPLING } from '../../../../src/modules/generation/sampling/params.js'
import { sglangClient } from '../../../../src/modules/remote/sglang/client.js'
import { type Fault, type FaultProxy, faultProxy, rewriteJson, type SeenRequest } from '../../../kit/faultProxy.js'
import { manualTime } from '../../../kit/manualTime.js'
import { useScriptedSGLang } from '../../../kit/scriptedSGLang.js'

const start = useScriptedSGLang()
const proxies: FaultProxy[] = []
afterAll(async () => {
  for (const proxy of proxies) await proxy.close()
})

const LIMIT_MS = 60_000

/**
 * A client behind a proxy: requests of `path` get the faults in turn, and then faithful answers.
 * Time passes only where an answer falls silent: then its limit is over.
 */
const behind = async (path: string, faults: readonly Fault[], delivery: 'whole' | 'stream' = 'whole') => {
  const server = await start()
  const left = [...faults]
  const fault = (request: SeenRequest): Fault | undefined => (request.path === path ? left.shift() : undefined)
  const timing = manualTime()
  const proxy = await faultProxy(server.url, { fault, onSilence: () => timing.pass(LIMIT_MS) })
  proxies.push(proxy)
  const retry = { attempts: 3, baseMs: 1, capMs: 2 }
  const transport = liveTransport({ url: proxy.url, retry, circuit: { failures: 99 }, timing })
  const options = { logProbs: 'tempered', maxCallBytes: 8, delivery } as const
  const limits = { sampleMs: LIMIT_MS, updateMs: LIMIT_MS }
  return { server, proxy, client: sglangClient({ transport, limits, ...options }) }
}

type Behind = Awaited<ReturnType<typeof behind>>

const ask = async ({ client }: Behind): Promise<readonly GenerationEvent[]> => {
  const sampling = { ...DEFAULT_SAMPLING, maxTokens: 3, endTokens: 'ignore' as const }
  const events: GenerationEvent[] = []
  const request = { id: 'r', prompt: Int32Array.of(1, 2), sampling, adapter: null, cacheSalt: '' }
  for await (const event of client.generate(request)) events.push(event)
  return events
}

const failureIn = (events: readonly GenerationEvent[]): GenerationFailure | undefined => {
  const last = events.at(-1)
  return last?._tag === 'Failed' ? last.failure : undefined
}

const tokensIn = (events: readonly GenerationEvent[]): number =>
  events.reduce((sum, event) => sum + (event._tag === 'Tokens' ? event.tokens.length : 0), 0)

const busy: Fault = {
  _tag: 'Status',
  status: 429,
  headers: { 'retry-after': '0' },
  body: '{"error":{"message":"slow down"}}',
}
const broken: Fault = { _tag: 'Status', status: 500, body: 'Internal Server Error' }

/** Changes the meta_info of an answer. */
const meta = (rest: object): Fault =>
  rewriteJson((json) => {
    const item = json as { readonly meta_info: object } // an answer of the scripted server
    return { ...item, meta_info: { ...item.meta_info, ...rest } }
  })

describe('sglangClient behind a proxy that spoils answers', () => {
  it.each<readonly [string, readonly Fault[]]>([
    ['a reset before the server saw it', [{ _tag: 'Reset', upstream: 'spared' }]],
    ['a reset before the first byte', [{ _tag: 'Reset', upstream: 'sees' }]],
    ['429 with Retry-After', [busy, busy]],
    [
      'a burst of 503',
      [
        { _tag: 'Status', status: 503, body: '' },
        { _tag: 'Status', status: 503, body: '' },
      ],
    ],
  ])('samples again, under other names, after %s', async (_, faults) => {
    const world = await behind('/generate', faults)
    const events = await ask(world)
    expect(failureIn(events)).toBeUndefined()
    expect(tokensIn(events)).toBe(3)
    const names = world.proxy.requests
      .filter(({ path }) => path === '/generate')
      .map(({ body }) => JSON.parse(body).rid)
    expect(new Set(names).size).toBe(names.length)
    expect(names).toHaveLength(faults.length + 1)
  })

  it.each<readonly [string, Fault, GenerationFailure['kind']]>([
    ['never answers', { _tag: 'Silence' }, 'timeout'],
    ['always breaks', { _tag: 'Reset', upstream: 'sees' }, 'unreachable'],
    ['is always busy', busy, 'overloaded'],
    ['always fails', broken, 'internal'],
    ['cuts its JSON short', { _tag: 'Short', bytes: 40 }, 'protocol'],
    ['tells -9999', meta({ output_token_logprobs: [0, 1, 2].map((id) => [-9999, id, null]) }), 'protocol'],
    ['counts too many tokens', meta({ completion_tokens: 4 }), 'protocol'],
  ])('tells a failure of its kind, and no token, of a server that %s', async (_, fault, kind) => {
    const world = await behind('/generate', [fault, fault, fault, fault])
    const events = await ask(world)
    expect(failureIn(events)).toMatchObject({ kind })
    expect(tokensIn(events)).toBe(0)
    expect(world.client.inFlight()).toBe(0)
  })

  it.each<readonly [string, Fault]>([
    ['is reset in the middle', { _tag: 'Cut', afterBytes: 500, how: 'reset' }],
    ['ends in the middle', { _tag: 'Short', bytes: 500 }],
    ['falls silent in the middle', { _tag: 'Silence', afterBytes: 500 }],
    ['has NaN in it', meta({ output_token_logprobs: [[Number.NaN, 1, null]] })],
  ])('ends with a failure, and not with a shorter completion, when a stream %s', async (_, fault) => {
    const world = await behind('/generate', [fault], 'stream')
    const events = await ask(world)
    expect(failureIn(events)).toBeDefined()
    expect(events.some(({ _tag }) => _tag === 'Finished')).toBe(false)
  })

  it('takes a slow answer whole', async () => {
    const world = await behind('/generate', [{ _tag: 'Drip', everyMs: 0 }])
    expect(tokensIn(await ask(world))).toBe(3)
  })
})

const row = { shape: [2], data: Float32Array.of(1, 2) }

/** Three tensors, each a call of its own. */
const WEIGHTS: WeightSource = { _tag: 'Arrays', arrays: new Map(['a', 'b', 'c'].map((name) => [name, row])) }

const PUSH = '/update_weights_from_tensor'

describe('sglangClient: a push through a proxy that spoils answers', () => {
  it('does not know the weights when the server dies in call 2 of 3, asks for them, and sends nothing again', async () => {
    const server = await start()
    let count = 0
    const kill = async (): Promise<void> => proxy.refuse()
    const proxy = await faultProxy(server.url, {
      fault: ({ path }) => (path === PUSH && ++count === 2 ? { _tag: 'Kill', kill } : undefined),
    })
    proxies.push(proxy)
    const transport = liveTransport({
      url: proxy.url,
      retry: { attempts: 3, baseMs: 1, capMs: 2 },
      circuit: { failures: 99 },
    })
    const client = sglangClient({ transport, logProbs: 'tempered', maxCallBytes: 8 })
    orThrow(await client.connect())
    expect(await client.loadWeights(WEIGHTS, { version: 7 })()).toMatchObject({
      left: { kind: 'unknown', reason: expect.stringContaining('call 2 of 3') },
    })
    expect(await client.state()).toMatchObject({ left: { kind: 'unreachable' } })
    await proxy.accept()
    expect(orThrow(await client.state()).version).toBeNull()
    expect(proxy.requests.filter(({ path }) => path === PUSH)).toHaveLength(2)
    expect(client.serving().version).toBe(0)
    // The session that was left open does not stand in the way of the next push.
    orThrow(await client.loadWeights(WEIGHTS, { version: 8 })())
    expect(orThrow(await client.state()).version).toBe(8)
  })

  it.each<readonly [string, Fault]>([
    ['broke off', { _tag: 'Reset', upstream: 'sees' }],
    ['never came', { _tag: 'Silence' }],
    ['was no HTTP', { _tag: 'Garbage' }],
    ['was 500', broken],
  ])('sends each call once, though its answer %s', async (_, fault) => {
    for (const path of [PUSH, '/begin_weight_update', '/end_weight_update']) {
      const world = await behind(path, [fault])
      const failed = await world.client.loadWeights(WEIGHTS, { version: 7 })()
      expect(failed).toMatchObject({ left: { kind: 'unknown' } })
      const calls = world.proxy.requests.filter((request) => request.path === path)
      expect(calls).toHaveLength(1)
    }
  })
})
