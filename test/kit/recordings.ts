/** Exchanges with a real server, kept as JSON: recorded through a client, and replayed to it. */
import { type HttpFailure, type HttpReply, type HttpRequest, keyFromSeed, type Transport } from '@tandem-rl/base'
import type { GenerationEvent } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import type { ServerEvent } from '../../packages/base/src/http.js'
import type { EngineClient } from '../../src/data/engineClient.js'
import { type VLLMClientOptions, vLLMClient } from '../../src/modules/remote/vllm/client.js'
import { eventsOf, requestOf } from './wire.js'

/**
 * A request and its result: an answer, the frames of a stream, or an error. It has neither names
 * of requests nor paths of a machine.
 */
export interface Exchange {
  readonly path: string
  readonly json: unknown
  readonly answer:
    | { readonly _tag: 'Whole'; readonly text: string }
    | { readonly _tag: 'Frames'; readonly frames: readonly string[] }
    | { readonly _tag: 'Refused'; readonly status: number; readonly body: string }
}

/** A run of the scenario against one kind of server. */
export interface Recording {
  readonly server: string
  readonly exchanges: readonly Exchange[]
  /** The client's results, step by step. */
  readonly results: Readonly<Record<string, unknown>>
}

const SERVER = 'http://engine'

/** Names of requests are fresh each time. */
const withoutName = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value ?? null, (name, each: unknown) => (name === 'request_id' ? 'NAME' : each)))

const bodyOf = ({ json }: HttpRequest): unknown => (typeof json === 'function' ? json(1) : json)

/**
 * A transport that writes down what another one does. `clean` takes out what belongs to a machine.
 */
export const recordingTransport = (real: Transport, clean: (text: string) => string) => {
  const exchanges: Exchange[] = []
  const note = ({ path }: HttpRequest, json: unknown, answer: Exchange['answer']): void => {
    const cleaned = JSON.parse(clean(JSON.stringify({ path, json: withoutName(json), answer }))) as Exchange // it was one
    exchanges.push(cleaned)
  }
  const noteFailure = (request: HttpRequest, json: unknown, { status, body = '' }: HttpFailure): void => {
    if (status !== undefined) note(request, json, { _tag: 'Refused', status, body })
  }
  const transport: Transport = {
    ...real,
    send: (request) => async () => {
      const json = bodyOf(request)
      const reply = await real.send({ ...request, json })()
      if (E.isLeft(reply)) noteFailure(request, json, reply.left)
      else note(request, json, { _tag: 'Whole', text: reply.right.text })
      return reply
    },
    events: (request) => async () => {
      const json = bodyOf(request)
      const stream = await real.events({ ...request, json })()
      if (E.isLeft(stream)) {
        noteFailure(request, json, stream.left)
        return stream
      }
      const frames: string[] = []
      return E.right({
        ...stream.right,
        events: (async function* () {
          for await (const item of stream.right.events) {
            if (item._tag === 'Event') frames.push(item.event.data)
            if (item._tag === 'Event' && item.event.data === '[DONE]') note(request, json, { _tag: 'Frames', frames })
            yield item
          }
        })(),
      })
    },
  }
  return { transport, exchanges }
}

/**
 * A transport that answers as it was recorded, each request in its turn. A request that was not
 * recorded throws.
 */
export const replayingTransport = ({ exchanges }: Recording): Transport & { readonly left: () => number } => {
  const waiting = [...exchanges]
  const next = (request: HttpRequest): Exchange => {
    const asked = JSON.stringify([request.path, withoutName(bodyOf(request))])
    const place = waiting.findIndex(({ path, json }) => JSON.stringify([path, json]) === asked)
    if (place === -1) throw new Error(`this was not recorded: ${asked}`)
    return waiting.splice(place, 1)[0]!
  }
  const head = { status: 200, headers: {}, server: SERVER, attempts: 1 }
  const refusal = (path: string, status: number, body: string): HttpFailure => ({
    ...{ _tag: 'HttpFailure', kind: 'status', server: SERVER, path, status, body, attempts: 1 },
    ...{ acted: status < 500 ? 'no' : 'perhaps', reason: `${path} answered ${status}` },
  })
  return {
    left: () => waiting.length,
    send: (request) => async (): Promise<E.Either<HttpFailure, HttpReply>> => {
      const { path, answer } = next(request)
      if (answer._tag === 'Refused') return E.left(refusal(path, answer.status, answer.body))
      return E.right({ ...head, text: answer._tag === 'Whole' ? answer.text : '' })
    },
    events: (request) => async () => {
      const { path, answer } = next(request)
      if (answer._tag === 'Refused') return E.left(refusal(path, answer.status, answer.body))
      const frames = answer._tag === 'Frames' ? answer.frames : []
      const eventOf = (data: string): ServerEvent => ({ event: undefined, data })
      return E.right({
        ...head,
        events: (async function* () {
          for (const data of frames) yield { _tag: 'Event', event: eventOf(data) } as const
        })(),
      })
    },
    state: () => ({
      server: SERVER,
      circuit: 'closed',
      ...{ inFlight: 0, waiting: 0, requests: 0, attempts: 0, retries: 0, failures: 0 },
    }),
    close: async () => {},
  }
}

const WAYS = (['generate', 'completions'] as const).flatMap((endpoint) =>
  (['whole', 'stream'] as const).map((delivery) => ({ endpoint, delivery })),
)

const SAMPLED = {
  plain: { n: 2, temperature: 1, topLogProbs: 2 },
  prompt: { promptLogProbs: 1, temperature: 0, maxTokens: 1 },
  allowed: { allowedTokens: [7, 8], minTokens: 2, stopTokens: [7], temperature: 0.5 },
  greedy: { temperature: 0, maxTokens: 3, endTokens: 'ignore' },
} as const

/** Numbers that JSON does not have, as words. */
const kept = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value, (_, each: unknown) => (Object.is(each, Number.NaN) ? 'NaN' : each)))

/**
 * The requests to every server: detection, sampling in four ways, refusals, control. They change
 * nothing but the label of the weights, and leave the server running.
 */
export const runScenario = async (transport: Transport, model: string): Promise<Readonly<Record<string, unknown>>> => {
  const results: Record<string, unknown> = {}
  const client = (rest: Partial<VLLMClientOptions> = {}): EngineClient => vLLMClient({ model, ...rest, transport })
  const note = async (name: string, result: Promise<unknown>): Promise<void> => {
    results[name] = kept(await result)
  }
  for (const way of WAYS) {
    const engine = client(way)
    await note(`connect ${way.endpoint} ${way.delivery}`, engine.connect())
    for (const [name, sampling] of Object.entries(SAMPLED)) {
      const events: Promise<readonly GenerationEvent[]> = eventsOf(
        engine.generate(requestOf({ sampling: { maxTokens: 4, key: keyFromSeed(9), ...sampling } })),
      )
      await note(`${name} ${way.endpoint} ${way.delivery}`, events)
    }
  }
  const engine = client()
  await note('no such model', client({ model: 'nobody' }).connect())
  await note('no such adapter', eventsOf(engine.generate(requestOf({ adapter: 'nobody' }))))
  await note('pause', engine.pause({ mode: 'keep', cache: 'clear' })())
  await note('paused', engine.state())
  await note('resume', engine.resume())
  await note('reset', engine.resetPrefixCache())
  await note('unload', client({ sharedFolder: '/nowhere' }).unloadAdapter('nobody')())
  await note('abort', engine.abort()())
  await note('health', engine.health())
  return results
}
