/** The Tinker server as a function from requests to responses. */
import { cell, checkOptions, type Key } from '@tandem-rl/base'
import { liveCalendar, liveClock, liveDigest, liveIds, liveTimers } from '@tandem-rl/base/host'
import {
  givenKey,
  isAuthorized,
  liveFiles,
  liveMemory,
  mayCome,
  readBodyBytes,
  reportError,
  SMALL_BODY,
} from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import type { Pretrained } from 'tandem-rl'
import { modelTrainer } from 'tandem-rl/objectives'
import type { z } from 'zod'

import { TINKER_APP_OPTIONS } from '../optionKinds.js'
import { REQUESTS } from '../protocol/jsonWire.js'
import { PROTOBUF } from '../protocol/protobufWire.js'
import { type DataPath, dataThread, jsonBodyAs, type RawBody, type RefusedBody, readData } from './bodies.js'
import { MASKED_LOSSES } from './builtInLosses.js'
import { makeCheckpoints } from './checkpoints.js'
import {
  type Answer,
  closeModel,
  closeSampler,
  closeSession,
  type Desk,
  type Refusal,
  refusedWith,
  requestKeys,
  type Sent,
  sessionOf,
  sweep,
  TINKER_LIMITS,
  type TinkerLimits,
  type TinkerWorld,
} from './desk.js'
import { makeFutures } from './futures.js'
import { allCheckpoints, runRoute, trainingRuns, weightsInfo } from './recordRoutes.js'
import { makeSamplers, type ReportedSampler, type Samplers } from './samplers.js'
import { cancelFutures, createSamplingSession, finishedFutures, sample, samplerInfo } from './samplingRoutes.js'
import {
  createModel,
  forwardBackward,
  loadModelWeights,
  modelInfo,
  optimStep,
  saveWeights,
  saveWeightsForSampler,
  unloadModel,
} from './trainingRoutes.js'

/** The options of a Tinker server. */
export interface TinkerServerOptions {
  /** Base models by the names that clients use. */
  readonly models: Readonly<Record<string, Pretrained>>
  /** Folder for checkpoints. */
  readonly checkpoints: string
  /** Of sampling requests without a seed. */
  readonly key: Key
  readonly limits?: Partial<TinkerLimits>
  /**
   * Memory for the keys and values of each sampler with weights of its own. Default: that of
   * `makeLLMEngine`.
   */
  readonly cacheBytes?: number
  /**
   * Answers `/metrics` with the metrics of samplers, such as `metricsAnswer` of `@tandem-rl/serve`.
   * Default: there is no such path.
   */
  readonly metrics?: (engines: readonly ReportedSampler[]) => Promise<Response>
  readonly access?: { readonly apiKeys?: readonly string[]; readonly corsOrigins?: readonly string[] }
  /** Default: the real one. */
  readonly world?: Partial<TinkerWorld>
}

/** A Tinker server without a socket. */
export interface TinkerApp {
  readonly fetch: (request: Request) => Promise<Response>
  /** Reads the metrics of the samplers of each base model. */
  readonly metrics: () => Promise<readonly ReportedSampler[]>
  /** Ends all sessions and frees everything. Checkpoints stay. */
  readonly close: () => Promise<void>
}

const json = (body: object, status = 200): Response => Response.json(body, { status })

const refusal = ({ status, detail, category }: Refusal): Response => json({ detail, category }, status)

/** A body with the identity of its request. */
interface Body extends RawBody, Pick<Sent, 'digest' | 'key'> {}

const refusedAs = ({ status, reason }: RefusedBody): E.Either<Refusal, never> => refusedWith(status, reason)

const typeOf = (request: Request): string => {
  const [type = ''] = (request.headers.get('content-type') ?? '').split(';')
  return type.trim().toLowerCase()
}

const readRaw = async (request: Request, maxBytes: number): Promise<Answer<RawBody>> => {
  if (request.headers.get('content-encoding') !== null)
    return refusedWith(415, 'compressed bodies are not supported: client/config has proto_compress_fwdbwd false')
  const bytes = await readBodyBytes(request, maxBytes)
  if (E.isLeft(bytes)) return refusedWith(bytes.left.status, bytes.left.reason)
  return E.right({ bytes: bytes.right, type: typeOf(request) })
}

