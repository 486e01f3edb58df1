/** The Tinker client on our own server: training, sampling, checkpoints, both wires, and faults. */
import { orThrow } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { useEngine } from '../../../test/kit/engine.js'
import { tinkerServer } from '../../../test/kit/tinker.js'
import { faultyTinker, textDatum } from '../../../test/kit/tinkerFaults.js'
import type { TinkerFetch } from '../src/client/calls.js'
import { type TinkerClientOptions, tinkerClient } from '../src/client/tinkerClient.js'
import { chunksOf } from '../src/client/trainer.js'

useEngine()

const TEXT = [5, 9, 14, 33, 70, 61]
const DATA = [textDatum(TEXT), textDatum([22, 5, 9]), textDatum([1, 2, 3, 4])]

/** Leaves the first token out of the log-probabilities of a prompt, as SkyRL does. */
const withoutFirst =
  (fetch: TinkerFetch): TinkerFetch =>
  async (url, init) => {
    const reply = await fetch(url, init)
    const text = (await reply.text()).replace('"prompt_logprobs":[null,', '"prompt_logprobs":[')
    return new Response(text, { status: reply.status, headers: reply.headers })
  }

const connected = async (
  options: Partial<TinkerClientOptions>,
  test: (parts: { client: ReturnType<typeof tinkerClient> }) => Promise<void>,
  changed = (fetch: TinkerFetch): TinkerFetch => fetch,
): Promise<void> => {
  const app = tinkerServer()
  const fetch = changed((url, init) => app.fetch(new Request(url, init)))
  const client = tinkerClient({ url: 'http://localhost', fetch, ...options })
  try {
    await test({ client })
  } finally {
    await client.close()
    await app.close()
  }
}

