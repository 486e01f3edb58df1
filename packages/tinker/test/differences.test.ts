/** Servers that differ from the protocol: how the client finds it out and makes up for it. */
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { policyLoss } from '../../../src/objectives/policyLoss.js'
import { clippedSurrogate } from '../../../src/objectives/tokenLosses/clippedSurrogate.js'
import { adamW } from '../../../src/objectives/updates/adamW.js'
import { useEngine } from '../../../test/kit/engine.js'
import { randomBatch } from '../../../test/kit/learners.js'
import { tinkerModel, tinkerServer } from '../../../test/kit/tinker.js'
import { averagingFetch } from '../../../test/kit/tinkerAveraging.js'
import { textDatum } from '../../../test/kit/tinkerFaults.js'
import type { TinkerFetch } from '../src/client/calls.js'
import { type GradientSums, SUMMED } from '../src/client/gradientSums.js'
import { measureGradients } from '../src/client/measureGradients.js'
import { type TinkerClient, type TinkerSession, tinkerClient } from '../src/client/tinkerClient.js'
import { tokenCosts } from '../src/client/tokenCosts.js'
import { tinkerLearner } from '../src/learner/tinkerLearner.js'

useEngine()

const TEXT = [5, 9, 14, 33, 70, 61]
const AVERAGED: GradientSums = { lossFn: 'importance_sampling', tokens: 'mean', data: 'mean' }

const plain =
  (app: ReturnType<typeof tinkerServer>): TinkerFetch =>
  (url, init) =>
    app.fetch(new Request(url, init))

/** Runs a test on a session of a server whose requests go through a function. */
const connected = async (
  fetchOf: (app: ReturnType<typeof tinkerServer>) => TinkerFetch,
  test: (session: TinkerSession, client: TinkerClient) => Promise<void>,
): Promise<void> => {
  const app = tinkerServer()
  const client = tinkerClient({ url: 'http://localhost', fetch: fetchOf(app) })
  const session = orThrow(await client.session()())
  try {
    await test(session, client)
  } finally {
    await session.close()
    await client.close()
    await app.close()
  }
}

/** Log-probabilities after two updates by a learner. */
const learned = async (
  session: TinkerSession,
  route: 'exact' | 'builtIn',
  gradients: GradientSums,
): Promise<readonly number[]> => {
  const trainer = orThrow(await session.trainer({ baseModel: 'toy', lora: { rank: 4 }, gradients })())
  const learner = tinkerLearner({
    ...{ trainer, baseModel: 'toy', route, key: keyFromSeed(4), maxGradNorm: Number.POSITIVE_INFINITY },
    loss: policyLoss({ objective: clippedSurrogate() }),
    optimizer: adamW({ learningRate: 1e-2, epsilon: 1e-3 }), // so that the size of the gradient counts
  })
  for (let step = 0; step < 2; step++) orThrow(await learner.update(randomBatch(tinkerModel().config, [2, 2], step))())
  const pending = orThrow(await trainer.forward({ data: [textDatum(TEXT)], lossFn: 'cross_entropy' })())
  return Array.from(orThrow(await pending.result()).outputs[0]!.logprobs!.data)
}

const gapOf = (a: readonly number[], b: readonly number[]): number => Math.max(...a.map((x, i) => Math.abs(x - b[i]!)))

describe('gradients of a server', () => {
  it('are measured', async () => {
    await connected(plain, async (session) => {
      expect(session.server.name).toBe('Tandem')
      expect(orThrow(await measureGradients(session, { baseModel: 'toy' })())).toEqual(SUMMED)
    })
    await connected(averagingFetch, async (session) => {
      expect(session.server.name).toBe('SkyRL')
      expect(orThrow(await measureGradients(session, { baseModel: 'toy' })())).toEqual(AVERAGED)
    })
  })

  it('are refused if they are neither sums nor averages', () =>
    connected(
      (app) => averagingFetch(app, 0.5),
      async (session) => {
        const expected = { kind: 'unsupported', reason: expect.stringMatching(/adds gradients up in an unknown way/) }
        expect(await measureGradients(session, { baseModel: 'toy' })()).toMatchObject(E.left(expected))
      },
    ))

  it.each(['exact', 'builtIn'] as const)('are sums again for a learner of the route %s', async (route) => {
    let expected: readonly number[] = []
    await connected(plain, async (session) => {
      expected = await learned(session, route, SUMMED)
    })
    await connected(averagingFetch, async (session) => {
      expect(gapOf(await learned(session, route, AVERAGED), expected)).toBeLessThan(1e-5)
      expect(gapOf(await learned(session, route, SUMMED), expected)).toBeGreaterThan(1e-2)
    })
  })
})

