/** The state of the server: sessions, models, samplers and futures, with limits on all of them. */
import {
  type Calendar,
  type Cell,
  type Clock,
  child,
  excerpt,
  type Ids,
  type Key,
  type Memory,
  type Timers,
} from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import type { Pretrained } from 'tandem-rl'
import type { ModelTrainer, TrainedModel } from 'tandem-rl/objectives'
import type { TinkerLora } from '../protocol/jsonWire.js'
import type { DataThread } from './bodies.js'
import type { Checkpoints } from './checkpoints.js'
import type { FutureResult, Futures } from './futures.js'
import type { HostSampler, Samplers } from './samplers.js'
import type { Turns } from './turns.js'

/** A request that is not accepted. `user`: sending it again is no use. */
export interface Refusal {
  readonly status: number
  readonly detail: string
  readonly category: 'user' | 'server'
}

/** The result of a route. */
export type Answer<T = object> = E.Either<Refusal, T>

/** Limits of everything that the server holds for its clients. */
export interface TinkerLimits {
  readonly sessions: number
  readonly models: number
  /** Samplers that are not checkpoints. The oldest idle one is closed for a new one. */
  readonly samplers: number
  /** Sampling sessions, of which many may share a sampler. */
  readonly samplingSessions: number
  /** Requests that are not finished, and bytes of their bodies together. */
  readonly pending: number
  readonly pendingBytes: number
  /** Results that are held until newer ones replace them, and their bytes together. */
  readonly results: number
  readonly resultBytes: number
  /** Requests of one model that wait. */
  readonly waiting: number
  /** Completions of one sampling request. */
  readonly samples: number
  readonly bodyBytes: number
  /** Time after which a session without a heartbeat is closed. */
  readonly sessionMs: number
  /** Time that a poll waits for a result. */
  readonly pollMs: number
  /** Time that a request waits for the requests before it. */
  readonly gapMs: number
  /** About how many tokens a forward and backward pass computes. */
  readonly microBatchTokens: number
}

/** The defaults. */
export const TINKER_LIMITS: TinkerLimits = {
  sessions: 64,
  models: 16,
  samplers: 32,
  samplingSessions: 4096,
  pending: 4096,
  pendingBytes: 512 * 2 ** 20,
  results: 1024,
  resultBytes: 512 * 2 ** 20,
  waiting: 512,
  samples: 1024,
  bodyBytes: 64 * 2 ** 20,
  sessionMs: 15 * 60_000,
  pollMs: 10_000,
  gapMs: 60_000,
  microBatchTokens: 4096,
}

/** A base model, with what trains it and what samples from it. */
export interface Host {
  readonly name: string
  readonly model: Pretrained
  readonly trainer: ModelTrainer
  readonly samplers: Samplers
}

interface Session {
  readonly id: string
  /** The client that made it: see `Desk.owner`. */
  readonly owner: string | null
  /** When it was heard of last. */
  readonly seenMs: Cell<number>
}

/** A model that is trained. */
export interface ModelEntry {
  readonly id: string
  readonly sessionId: string
  /** Null if all weights are trained. */
  readonly lora: TinkerLora | null
  readonly host: Host
  readonly model: TrainedModel
  readonly turns: Turns
}

/** A sampling session. */
export interface SamplerEntry {
  readonly id: string
  readonly sessionId: string
  readonly host: Host
  readonly sampler: HostSampler
  readonly modelPath: string | null
  /** Requests that are not finished. */
  readonly running: Map<string, AbortController>
  /** The last requests that finished, for clients that poll a session. */
  readonly finished: Cell<
    readonly { readonly cursor: number; readonly id: string; readonly state: 'finished' | 'failed' }[]
  >
  /** Wakes polls of the session. */
  readonly wake: Cell<readonly (() => void)[]>
}

/** The capabilities that the server needs. */
export interface TinkerWorld {
  readonly clock: Clock
  readonly timers: Timers
  readonly calendar: Calendar
  readonly ids: Ids
  readonly memory: Memory
  /** Receives errors of the server itself. */
  readonly report: (error: unknown) => void
}

/** A mutable value: everything that the server holds, as one client sees it. */
export interface Desk {
  /**
   * The client of a request, by a digest of its API key. It reaches its own sessions, models,
   * samplers, results and checkpoints only. Null if the server has at most one key: then everything
   * is shared.
   */
  readonly owner: string | null
  readonly hosts: ReadonlyMap<string, Host>
  readonly sessions: Map<string, Session>
  readonly models: Map<string, ModelEntry>
  readonly samplers: Map<string, SamplerEntry>
  readonly futures: Futures
  readonly checkpoints: Checkpoints
  readonly limits: TinkerLimits
  readonly world: TinkerWorld
  /** Reads large bodies. */
  readonly bodies: DataThread
  /** Keys of requests that were sent with an idempotency key, and the futures that they made. */
  readonly repeated: Map<string, string>
  /** The key of the next sampling request without a seed. */
  readonly nextKey: () => Key
}

/** Most characters of a reason. It may quote what a client sent. */
const LONGEST_DETAIL = 2000

/** Refuses a request. */
export const refusedWith = (status: number, detail: string): E.Either<Refusal, never> =>
  E.left({
    status,
    detail: excerpt(detail, LONGEST_DETAIL),
    category: status < 500 && status !== 429 ? 'user' : 'server',
  })