type PostRoute = (desk: Desk, body: Body, request: Request) => Promise<Answer<object | Response>>

/** A route with a small JSON body of a schema. */
const posted =
  <S extends z.ZodType>(
    schema: S,
    answer: (desk: Desk, body: z.output<S>, sent: Sent) => Answer | Promise<Answer>,
  ): PostRoute =>
  async (desk, body) => {
    const read = jsonBodyAs(body, schema)
    const { digest, key, bytes } = body
    return E.isLeft(read) ? refusedAs(read.left) : answer(desk, read.right, { digest, key, bytes: bytes.length })
  }

const createSession: PostRoute = posted(REQUESTS.create_session, async (desk) => {
  await sweep(desk)
  if (desk.sessions.size >= desk.limits.sessions)
    return refusedWith(429, `${desk.limits.sessions} sessions are open already`)
  const id = `s${desk.world.ids.fresh().slice(0, 12)}`
  desk.sessions.set(id, { id, owner: desk.owner, seenMs: cell(desk.world.clock.now()) })
  return E.right({ type: 'create_session', session_id: id })
})

/** The answer of a poll. A failed request is an answer with `error`, as on the hosted service. */
const retrieve: PostRoute = async (desk, body, request) => {
  const read = jsonBodyAs(body, REQUESTS.retrieve_future)
  if (E.isLeft(read)) return refusedAs(read.left)
  const { request_id: id } = read.right
  const now = await desk.futures.wait(id, desk.owner, desk.limits.pollMs)
  switch (now?._tag) {
    case undefined:
      return refusedWith(404, `there is no request ${id}: it is unknown, or the server was started again`)
    case 'Gone':
      return refusedWith(410, `the result of ${id} is no longer held: the request was carried out`)
    case 'Pending':
      return E.right(json({ type: 'try_again', request_id: id, queue_state: 'active', queue_state_reason: null }, 408))
    case 'Failed':
      return E.right({ error: now.reason, category: now.category })
    case 'Done': {
      const isRequested = (request.headers.get('accept') ?? '').includes(PROTOBUF)
      if (!isRequested || now.protobuf === null) return E.right(now.json())
      const bytes = now.protobuf() as Uint8Array<ArrayBuffer> // never a shared buffer
      return E.right(new Response(bytes, { headers: { 'content-type': PROTOBUF } }))
    }
  }
}

/** Characters of a digest that names a client. */
const OWNER_LENGTH = 32

/** Settings of the Python SDK: it sends protobuf without compression, and polls each request. */
const CLIENT_CONFIG = {
  pjwt_auth_enabled: false,
  parallel_fwdbwd_chunks: true,
  proto_compress_fwdbwd: false,
  sample_use_retrieve_futures: false,
  sample_max_concurrent_requests: 256,
  sample_enable_stuck_detection: false,
  create_model_via_load_weights: false,
  custom_loss_server_side: false,
  sample_join_sampling_session: false,
}

const POSTS: Readonly<Record<string, PostRoute>> = {
  '/client/config': async () => E.right(CLIENT_CONFIG),
  '/client/dynamic_config': async () => E.right({ refresh_interval_sec: 300, sample_cancel_enabled: true }),
  '/telemetry': async () => E.right({ status: 'accepted' }),
  '/create_session': createSession,
  '/session_heartbeat': posted(REQUESTS.session_heartbeat, (desk, body) =>
    E.map(() => ({ type: 'session_heartbeat' }))(sessionOf(desk, body.session_id)),
  ),
  '/create_model': posted(REQUESTS.create_model, createModel),
  '/get_info': posted(REQUESTS.model, modelInfo),
  '/unload_model': posted(REQUESTS.model, unloadModel),
  '/optim_step': posted(REQUESTS.optim_step, optimStep),
  '/save_weights': posted(REQUESTS.save_weights, saveWeights),
  '/load_weights': posted(REQUESTS.load_weights, loadModelWeights),
  '/save_weights_for_sampler': posted(REQUESTS.save_weights_for_sampler, saveWeightsForSampler),
  '/create_sampling_session': posted(REQUESTS.create_sampling_session, createSamplingSession),
  '/retrieve_future': retrieve,
  '/retrieve_futures': posted(REQUESTS.retrieve_futures, finishedFutures),
  '/cancel_future': posted(REQUESTS.cancel_future, cancelFutures),
  '/weights_info': posted(REQUESTS.weights_info, (desk, body) => weightsInfo(desk, body.tinker_path)),
}