describe('known servers', () => {
  it('are refused a limit of the gradient norm that they ignore', () =>
    connected(averagingFetch, async (session) => {
      const trainer = orThrow(await session.trainer({ baseModel: 'toy', lora: { rank: 4 } })())
      const parts = { trainer, baseModel: 'toy', loss: policyLoss(), key: keyFromSeed(4) }
      expect(() => tinkerLearner({ ...parts, optimizer: adamW({ learningRate: 1e-3 }) })).toThrow(
        /SkyRL does not clip gradients: maxGradNorm must be Infinity, off in settings, got 1/,
      )
    }))

  it('without a forward route get weights of 0, and settings of their adapters and checkpoints', async () => {
    const bodies: Record<string, string> = {}
    const openRl =
      (app: ReturnType<typeof tinkerServer>): TinkerFetch =>
      async (url, init) => {
        const path = new URL(url).pathname.replace('/api/v1', '')
        if (path === '/get_server_capabilities') return Response.json({ supported_models: [], single_process: true })
        if (path === '/forward') return Response.json({ detail: 'Not Found' }, { status: 404 })
        bodies[path] = String(init.body)
        return plain(app)(url, init)
      }
    await connected(openRl, async (session) => {
      expect(session.server.name).toBe('Open-RL')
      const trainer = orThrow(await session.trainer({ baseModel: 'toy', lora: { rank: 4 } })())
      expect(bodies['/create_model']).toMatch(/"train_unembed":false.*"lora_dropout":0|"lora_dropout":0/)
      const pending = orThrow(await trainer.forward({ data: [textDatum(TEXT)], lossFn: 'cross_entropy' })())
      const logProbs = orThrow(await pending.result()).outputs[0]!.logprobs!.data
      expect(bodies['/forward_backward']).toContain('"weights":{"data":[0,0,0,0,0]')
      const scored = orThrow(await orThrow(await trainer.sampler()()).logProbs(TEXT)())
      expect(logProbs[0]).toBeCloseTo(scored[1]!, 4)
      expect(await trainer.forward({ data: [textDatum(TEXT)], lossFn: 'ppo' })()).toMatchObject(
        E.left({ kind: 'unsupported' }),
      )
      await trainer.saveState('one')()
      expect(bodies['/save_weights']).toContain('"include_optimizer":true')
    })
  })
})

