/** Transports for tests: to a server of this process, to a script, and the contents of requests. */
import type { HttpEvents, HttpFailure, HttpReply, HttpRequest, Transport } from '@tandem-rl/base'
import type { ServeApp } from '@tandem-rl/serve'
import type { GenerationEvent, GenerationRequest } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { DEFAULT_SAMPLING } from '../../src/modules/generation/sampling/params.js'

const SERVER = 'http://engine'

/** A status and a body. Server-sent events are a body too. */
export interface WireReply {
  readonly status: number
  readonly text: string
}

/** A request as the server sees it: the body made for its first attempt. */
export interface WireRequest extends Pick<HttpRequest, 'method' | 'path' | 'signal'> {
  readonly json: unknown
}

/** Answers a request, or breaks off. */
export type Answering = (request: WireRequest) => Promise<WireReply | Partial<HttpFailure>>

const failureOf = (path: string, rest: Partial<HttpFailure>): HttpFailure => ({
  _tag: 'HttpFailure',
  ...{ kind: 'reset', server: SERVER, path, acted: 'perhaps', attempts: 1, reason: `${path}: ${rest.kind ?? 'reset'}` },
  ...rest,
})

const jsonOf = ({ json }: HttpRequest): unknown => (typeof json === 'function' ? json(1) : json)

/** Frames of a body of server-sent events, as `eventsource-parser` would give them. */
const framesIn = (text: string): readonly string[] =>
  text.split('\n\n').flatMap((frame) => (frame.startsWith('data: ') ? [frame.slice(6)] : []))

/** A transport whose requests a function answers; what it was asked is in `seen`. */
export const answeredBy = (answer: Answering): Transport & { readonly seen: readonly WireRequest[] } => {
  const seen: WireRequest[] = []
  const ask = async (request: HttpRequest): Promise<E.Either<HttpFailure, HttpReply>> => {
    const { method, path, signal } = request
    const sent = { method, path, json: jsonOf(request), ...(signal && { signal }) }
    seen.push(sent)
    if (signal?.aborted === true) return E.left(failureOf(path, { kind: 'cancelled' }))
    const reply = await answer(sent)
    if (!('text' in reply)) return E.left(failureOf(path, reply))
    const { status, text } = reply
    const acted = status < 500 ? 'no' : 'perhaps'
    return status < 300
      ? E.right({ status, text, headers: {}, server: SERVER, attempts: 1 })
      : E.left(failureOf(path, { kind: 'status', status, acted, body: text, reason: `${path} answered ${status}` }))
  }
  return {
    seen,
    send: (request) => () => ask(request),
    events: (request) => async () =>
      E.map(({ text, ...head }: HttpReply): HttpEvents => {
        const items = framesIn(text).map((data) => ({ _tag: 'Event', event: { event: undefined, data } }) as const)
        return {
          ...head,
          events: (async function* () {
            yield* items
          })(),
        }
      })(await ask(request)),
    state: () => ({
      server: SERVER,
      circuit: 'closed',
      ...{ inFlight: 0, waiting: 0, requests: 0, attempts: 0, retries: 0, failures: 0 },
    }),
    close: async () => {},
  }
}

/** A transport to a server of this process, without a socket. */
export const transportTo = (app: ServeApp) =>
  answeredBy(async ({ method, path, json, signal }) => {
    const init = { method, headers: { 'content-type': 'application/json' }, ...(signal && { signal }) }
    const body = json === undefined ? {} : { body: JSON.stringify(json) }
    const response = await app.fetch(new Request(`${SERVER}${path}`, { ...init, ...body }))
    const text = await response.text()
    return signal?.aborted === true ? { kind: 'cancelled' } : { status: response.status, text }
  })

/** A request of a policy, with defaults. */
export const requestOf = ({
  sampling,
  ...rest
}: Partial<Omit<GenerationRequest, 'sampling'>> & {
  readonly sampling?: Partial<GenerationRequest['sampling']>
} = {}): GenerationRequest => ({
  ...{ id: 'r', prompt: Int32Array.of(5, 6, 7), adapter: null, cacheSalt: '' },
  ...rest,
  sampling: { ...DEFAULT_SAMPLING, maxTokens: 8, ...sampling },
})

/** All events of a request. */
export const eventsOf = async (events: AsyncIterable<GenerationEvent>): Promise<readonly GenerationEvent[]> => {
  const all: GenerationEvent[] = []
  for await (const event of events) all.push(event)
  return all
}

/** Why a request failed. */
export const failureIn = (events: readonly GenerationEvent[]): { readonly kind: string; readonly reason: string } => {
  const last = events.at(-1)
  if (last?._tag !== 'Failed') throw new Error(`nothing failed: ${JSON.stringify(events)}`)
  return last.failure
}
