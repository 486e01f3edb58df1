import { orThrow } from '@tandem-rl/base'
import { liveTransport } from '@tandem-rl/host'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { collectEvents } from '../../../../src/modules/generation/generateAll.js'
import { vLLMClient } from '../../../../src/modules/remote/vllm/client.js'
import type { Delivery } from '../../../../src/modules/remote/vllm/wireRequest.js'
import { type Fault, faultProxy, rewriteJson } from '../../../kit/faultProxy.js'
import { manualTime } from '../../../kit/manualTime.js'
import { saying, served, until, useServers } from '../../../kit/served.js'
import { eventsOf, failureIn, requestOf } from '../../../kit/wire.js'

const SAMPLE = '/inference/v1/generate'
const listen = useServers()
const engine = saying('a text of some tokens')
let upstream = ''
beforeAll(async () => {
  const server = await listen(served(engine, { features: { control: 'on' }, access: { apiKeys: ['sk-planted-key'] } }))
  upstream = server.url
})

const open: { readonly close: () => Promise<void> }[] = []
afterAll(async () => {
  for (const { close } of open) await close()
})

const DEADLINE_MS = 60_000

/**
 * A client behind a proxy that is faithful until it has connected. Pauses between attempts are a
 * millisecond, and time passes only where an answer falls silent: then its deadline is over.
 */
const behind = async (fault: (nth: number) => Fault | undefined, delivery: Delivery = 'whole') => {
  const timing = manualTime()
  const proxy = await faultProxy(upstream, { onSilence: () => timing.pass(DEADLINE_MS) })
  const transport = liveTransport({
    url: proxy.url,
    headers: { authorization: 'Bearer sk-planted-key' },
    retry: { baseMs: 1, capMs: 2 },
    timing,
  })
  const client = vLLMClient({ transport, model: 'cat', delivery, deadlineMs: DEADLINE_MS })
  open.push(transport, proxy)
  orThrow(await client.connect())
  let nth = 0
  proxy.setFault(({ path }) => (path === SAMPLE || path.startsWith('/pause') ? fault(nth++) : undefined))
  const sampled = (): number =>
    proxy.seen.filter(({ path, body }) => path === SAMPLE && !body.includes('"token_ids":[]')).length
  return { client, proxy, sampled, ask: () => eventsOf(client.generate(requestOf())) }
}

const text = async (client: ReturnType<typeof vLLMClient>) => {
  const { completions } = orThrow(await collectEvents(client.generate(requestOf()), 1))
  return completions[0]!.tokens.map(({ id }) => id)
}

const once = (fault: Fault) => (nth: number) => (nth === 0 ? fault : undefined)
const always = (fault: Fault) => () => fault

describe('a trouble that passes costs an attempt, and no sample', () => {
  it.each<readonly [string, Fault, Delivery]>([
    ['a reset before the server saw anything', { _tag: 'Reset', upstream: 'spared' }, 'whole'],
    ['a reset before the first byte', { _tag: 'Reset', upstream: 'sees' }, 'whole'],
    ['a reset before the first byte', { _tag: 'Reset', upstream: 'sees' }, 'stream'],
    ['a reset in the middle of a whole answer', { _tag: 'Cut', afterBytes: 40, how: 'reset' }, 'whole'],
    ['429 with Retry-After', { _tag: 'Status', status: 429, headers: { 'retry-after': '0' } }, 'whole'],
    ['503', { _tag: 'Status', status: 503, body: '{}' }, 'stream'],
    ['bytes that come one by one', { _tag: 'Drip', everyMs: 0 }, 'whole'],
  ])('%s', async (_, fault, delivery) => {
    const plain = await behind(() => undefined, delivery)
    const spoiled = await behind(once(fault), delivery)
    expect(await text(spoiled.client)).toEqual(await text(plain.client))
    const names = spoiled.proxy.requests
      .filter(({ path }) => path === SAMPLE)
      .map(({ body }) => /"request_id":"(\w+)"/.exec(body)?.[1])
    expect(new Set(names).size).toBe(names.length)
  })

  it('a burst of 500, as long as the budget allows', async () => {
    const { client } = await behind((nth) => (nth < 3 ? { _tag: 'Status', status: 500, body: '{}' } : undefined))
    expect((await text(client)).length).toBe(8)
  })
})