describe('the form of losses', () => {
  /** A server like TuFT, and the losses that it got. */
  const refusingJson = (route: '/forward' | '/forward_backward') => {
    const calls: string[] = []
    const fetchOf =
      (app: ReturnType<typeof tinkerServer>): TinkerFetch =>
      async (url, init) => {
        const path = new URL(url).pathname.replace('/api/v1', '')
        const type = init.headers['content-type']
        if (path.startsWith('/forward')) calls.push(`${path} ${type}`)
        if (path === '/forward') return Response.json({ detail: 'Not Found' }, { status: 404 })
        if (path === route && type === 'application/json')
          return Response.json({ detail: 'expected application/x-protobuf' }, { status: 415 })
        return plain(app)(url, init)
      }
    return { calls, fetchOf }
  }
  const losses = async (session: TinkerSession): Promise<readonly number[]> => {
    const trainer = orThrow(await session.trainer({ baseModel: 'toy', lora: { rank: 2 } })())
    const request = { data: [textDatum(TEXT), textDatum([22, 5, 9])], lossFn: 'cross_entropy' }
    const first = orThrow(await orThrow(await trainer.forward(request)()).result())
    orThrow(await orThrow(await trainer.forwardBackward(request)()).result())
    orThrow(await orThrow(await trainer.optimStep({ learning_rate: 1e-2 })()).result())
    const last = orThrow(await orThrow(await trainer.forward(request)()).result())
    return [first, last].map(({ metrics }) => metrics['loss:sum']!)
  }

  it.each(['/forward', '/forward_backward'] as const)('becomes protobuf once where %s refuses JSON', async (route) => {
    let expected: readonly number[] = []
    await connected(plain, async (session) => {
      expected = await losses(session)
    })
    const { calls, fetchOf } = refusingJson(route)
    await connected(fetchOf, async (session) => expect(gapOf(await losses(session), expected)).toBeLessThan(1e-5))
    const protobuf = '/forward_backward application/x-protobuf'
    expect(calls).toEqual(['/forward application/json', protobuf, protobuf, protobuf])
  })

  it('stays JSON where it was chosen, and where the server refuses protobuf too', async () => {
    const { fetchOf } = refusingJson('/forward_backward')
    const app = tinkerServer()
    const outcomes: unknown[] = []
    const noProtobuf: TinkerFetch = async (url, init) =>
      init.headers['content-type'] === 'application/x-protobuf'
        ? Response.json({ detail: 'only JSON' }, { status: 415 })
        : fetchOf(app)(url, init)
    for (const options of [{ wire: 'json', fetch: fetchOf(app) }, { fetch: noProtobuf }] as const) {
      const client = tinkerClient({ url: 'http://localhost', ...options })
      const session = orThrow(await client.session()())
      const trainer = orThrow(await session.trainer({ baseModel: 'toy', lora: { rank: 2 } })())
      for (const call of [trainer.forward, trainer.forwardBackward])
        outcomes.push(await call({ data: [textDatum(TEXT)], lossFn: 'cross_entropy' })())
      await session.close()
      await client.close()
    }
    await app.close()
    const refusedBy = (status: number) => E.left(expect.objectContaining({ kind: 'refused', status }))
    expect(outcomes).toEqual([refusedBy(404), refusedBy(415), refusedBy(404), refusedBy(415)])
  })
})

describe('costs', () => {
  it('are those of the tokens since the last call', () =>
    connected(plain, async (session, client) => {
      const costs = tokenCosts(client, { sent: 1, sampled: 10, trained: 100 })
      const trainer = orThrow(await session.trainer({ baseModel: 'toy', lora: { rank: 4 } })())
      orThrow(await trainer.forward({ data: [textDatum(TEXT)], lossFn: 'cross_entropy' })())
      orThrow(await trainer.forwardBackward({ data: [textDatum(TEXT), textDatum(TEXT)], lossFn: 'cross_entropy' })())
      orThrow(await trainer.optimStep({})())
      const sampler = orThrow(await trainer.sampler()())
      orThrow(await sampler.sample(TEXT, { n: 2, maxTokens: 3, seed: 1, stop: [] })())
      const counted = { tokensSent: 5 + 6, tokensSampled: 6, tokensTrained: 10 }
      expect(costs()).toEqual({ ...counted, cost: (11 + 60 + 1000) / 1e6 })
      expect(costs()).toEqual({ tokensSent: 0, tokensSampled: 0, tokensTrained: 0, cost: 0 })
      expect(tokenCosts(client)()).toEqual({ tokensSent: 0, tokensSampled: 0, tokensTrained: 0 })
      expect(() => tokenCosts(client, { sent: -1, sampled: 0, trained: 0 })).toThrow(/price of sent.*got -1/)
    }))
})

describe('a server that is not there', () => {
  it('is reported at the first request, and later outages are waited for', async () => {
    const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
    const waits: number[] = []
    const timers = {
      after: (ms: number, fire: () => void) => {
        if (ms < 10_000) {
          waits.push(ms)
          queueMicrotask(fire)
        }
        return () => undefined
      },
    }
    const app = tinkerServer()
    let answers: readonly ('refused' | 'answered')[] = []
    const fetch: TinkerFetch = async (url, init) => {
      const [next = 'answered', ...others] = answers
      answers = others
      if (next === 'refused') throw new TypeError('fetch failed', { cause: refused })
      return app.fetch(new Request(url, init))
    }
    const client = tinkerClient({ url: 'http://localhost', fetch, timers })
    answers = ['refused']
    const expected = { kind: 'unreachable', reason: expect.stringContaining('no server answers at this address') }
    expect(await client.models()()).toMatchObject(E.left(expected))
    expect(waits).toEqual([])
    orThrow(await client.models()())
    answers = ['refused', 'refused']
    orThrow(await client.models()())
    expect(waits).toEqual([100, 200])
    await client.close()
    await app.close()
  })
})