describe('the Tinker client', () => {
  it.each(['json', 'protobuf'] as const)('trains, samples and restores by %s', (wire) =>
    connected({ wire, chunks: { data: 2, bytes: 1e6 } }, async ({ client }) => {
      expect(orThrow(await client.models()())).toEqual([{ name: 'toy', maxContextLength: 256 }])
      const session = orThrow(await client.session()())
      expect(session.server).toMatchObject({ name: 'Tandem', repeats: 'recognized' })
      const trainer = orThrow(await session.trainer({ baseModel: 'toy', lora: { rank: 2 } })())
      const first = orThrow(await trainer.forwardBackward({ data: DATA, lossFn: 'cross_entropy' })())
      const stepped = orThrow(await trainer.optimStep({ learning_rate: 1e-2 })())
      const output = orThrow(await first.result())
      expect(output.outputs.map(({ logprobs }) => logprobs!.data.length)).toEqual([5, 2, 3])
      expect(orThrow(await stepped.result())['grad_norm:mean']).toBeGreaterThan(0)
      const path = orThrow(await orThrow(await trainer.saveState('one')()).result())
      const again = orThrow(await orThrow(await trainer.forward({ data: DATA, lossFn: 'cross_entropy' })()).result())
      expect(again.metrics['loss:sum']).toBeLessThan(output.metrics['loss:sum']!)
      const sampler = orThrow(await trainer.sampler()())
      const logProbs = orThrow(await sampler.logProbs(TEXT)())
      expect(logProbs[0]).toBeNull()
      for (const [i, x] of Array.from(again.outputs[0]!.logprobs!.data).entries())
        expect(logProbs[i + 1]).toBeCloseTo(x, 4)
      const options = { n: 2, maxTokens: 4, seed: 3, stop: [], promptLogProbs: { top: 2 } }
      const sampled = orThrow(await sampler.sample(TEXT, options)())
      expect(sampled.sequences.map(({ tokens }) => tokens.length)).toEqual([4, 4])
      expect(sampled.topPromptLogProbs![1]).toHaveLength(2)
      orThrow(await orThrow(await trainer.loadState(path, { optimizer: 'restored' })()).result())
      const weights = orThrow(await orThrow(await trainer.saveForSampler('one')()).result())
      expect(orThrow(await client.checkpoints(trainer.modelId)()).map(({ type }) => type)).toEqual([
        'training',
        'sampler',
      ])
      expect(orThrow(await client.archive(weights)()).length).toBeGreaterThan(1024)
      const other = orThrow(await session.sampler({ path: weights })())
      expect(orThrow(await other.logProbs(TEXT)())[1]).toBeCloseTo(logProbs[1]!, 4)
      await session.close()
    }),
  )

  it('names what the server refuses, and continues with the same number', () =>
    connected({}, async ({ client }) => {
      const session = orThrow(await client.session()())
      const unknown = await session.trainer({ baseModel: 'none', lora: null })()
      expect(unknown).toMatchObject(E.left({ kind: 'refused', status: 404, reason: expect.stringContaining('toy') }))
      const trainer = orThrow(await session.trainer({ baseModel: 'toy', lora: null })())
      const refused = await trainer.forwardBackward({ data: DATA, lossFn: 'none' })()
      expect(refused).toMatchObject(E.left({ kind: 'refused', status: 400 }))
      const failed = await orThrow(await trainer.optimStep({})()).result()
      expect(failed).toMatchObject(E.left({ kind: 'failed', reason: expect.stringContaining('no gradients') }))
      orThrow(await orThrow(await trainer.forwardBackward({ data: DATA, lossFn: 'cross_entropy' })()).result())
      await session.close()
    }))

  it('does not repeat a request whose answer is lost where the server may carry it out twice', async () => {
    const app = tinkerServer()
    let lost = 0
    const fetch: TinkerFetch = async (url, init) => {
      const answer = await app.fetch(new Request(url, init))
      if (!url.endsWith('/optim_step')) return answer
      lost++
      throw new Error('connection reset')
    }
    const client = tinkerClient({ url: 'http://localhost', fetch, repeats: 'unknown' })
    const session = orThrow(await client.session()())
    const trainer = orThrow(await session.trainer({ baseModel: 'toy', lora: { rank: 2 } })())
    orThrow(await trainer.forwardBackward({ data: DATA, lossFn: 'cross_entropy' })())
    expect(await trainer.optimStep({})()).toMatchObject(
      E.left({ kind: 'uncertain', reason: expect.stringMatching(/^http:\/\/localhost \(Tandem\) \/optim_step: /) }),
    )
    expect(await trainer.optimStep({})()).toMatchObject(E.left({ kind: 'broken' }))
    expect(lost).toBe(1)
    await session.close()
    await app.close()
  })

  it('does not submit a step again whose promise is lost where the server may carry it out twice', async () => {
    const app = tinkerServer()
    const seen: string[] = []
    const fetch: TinkerFetch = async (url, init) => {
      seen.push(new URL(url).pathname)
      if (url.endsWith('/retrieve_future') && seen.includes('/api/v1/optim_step'))
        return new Response('{}', { status: 410 })
      return app.fetch(new Request(url, init))
    }
    const client = tinkerClient({ url: 'http://localhost', fetch, server: 'unknown' })
    const session = orThrow(await client.session()())
    const trainer = orThrow(await session.trainer({ baseModel: 'toy', lora: { rank: 2 } })())
    orThrow(await orThrow(await trainer.forwardBackward({ data: DATA, lossFn: 'cross_entropy' })()).result())
    const stepped = await orThrow(await trainer.optimStep({})()).result()
    expect(stepped).toMatchObject(E.left({ kind: 'uncertain', status: 410 }))
    expect(await trainer.saveState('after')()).toMatchObject(E.left({ kind: 'broken' }))
    expect(seen.filter((path) => path.endsWith('/optim_step'))).toHaveLength(1)
    await session.close()
    await app.close()
  })

  it('sends a request again that never reached a server, whatever the server recognizes', async () => {
    const app = tinkerServer()
    let refused = 0
    const fetch: TinkerFetch = async (url, init) => {
      if (!url.endsWith('/optim_step') || refused++ > 0) return app.fetch(new Request(url, init))
      throw new TypeError('fetch failed', { cause: Object.assign(new Error('connect'), { code: 'ECONNREFUSED' }) })
    }
    const client = tinkerClient({ url: 'http://localhost', fetch, server: 'unknown' })
    const session = orThrow(await client.session()())
    const trainer = orThrow(await session.trainer({ baseModel: 'toy', lora: { rank: 2 } })())
    orThrow(await trainer.forwardBackward({ data: DATA, lossFn: 'cross_entropy' })())
    expect(orThrow(await orThrow(await trainer.optimStep({})()).result())['steps:max']).toBe(1)
    expect(refused).toBe(2)
    await session.close()
    await app.close()
  })

  it('adds the first token where a server leaves it out of the log-probabilities of a prompt', () =>
    connected(
      {},
      async ({ client }) => {
        const session = orThrow(await client.session()())
        const trainer = orThrow(await session.trainer({ baseModel: 'toy', lora: { rank: 2 } })())
        const pending = orThrow(await trainer.forward({ data: [textDatum(TEXT)], lossFn: 'cross_entropy' })())
        const expected = Array.from(orThrow(await pending.result()).outputs[0]!.logprobs!.data)
        const sampler = orThrow(await trainer.sampler()())
        const scored = orThrow(await sampler.logProbs(TEXT)())
        const sampled = orThrow(await sampler.sample(TEXT, { maxTokens: 1, promptLogProbs: { top: 0 } })())
        for (const [first, ...others] of [scored, sampled.promptLogProbs!]) {
          expect(first).toBeNull()
          expect(others.map((x) => x!.toFixed(3))).toEqual(expected.map((x) => x.toFixed(3)))
        }
      },
      withoutFirst,
    ))

  it('saves checkpoints that expire', async () => {
    let now = Date.parse('2026-01-01T00:00:00Z')
    const app = tinkerServer({ world: { calendar: { today: () => new Date(now) } } })
    const client = tinkerClient({ url: 'http://localhost', fetch: (url, init) => app.fetch(new Request(url, init)) })
    const session = orThrow(await client.session()())
    const trainer = orThrow(await session.trainer({ baseModel: 'toy', lora: { rank: 2 } })())
    orThrow(await orThrow(await trainer.saveState('short', { ttlSeconds: 60 })()).result())
    const kept = orThrow(await orThrow(await trainer.saveState('kept')()).result())
    const expiries = async () =>
      orThrow(await client.checkpoints(trainer.modelId)()).map(({ path, expires }) => [path.split('/').at(-1), expires])
    expect(await expiries()).toEqual([
      ['kept', null],
      ['short', '2026-01-01T00:01:00.000Z'],
    ])
    now += 60_000
    const expired = kept.replace('kept', 'short')
    const loaded = await orThrow(await trainer.loadState(expired, { optimizer: 'fresh' })()).result()
    expect(loaded).toMatchObject(E.left({ reason: expect.stringContaining('there is no checkpoint') }))
    expect(await expiries()).toEqual([['kept', null]])
    expect(() => trainer.saveState('never', { ttlSeconds: 0 })).toThrow(
      /ttlSeconds must be a whole number above 0, got 0/,
    )
    await session.close()
    await app.close()
  })

  it('cuts data into chunks of few sequences and bytes', () => {
    expect(chunksOf(DATA, { data: 2, bytes: 1e6 }).map((chunk) => chunk.length)).toEqual([2, 1])
    expect(chunksOf(DATA, { data: 9, bytes: 1 }).map((chunk) => chunk.length)).toEqual([1, 1, 1])
  })

  it('carries every step out once under lost answers, duplicates, refusals and resets', async () => {
    const faulty = await faultyTinker()
    try {
      const expected = await faulty.steps(null, 2)
      expect(expected.steps).toBe(2)
      for (let schedule = 1; schedule <= 6; schedule++) expect(await faulty.steps(schedule, 2)).toEqual(expected)
    } finally {
      await faulty.close()
    }
  })
})