describe('a trouble that stays is a failure of its own kind, and no sample', () => {
  const nan = rewriteJson((json) => ({
    ...(json as object), // answers are objects
    choices: (json as { choices: readonly object[] }).choices.map((choice) => ({
      ...choice,
      logprobs: { content: [{ token_id: 1, logprob: Number.NaN, rank: 1 }] },
    })),
  }))
  const fewer = rewriteJson((json) => ({
    ...(json as object),
    choices: (json as { choices: readonly { token_ids: readonly number[] }[] }).choices.map((choice) => ({
      ...choice,
      token_ids: choice.token_ids.slice(1),
    })),
  }))
  it.each<readonly [string, Fault, Delivery, string]>([
    ['resets', { _tag: 'Reset', upstream: 'sees' }, 'whole', 'unreachable'],
    ['a stream that is cut', { _tag: 'Cut', afterBytes: 300, how: 'reset' }, 'stream', 'unreachable'],
    ['a stream that ends as if all was said', { _tag: 'Short', bytes: 300 }, 'stream', 'protocol'],
    ['half of a JSON', { _tag: 'Short', bytes: 100 }, 'whole', 'protocol'],
    ['bytes that are no HTTP', { _tag: 'Garbage' }, 'whole', 'protocol'],
    ['NaN', nan, 'whole', 'protocol'],
    ['NaN in a stream', nan, 'stream', 'protocol'],
    ['fewer ids than log-probabilities', fewer, 'whole', 'protocol'],
    ['fewer ids in a stream', fewer, 'stream', 'protocol'],
    ['a wrong key', { _tag: 'Status', status: 401, body: '{"error": "Unauthorized"}' }, 'whole', 'unauthorized'],
    ['500 for ever', { _tag: 'Status', status: 500, body: '{"error": {"message": "dead"}}' }, 'whole', 'internal'],
  ])('%s', async (_, fault, delivery, kind) => {
    const { client, ask } = await behind(always(fault), delivery)
    const events = await ask()
    expect(failureIn(events)).toMatchObject({ kind })
    expect(JSON.stringify(events)).not.toContain('planted')
    expect(client.inFlight()).toBe(0)
  })

  it('silence: the deadline ends it, and the slot of the server is free', async () => {
    const { ask } = await behind(always({ _tag: 'Silence' }))
    expect(failureIn(await ask()).kind).toBe('timeout')
    await until(() => engine.running() === 0)
  })

  it('the listener is gone', async () => {
    const { ask, proxy } = await behind(() => undefined)
    await proxy.refuse()
    expect(failureIn(await ask()).kind).toBe('unreachable')
  })
})

describe('a call of control is sent once', () => {
  it.each<readonly [string, Fault, string]>([
    ['a reset after the server saw it', { _tag: 'Reset', upstream: 'sees' }, 'unknown'],
    ['a reset before', { _tag: 'Reset', upstream: 'spared' }, 'unknown'],
    ['500', { _tag: 'Status', status: 500, body: '{"error": "Failed to pause"}' }, 'unknown'],
    ['400', { _tag: 'Status', status: 400, body: '{"error": "no such mode"}' }, 'refused'],
  ])('%s', async (_, fault, kind) => {
    const { client, proxy } = await behind(always(fault))
    const failed = await client.pause({ mode: 'keep', cache: 'clear' })()
    expect(failed).toMatchObject({ left: { kind } })
    expect(proxy.requests.filter(({ path }) => path.startsWith('/pause'))).toHaveLength(1)
    const { isPaused } = orThrow(await client.state())
    expect(isPaused).toBe(kind === 'unknown' && fault._tag === 'Reset' && fault.upstream === 'sees')
    orThrow(await client.resume())
  })
})