/** Answers a request with data, which may be large. */
const answerData = async (desk: Desk, path: DataPath, request: Request): Promise<Answer> => {
  const raw = await readRaw(request, desk.limits.bodyBytes)
  if (E.isLeft(raw)) return raw
  const sent = { key: request.headers.get('x-idempotency-key'), bytes: raw.right.bytes.length }
  if (path === '/asample') {
    const read = await readData(path, raw.right, desk.bodies)
    if (E.isLeft(read)) return refusedAs(read.left)
    const { value, digest } = read.right
    return sample(desk, value, { ...sent, digest })
  }
  const read = await readData(path, raw.right, desk.bodies)
  if (E.isLeft(read)) return refusedAs(read.left)
  const { value, digest } = read.right
  return forwardBackward(desk, value, { ...sent, digest })
}

/** The routes with data. */
const DATA: readonly DataPath[] = ['/forward_backward', '/forward', '/asample']

const capabilities = ({ hosts }: Desk): object => ({
  supported_models: [...hosts.values()].map(({ name, model }) => ({
    model_name: name,
    max_context_length: model.config.maxPositions,
    trainable: true,
    sampleable: true,
  })),
})

/** The metrics of each model. Names of one model share its samplers. */
const metricsOf = ({ hosts }: Desk): ReturnType<TinkerApp['metrics']> => {
  const first = new Map([...hosts.values()].toReversed().map(({ name, samplers }) => [samplers, name]))
  return Promise.all(
    [...first].toReversed().map(async ([samplers, model]) => ({ model, ...(await samplers.metrics()) })),
  )
}

const got = async (desk: Desk, path: string, query: URLSearchParams): Promise<Answer<object> | undefined> => {
  if (path === '/healthz') return E.right({ status: 'ok', server: 'tandem' })
  if (path === '/get_server_capabilities') return E.right(capabilities(desk))
  if (path === '/checkpoints') return allCheckpoints(desk, query)
  if (path === '/training_runs') return trainingRuns(desk, query)
  if (path === '/sessions') {
    const own = [...desk.sessions.values()].filter(({ owner }) => owner === desk.owner)
    return E.right({ sessions: own.map(({ id }) => id) })
  }
  const [, sampler] = /^\/samplers\/([^/]+)$/.exec(path) ?? []
  if (sampler !== undefined) return samplerInfo(desk, sampler)
  const [, session] = /^\/sessions\/([^/]+)$/.exec(path) ?? []
  if (session === undefined) return undefined
  const owned = <T extends { readonly sessionId: string }>(all: ReadonlyMap<string, T>) =>
    [...all].filter(([, each]) => each.sessionId === session).map(([id]) => id)
  return desk.sessions.get(session)?.owner === desk.owner
    ? E.right({ training_run_ids: owned(desk.models), sampler_ids: owned(desk.samplers) })
    : refusedWith(404, `there is no session ${session}`)
}

const answerTo = async (desk: Desk, request: Request): Promise<Answer<object | Response>> => {
  const url = new URL(request.url)
  const path = url.pathname.replace(/^.*?\/api\/v1(?=\/)/, '')
  const run = await runRoute(desk, path, request)
  if (run !== undefined) return run
  if (request.method === 'GET')
    return (await got(desk, path, url.searchParams)) ?? refusedWith(404, `there is no route ${path}`)
  const [, finished] = /^\/sessions\/([^/]+)\/finish$/.exec(path) ?? []
  if (finished !== undefined) {
    if (desk.sessions.has(finished) && desk.sessions.get(finished)?.owner !== desk.owner)
      return refusedWith(404, `there is no session ${finished}`)
    await closeSession(desk, finished)
    return E.right(new Response(null, { status: 204 }))
  }
  const data = DATA.find((each) => each === path)
  if (data !== undefined && request.method === 'POST') return answerData(desk, data, request)
  const route = Object.hasOwn(POSTS, path) ? POSTS[path] : undefined
  if (route === undefined || request.method !== 'POST')
    return refusedWith(404, `there is no route ${request.method} ${path} on this server`)
  const raw = await readRaw(request, Math.min(desk.limits.bodyBytes, SMALL_BODY))
  if (E.isLeft(raw)) return raw
  const sent = { digest: liveDigest(raw.right.bytes), key: request.headers.get('x-idempotency-key') }
  return route(desk, { ...raw.right, ...sent }, request)
}

