/** Training steps on a Tinker server behind a proxy that spoils requests at random. */
import * as E from 'fp-ts/lib/Either.js'
import type { Timers } from '../../src/core/capabilities.js'
import { orThrow } from '../../src/core/failure.js'
import { child, type Key, keyFromSeed, uniform, uniformInteger } from '../../src/core/key.js'
import { liveTimers } from '../../src/live/clock.js'
import { liveHttpServer } from '../../src/live/httpServer.js'
import { type TinkerClient, tinkerClient } from '../../src/tinker/client/tinkerClient.js'
import type { TinkerTrainer } from '../../src/tinker/client/trainer.js'
import { type Datum, floatTensor, integerTensor } from '../../src/tinker/protocol/values.js'
import { type Fault, type FaultProxy, faultProxy, type SeenRequest } from './faultProxy.js'
import { tinkerServer } from './tinker.js'

/** A sequence to learn by cross-entropy. */
export const textDatum = (tokens: readonly number[]): Datum => ({
  tokens: tokens.slice(0, -1),
  inputs: {
    target_tokens: integerTensor(tokens.slice(1)),
    weights: floatTensor(tokens.slice(1).map(() => 1)),
  },
})

const DATA = [textDatum([5, 9, 14, 33, 70]), textDatum([61, 22, 5, 9])]

/** Pauses a hundredth as long. */
const FAST: Timers = { after: (ms, fire) => liveTimers.after(ms / 100, fire) }

/** The faults of a schedule: for every request, whatever it is, from its number. */
const faultSchedule =
  (key: Key, upstream: () => string) =>
  (request: SeenRequest, nth: number): Fault | undefined => {
    const own = child(key, nth)
    if (uniform(own, 0) > 0.35 || request.path.endsWith('/session_heartbeat')) return undefined
    const polls = request.path.endsWith('/retrieve_future')
    const all: readonly (Fault | 'duplicate')[] = [
      { _tag: 'Reset', upstream: 'sees' },
      { _tag: 'Reset', upstream: 'spared' },
      { _tag: 'Short', bytes: 5 },
      { _tag: 'Status', status: 429 },
      { _tag: 'Status', status: 503 },
      { _tag: 'Status', status: 408, body: '{"type":"try_again"}' },
      'duplicate',
      ...(polls
        ? [
            { _tag: 'Status' as const, status: 400 },
            { _tag: 'Status' as const, status: 410 },
          ]
        : []),
    ]
    const chosen = all[uniformInteger(child(own, 'which'), 0, all.length)]!
    if (chosen !== 'duplicate') return chosen._tag === 'Short' && !polls ? (all[0] as Fault) : chosen // a promise cut short is another answer than none
    void fetch(`${upstream()}${request.path}`, {
      method: request.method,
      headers: { 'content-type': 'application/json', 'x-idempotency-key': request.headers['x-idempotency-key'] ?? '' },
      body: request.body,
    }).catch(() => undefined) // only the server's state matters
    return undefined
  }

/** What a run of steps left behind. */
export interface FaultyResult {
  /** Optimizer steps that the server has done. */
  readonly steps: number
  /** Log-probabilities of the data under the final weights. */
  readonly logProbs: readonly (readonly number[])[]
}

const runSteps = async (trainer: TinkerTrainer, count: number): Promise<FaultyResult> => {
  let steps = 0
  for (let step = 0; step < count; step++) {
    const computed = orThrow(await trainer.forwardBackward({ data: DATA, lossFn: 'cross_entropy' })())
    const stepped = orThrow(await trainer.optimStep({ learning_rate: 1e-2 })())
    orThrow(await computed.result())
    steps = orThrow(await stepped.result())['steps:max']!
  }
  const final = orThrow(await orThrow(await trainer.forward({ data: DATA, lossFn: 'cross_entropy' })()).result())
  return { steps, logProbs: final.outputs.map(({ logprobs }) => Array.from(logprobs!.data)) }
}

/** A server, a proxy before it, and a client of the proxy. */
export const faultyTinker = async (): Promise<{
  readonly proxy: FaultProxy
  readonly client: TinkerClient
  readonly steps: (schedule: number | null, count: number) => Promise<FaultyResult>
  readonly close: () => Promise<void>
}> => {
  const app = tinkerServer({ limits: { sessions: 1000, pollMs: 2000 } })
  const server = orThrow(await liveHttpServer(app.fetch, { port: 0, refusal: (_, reason) => reason })())
  const proxy = await faultProxy(server.url)
  const client = tinkerClient({ url: proxy.url, timers: FAST, deadlineMs: 10_000_000, attemptMs: 2_000_000 })
  return {
    proxy,
    client,
    steps: async (schedule, count) => {
      const base = proxy.requests.length
      const spoil = faultSchedule(keyFromSeed(schedule ?? 0), () => server.url)
      proxy.setFault((request, nth) => (schedule === null ? undefined : spoil(request, nth - base)))
      const session = orThrow(await client.session()())
      const trainer = orThrow(await session.trainer({ baseModel: 'toy', lora: { rank: 2 } })())
      const result = await runSteps(trainer, count)
      proxy.setFault(() => undefined)
      E.isRight(await trainer.unload()()) // frees the model
      await session.close()
      return result
    },
    close: async () => {
      await client.close()
      await proxy.close()
      await server.close({ graceMs: 0, atLimit: async () => {} })
      await app.close()
    },
  }
}
