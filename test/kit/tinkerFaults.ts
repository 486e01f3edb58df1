/** Training steps on a Tinker server behind a proxy that spoils requests at random. */
import { child, type Key, keyFromSeed, orThrow, type Timers, uniform, uniformInteger } from '@tandem-rl/base'
import { liveTimers } from '@tandem-rl/base/host'
import { liveHttpServer } from '@tandem-rl/host'
import {
  type Datum,
  floatTensor,
  integerTensor,
  type Pending,
  type TinkerClient,
  type TinkerClientOptions,
  type TinkerFailure,
  type TinkerSession,
  type TinkerTrainer,
  tinkerClient,
} from '@tandem-rl/tinker'
import type { TinkerApp } from '@tandem-rl/tinker/server'
import * as E from 'fp-ts/lib/Either.js'
import type * as TE from 'fp-ts/lib/TaskEither.js'
import { type Fault, faultProxy, type SeenRequest } from './faultProxy.js'
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

/** Faults of requests: how often, and whether requests arrive twice without the client's doing. */
interface FaultKinds {
  readonly share: number
  readonly duplicates: 'some' | 'none'
}

/** The faults of a schedule: for every request, whatever it is, from its number. */
const faultSchedule =
  (key: Key, upstream: () => string, { share, duplicates }: FaultKinds) =>
  (request: SeenRequest, nth: number): Fault | undefined => {
    const own = child(key, nth)
    if (uniform(own, 0) > share || request.path.endsWith('/session_heartbeat')) return undefined
    const polls = request.path.endsWith('/retrieve_future')
    const all: readonly (Fault | 'duplicate')[] = [
      { _tag: 'Reset', upstream: 'sees' },
      { _tag: 'Reset', upstream: 'spared' },
      { _tag: 'Short', bytes: 5 },
      { _tag: 'Status', status: 429 },
      { _tag: 'Status', status: 503 },
      { _tag: 'Status', status: 408, body: '{"type":"try_again"}' },
      ...(duplicates === 'some' ? ['duplicate' as const] : []),
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

/** The state after a number of steps. */
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

/** Resolves with the result, or null if the server may have carried out the request. */
const certain = async <T>(work: TE.TaskEither<TinkerFailure, T>): Promise<T | null> => {
  const result = await work()
  if (E.isRight(result)) return result.right
  if (result.left.kind === 'uncertain' || result.left.kind === 'broken') return null
  throw new Error(JSON.stringify(result.left))
}

/** The result of a submitted request, or null if the server may have carried it out. */
const settled = async <T>(submitted: TE.TaskEither<TinkerFailure, Pending<T>>): Promise<T | null> => {
  const pending = await certain(submitted)
  return pending === null ? null : certain(pending.result)
}

/** Repeats work until it has a certain result. */
const untilCertain = async <T>(work: () => Promise<T | null>): Promise<T> => {
  for (;;) {
    const result = await work()
    if (result !== null) return result
  }
}

/** One step of a new model from a checkpoint, and the path of the next checkpoint. */
const stepFrom = async (session: TinkerSession, path: string | null): Promise<string | null> => {
  const trainer = await certain(session.trainer({ baseModel: 'toy', lora: { rank: 2 } }))
  if (trainer === null) return null
  if (path !== null && (await settled(trainer.loadState(path, { optimizer: 'restored' }))) === null) return null
  if ((await settled(trainer.forwardBackward({ data: DATA, lossFn: 'cross_entropy' }))) === null) return null
  if ((await settled(trainer.optimStep({ learning_rate: 1e-2 }))) === null) return null
  return settled(trainer.saveState('after'))
}

/** Log-probabilities of the data under a checkpoint. */
const logProbsAt = async (session: TinkerSession, path: string): Promise<FaultyResult['logProbs'] | null> => {
  const trainer = await certain(session.trainer({ baseModel: 'toy', lora: { rank: 2 } }))
  if (trainer === null) return null
  if ((await settled(trainer.loadState(path, { optimizer: 'restored' }))) === null) return null
  const final = await settled(trainer.forward({ data: DATA, lossFn: 'cross_entropy' }))
  return final === null ? null : final.outputs.map(({ logprobs }) => Array.from(logprobs!.data))
}

/** Takes away the numbers and keys by which our server recognizes repeated requests. */
const forgetful =
  (app: TinkerApp): TinkerApp['fetch'] =>
  async (request) => {
    if (request.method !== 'POST') return app.fetch(request)
    const headers = new Headers(request.headers)
    for (const name of ['x-idempotency-key', 'content-length']) headers.delete(name)
    const isSaving = request.url.endsWith('/save_weights_for_sampler') // its number is a name
    const text = await request.text()
    const body = isSaving ? text : text.replace(/"seq_id":\d+,?/, '')
    return app.fetch(new Request(request.url, { method: 'POST', headers, body }))
  }

/** The options of the server, and of the client of its proxy. */
interface FaultySetting {
  readonly fetchOf: (app: TinkerApp) => TinkerApp['fetch']
  readonly options: Partial<TinkerClientOptions>
  readonly faults: FaultKinds
}

/** Starts a server, a proxy before it, and a client of the proxy. */
const opened = async ({ fetchOf, options, faults }: FaultySetting) => {
  const app = tinkerServer({ limits: { sessions: 1000, pollMs: 2000 } })
  const server = orThrow(await liveHttpServer(fetchOf(app), { port: 0, refusal: (_, reason) => reason })())
  const proxy = await faultProxy(server.url)
  const client = tinkerClient({
    url: proxy.url,
    timers: FAST,
    deadlineMs: 10_000_000,
    attemptMs: 2_000_000,
    ...options,
  })
  return {
    proxy,
    client,
    /** Runs work in a session whose requests are spoiled by a schedule. */
    spoiled: async <T>(schedule: number | null, work: (session: TinkerSession) => Promise<T>): Promise<T> => {
      const base = proxy.requests.length
      const spoil = faultSchedule(keyFromSeed(schedule ?? 0), () => server.url, faults)
      proxy.setFault((request, nth) => (schedule === null ? undefined : spoil(request, nth - base)))
      const session = orThrow(await client.session()())
      try {
        return await work(session)
      } finally {
        proxy.setFault(() => undefined)
        await session.close()
      }
    },
    close: async () => {
      await client.close()
      await proxy.close()
      await server.close({ graceMs: 0, atLimit: async () => {} })
      await app.close()
    },
  }
}

/** A server, a proxy before it, and a client of the proxy. */
export const faultyTinker = async (): Promise<{
  readonly client: TinkerClient
  readonly steps: (schedule: number | null, count: number) => Promise<FaultyResult>
  readonly close: () => Promise<void>
}> => {
  const faults: FaultKinds = { share: 0.35, duplicates: 'some' }
  const { client, spoiled, close } = await opened({ fetchOf: (app) => app.fetch, options: {}, faults })
  return {
    client,
    steps: (schedule, count) =>
      spoiled(schedule, async (session) => {
        const trainer = orThrow(await session.trainer({ baseModel: 'toy', lora: { rank: 2 } })())
        const result = await runSteps(trainer, count)
        E.isRight(await trainer.unload()()) // frees the model
        return result
      }),
    close,
  }
}

/**
 * A server that carries repeated requests out twice. The client repeats none that changes a model:
 * after an uncertain answer, the step is done again from the last checkpoint.
 */
export const forgetfulTinker = async (): Promise<{
  readonly logProbs: (schedule: number | null, count: number) => Promise<FaultyResult['logProbs']>
  /** Models that were made: one for each attempt at a step. */
  readonly attempts: () => number
  readonly close: () => Promise<void>
}> => {
  const faults: FaultKinds = { share: 0.15, duplicates: 'none' }
  const { proxy, spoiled, close } = await opened({ fetchOf: forgetful, options: { server: 'unknown' }, faults })
  return {
    logProbs: (schedule, count) =>
      spoiled(schedule, async (session) => {
        let path: string | null = null
        for (let step = 0; step < count; step++) {
          const from: string | null = path
          path = await untilCertain((): Promise<string | null> => stepFrom(session, from))
        }
        return untilCertain(() => logProbsAt(session, path!))
      }),
    attempts: () => proxy.requests.filter(({ path }) => path.endsWith('/create_model')).length,
    close,
  }
}
