/**
 * A policy on three replicas, one of which is spoiled by a proxy: its rows equal those of a good
 * server, or it returns a failure without rows.
 */
import { keyFromSeed } from '@tandem-rl/base'
import { liveTransport } from '@tandem-rl/host'
import { afterEach, describe, expect, it } from 'vitest'
import type { EngineClient } from '../../../src/data/engineClient.js'
import type { PoolMember } from '../../../src/modules/remote/poolMembers.js'
import { vLLMClient } from '../../../src/modules/remote/vllm/client.js'
import { type ClientPolicy, vLLMWrapper } from '../../../src/modules/remote/vllm/vLLMWrapper.js'
import { type Fault, type FaultProxy, faultProxy, rewriteJson } from '../../kit/faultProxy.js'
import { manualTime } from '../../kit/manualTime.js'
import { leftOf, rightOf } from '../../kit/results.js'
import { saying, served, until, useServers } from '../../kit/served.js'
import { tokenPrompt } from '../../kit/small.js'

const serve = useServers()
const key = keyFromSeed(4)
const ROWS = Array.from({ length: 9 }, (_, i) => [i + 1, 7])

const opened: { readonly close: () => Promise<void> }[] = []
afterEach(async () => {
  for (const each of opened.splice(0).toReversed()) await each.close()
})

const DEADLINE_MS = 60_000

/**
 * Servers that answer alike, each behind a proxy, and a policy on them. Where an answer falls
 * silent, the time of its client is over.
 */
const replicas = async (
  count: number,
): Promise<{ readonly policy: ClientPolicy; readonly proxies: readonly FaultProxy[] }> => {
  const proxies: FaultProxy[] = []
  const clients: EngineClient[] = []
  for (let i = 0; i < count; i++) {
    const { url } = await serve(served(saying('yes')))
    const timing = manualTime()
    const proxy = await faultProxy(url, { onSilence: () => timing.pass(DEADLINE_MS) })
    const retry = { baseMs: 1, capMs: 2 }
    const transport = liveTransport({ url: proxy.url, retry, circuit: { failures: 99 }, timing })
    proxies.push(proxy)
    clients.push(vLLMClient({ transport, model: 'cat', deadlineMs: DEADLINE_MS }))
    opened.push(proxy, transport)
  }
  const policy = vLLMWrapper({
    ...{ clients, generateKwargs: { maxNewTokens: 3 } },
    pool: { deadlineMs: 60_000, patience: 2, healthMs: 20 },
  })
  opened.push(policy)
  return { policy, proxies }
}

const memberOf = ({ pool }: ClientPolicy, i: number): PoolMember => pool!.members()[i]! // there are several

const isSampling = (path: string): boolean => /generate|completions/.test(path)

const eachChoice = (change: (choice: Record<string, unknown>) => object): Fault =>
  rewriteJson((json) => {
    const body = json as { readonly choices: readonly Record<string, unknown>[] } // the server's response
    return { ...body, choices: body.choices.map((choice) => ({ ...choice, ...change(choice) })) }
  })

const withLogProb = (logprob: number): Fault =>
  eachChoice(({ logprobs }) => {
    const { content } = logprobs as { readonly content: readonly object[] } // of /inference/v1/generate
    return { logprobs: { content: content.map((item) => ({ ...item, logprob })) } }
  })

const FAULTS: readonly (readonly [string, Fault])[] = [
  ['resets connections', { _tag: 'Reset', upstream: 'sees' }],
  ['cuts its answers', { _tag: 'Cut', afterBytes: 40, how: 'end' }],
  ['answers garbage', { _tag: 'Garbage' }],
  ['answers 401', { _tag: 'Status', status: 401 }],
  ['is silent', { _tag: 'Silence' }],
  ['tells NaN for log-probabilities', withLogProb(Number.NaN)],
  ['tells -9999 for log-probabilities', withLogProb(-9999)],
  ['loses a token', eachChoice(({ token_ids }) => ({ token_ids: (token_ids as readonly number[]).slice(1) }))], // ids by contract
]

describe('a policy on replicas of which one', () => {
  it.each(FAULTS)('%s has the rows of one good server, from the others', async (_, fault) => {
    const { policy, proxies } = await replicas(3)
    const wanted = await rightOf(policy.act(tokenPrompt(ROWS), key))
    proxies[1]!.setFault(({ path }) => (isSampling(path) ? fault : undefined))
    expect(await rightOf(policy.act(tokenPrompt(ROWS), key))).toEqual(wanted)
    expect(memberOf(policy, 1).failures).toBeGreaterThan(0)
    expect(policy.pool?.members().map(({ inFlight }) => inFlight)).toEqual([0, 0, 0])
  })

  it('dies continues without it, and uses it again when it is back', async () => {
    const { policy, proxies } = await replicas(3)
    const wanted = await rightOf(policy.act(tokenPrompt(ROWS), key))
    await proxies[2]!.refuse()
    for (const seed of [4, 4, 4])
      expect(await rightOf(policy.act(tokenPrompt(ROWS), keyFromSeed(seed)))).toEqual(wanted)
    expect(memberOf(policy, 2).withdrawn?.by).toBe('failure')
    const { requests } = memberOf(policy, 2)
    await proxies[2]!.accept()
    await until(() => memberOf(policy, 2).withdrawn === null)
    expect(await rightOf(policy.act(tokenPrompt(ROWS), key))).toEqual(wanted)
    expect(memberOf(policy, 2).requests).toBeGreaterThan(requests)
  })
})

describe('a policy on one server that', () => {
  it.each(FAULTS.slice(5))('%s has no rows', async (_, fault) => {
    const { policy, proxies } = await replicas(1)
    await rightOf(policy.act(tokenPrompt(ROWS), key))
    proxies[0]!.setFault(({ path }) => (isSampling(path) ? fault : undefined))
    expect(await leftOf(policy.act(tokenPrompt(ROWS), key))).toMatchObject({ kind: 'infrastructure' })
  })
})