/** Keys of requests without a seed, in order. */
export const requestKeys = (key: Key): (() => Key) => {
  let count = 0
  return () => child(key, count++)
}

/** The identity of a request: two requests with equal identities and bodies are one. */
export interface Identity {
  readonly id: string
  readonly digest: string
  /** Bytes of the body. */
  readonly bytes: number
  /** The header `X-Idempotency-Key`. */
  readonly key: string | null
}

/** The identity of a request without its number. */
export type Sent = Omit<Identity, 'id'>

/** Most characters of an idempotency key. */
const LONGEST_KEY = 512

const REPEATED = 8192

/** Keys are remembered in order, and the oldest are forgotten. */
const remember = ({ repeated }: Desk, key: string, id: string): void => {
  repeated.set(key, id)
  const [oldest] = repeated.keys()
  if (repeated.size > REPEATED && oldest !== undefined) repeated.delete(oldest)
}

/**
 * Makes a future and starts its work, or returns the future that an equal request made before.
 *
 * Errors   409 for another request of the same number, 429 if too much is pending, and what `start`
 *          returns: then no future is made that a client knows of.
 */
export const submit = (
  desk: Desk,
  { id: given, digest, bytes, key }: Identity,
  start: (id: string) => Refusal | undefined,
): Answer<{ readonly request_id: string }> => {
  const { owner } = desk
  const ownKey = key === null ? null : `${owner ?? ''} ${key}`
  if (ownKey !== null && ownKey.length > LONGEST_KEY)
    return refusedWith(400, `an idempotency key has at most ${LONGEST_KEY} characters`)
  const id = (ownKey === null ? undefined : desk.repeated.get(ownKey)) ?? given
  const known = desk.futures.digestOf(id)
  if (known !== undefined)
    return known === digest
      ? E.right({ request_id: id })
      : refusedWith(409, `${id} was used for another request: give every request its own number and idempotency key`)
  if (desk.futures.open({ id, digest, owner, bytes }) === 'full')
    return refusedWith(429, `${desk.limits.pending} requests, or too many bytes of them, are pending: wait`)
  const refused = start(id)
  if (refused === undefined) {
    if (ownKey !== null) remember(desk, ownKey, id)
    return E.right({ request_id: id })
  }
  desk.futures.discard(id)
  return E.left(refused)
}

/**
 * Settles a future with the result of work. What the work throws is reported, and the future fails.
 */
export const settleWith = async (
  desk: Desk,
  id: string,
  work: () => Promise<FutureResult> | FutureResult,
): Promise<FutureResult> => {
  let result: FutureResult
  try {
    await desk.world.clock.breathe()
    result = await work()
  } catch (error) {
    desk.world.report(error)
    result = { _tag: 'Failed', reason: 'internal error of the server', category: 'server' }
  }
  desk.futures.settle(id, result)
  return result
}

/** A result that only the JSON form has. */
export const finishedWith = (json: object): FutureResult => ({
  _tag: 'Done',
  bytes: 1024,
  json: () => json,
  protobuf: null,
})

/** A failure of a request that was accepted. */
export const failedWith = (reason: string, category: 'user' | 'server' = 'user'): FutureResult => ({
  _tag: 'Failed',
  reason,
  category,
})

/** Frees a model. Its checkpoints stay. */
export const closeModel = async (desk: Desk, id: string): Promise<void> => {
  const entry = desk.models.get(id)
  if (entry === undefined) return
  desk.models.delete(id)
  await entry.turns.close('the model was unloaded')
  entry.model.release()
}

/** Ends a sampling session and its requests. */
export const closeSampler = async (desk: Desk, id: string): Promise<void> => {
  const entry = desk.samplers.get(id)
  if (entry === undefined) return
  desk.samplers.delete(id)
  for (const controller of entry.running.values()) controller.abort()
  for (const go of entry.wake.get()) go()
  await entry.sampler.release()
}

/** Closes a session with its models and samplers. */
export const closeSession = async (desk: Desk, id: string): Promise<void> => {
  desk.sessions.delete(id)
  const models = [...desk.models].filter(([, { sessionId }]) => sessionId === id)
  const samplers = [...desk.samplers].filter(([, { sessionId }]) => sessionId === id)
  await Promise.all([
    ...models.map(([model]) => closeModel(desk, model)),
    ...samplers.map(([sampler]) => closeSampler(desk, sampler)),
  ])
}

/** Closes sessions without a heartbeat. */
export const sweep = async (desk: Desk): Promise<void> => {
  const now = desk.world.clock.now()
  const old = [...desk.sessions.values()].filter(({ seenMs }) => now - seenMs.get() > desk.limits.sessionMs)
  await Promise.all(old.map(({ id }) => closeSession(desk, id)))
}

/** The session of an id, which is alive from now on. */
export const sessionOf = (desk: Desk, id: string): Answer<Session> => {
  const session = desk.sessions.get(id)
  if (session === undefined || session.owner !== desk.owner)
    return refusedWith(404, `there is no session ${id}: it ended, or the server was started again`)
  session.seenMs.set(desk.world.clock.now())
  return E.right(session)
}

/** The base model of a name. */
export const hostOf = (desk: Desk, name: string): Answer<Host> => {
  const host = desk.hosts.get(name)
  return host === undefined
    ? refusedWith(404, `there is no base model ${name}; this server has ${[...desk.hosts.keys()].join(', ')}`)
    : E.right(host)
}