/** The desk as a client without an API key sees it. */
const deskOf = (options: TinkerServerOptions): Desk => {
  const limits = { ...TINKER_LIMITS, ...options.limits }
  const world: TinkerWorld = {
    clock: liveClock,
    timers: liveTimers,
    calendar: liveCalendar,
    ids: liveIds,
    memory: liveMemory,
    report: reportError,
    ...options.world,
  }
  const { cacheBytes: memoryBytes } = options
  const samplers = new Map<Pretrained, Samplers>()
  for (const model of Object.values(options.models))
    if (!samplers.has(model)) samplers.set(model, makeSamplers(model, memoryBytes === undefined ? {} : { memoryBytes }))
  const hosts = Object.entries(options.models).map(
    ([name, model]) =>
      [
        name,
        {
          name,
          model,
          trainer: modelTrainer(model, MASKED_LOSSES),
          samplers: samplers.get(model)!,
        },
      ] as const,
  )
  return {
    hosts: new Map(hosts),
    sessions: new Map(),
    models: new Map(),
    samplers: new Map(),
    repeated: new Map(),
    futures: makeFutures(world.timers, { ...limits, known: 8 * limits.results }),
    owner: null,
    checkpoints: makeCheckpoints(options.checkpoints, { files: liveFiles, calendar: world.calendar, owner: null }),
    limits,
    world,
    bodies: dataThread(),
    nextKey: requestKeys(options.key),
  }
}

/**
 * A server of the Tinker protocol: clients train adapters or all weights of the given models, and
 * sample from them.
 *
 * Errors   every failure of a request is a response: 4xx with `detail` for what a client may
 *          change. Throws RangeError for unknown options.
 * Effects  holds models, samplers and results within `limits`; writes checkpoints to a folder.
 * Source   the Python SDK `tinker` 0.38. Differences are in `docs/guide/34-tinker.md`.
 */
export const tinkerApp = (options: TinkerServerOptions): TinkerApp => {
  checkOptions('tinkerApp', options, TINKER_APP_OPTIONS)
  const desk = deskOf(options)
  const { apiKeys = [], corsOrigins = [] } = options.access ?? {}
  /** With several keys, each client has a desk of its own. */
  const deskFor = ({ headers }: Request): Desk => {
    const key = givenKey(headers)
    if (key === undefined || apiKeys.length < 2) return desk
    const owner = liveDigest(`Tinker client ${key}`).slice(0, OWNER_LENGTH)
    const { calendar } = desk.world
    return { ...desk, owner, checkpoints: makeCheckpoints(options.checkpoints, { files: liveFiles, calendar, owner }) }
  }
  const isAllowed = async ({ headers }: Request): Promise<boolean> =>
    apiKeys.length === 0 || isAuthorized(givenKey(headers), apiKeys)
  return {
    metrics: () => metricsOf(desk),
    fetch: async (request) => {
      if (request.method !== 'GET' && !mayCome(request.headers, corsOrigins))
        return refusal({ status: 403, detail: 'requests from pages of this origin are not allowed', category: 'user' })
      if (!(await isAllowed(request)))
        return refusal({ status: 401, detail: 'the API key is missing or wrong', category: 'user' })
      try {
        const isScrape = request.method === 'GET' && new URL(request.url).pathname === '/metrics'
        if (isScrape && options.metrics !== undefined) return await options.metrics(await metricsOf(desk))
        const answer = await answerTo(deskFor(request), request)
        if (E.isLeft(answer)) return refusal(answer.left)
        return answer.right instanceof Response ? answer.right : json(answer.right)
      } catch (error) {
        desk.world.report(error)
        return refusal({ status: 500, detail: 'internal error of the server', category: 'server' })
      }
    },
    close: async () => {
      await Promise.all([...desk.sessions.keys()].map((id) => closeSession(desk, id)))
      await Promise.all([...desk.models.keys()].map((id) => closeModel(desk, id)))
      await Promise.all([...desk.samplers.keys()].map((id) => closeSampler(desk, id)))
      for (const { trainer, samplers } of desk.hosts.values()) {
        trainer.release()
        await samplers.close()
      }
    },
  }
}
