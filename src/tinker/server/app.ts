/** The Tinker server as a function from requests to responses. */
import * as E from 'fp-ts/lib/Either.js'
import type { z } from 'zod'
import { cell } from '../../core/cell.js'
import type { Key } from '../../core/key.js'
import { aRecord, aText, checkOptions, type OptionKinds } from '../../core/options.js'
import { liveCalendar, liveClock, liveTimers } from '../../live/clock.js'
import { liveDigest } from '../../live/digest.js'
import { liveFiles } from '../../live/files.js'
import { liveIds } from '../../live/ids.js'
import type { Pretrained } from '../../modules/pretrained/pretrained.js'
import { givenKey, isAuthorized, mayCome } from '../../serve/access.js'
import { parseJsonBody, readBodyBytes } from '../../serve/body.js'
import { forwardBackwardSchema, forwardSchema, REQUESTS } from '../protocol/jsonWire.js'
import { decodeForwardBackward, PROTOBUF } from '../protocol/protobufWire.js'
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
import { makeSamplers } from './samplers.js'
import { cancelFutures, createSamplingSession, finishedFutures, sample, samplerInfo } from './samplingRoutes.js'
import { makeArithmetic } from './trainer.js'
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
  readonly access?: { readonly apiKeys?: readonly string[]; readonly corsOrigins?: readonly string[] }
  /** Default: the real one. */
  readonly world?: Partial<TinkerWorld>
}

/** A Tinker server without a socket. */
export interface TinkerApp {
  readonly fetch: (request: Request) => Promise<Response>
  /** Ends all sessions and frees everything. Checkpoints stay. */
  readonly close: () => Promise<void>
}

const OPTIONS: OptionKinds<TinkerServerOptions> = {
  ...{ models: aRecord, checkpoints: aText, key: aRecord },
  ...{ limits: aRecord, access: aRecord, world: aRecord },
}

const json = (body: object, status = 200): Response => Response.json(body, { status })

const refusal = ({ status, detail, category }: Refusal): Response => json({ detail, category }, status)

const problemsOf = (error: z.ZodError): string =>
  error.issues
    .slice(0, 5)
    .map(({ path, message }) => `${path.join('.')}: ${message}`)
    .join('; ')

const parsed = <S extends z.ZodType>(schema: S, body: unknown): Answer<z.output<S> & object> => {
  const read = schema.safeParse(body)
  return read.success ? E.right(read.data as z.output<S> & object) : refusedWith(422, problemsOf(read.error)) // all bodies are objects
}

/** The bytes of a body, and what they say about themselves. */
interface Body extends Sent {
  readonly bytes: Uint8Array
  readonly type: string
}

const readBody = async (desk: Desk, request: Request): Promise<Answer<Body>> => {
  if (request.headers.get('content-encoding') !== null)
    return refusedWith(415, 'compressed bodies are not supported: client/config has proto_compress_fwdbwd false')
  const bytes = await readBodyBytes(request, desk.limits.bodyBytes)
  if (E.isLeft(bytes)) return refusedWith(bytes.left.status, bytes.left.reason)
  const [type = ''] = (request.headers.get('content-type') ?? '').split(';')
  return E.right({
    ...{ bytes: bytes.right, type: type.trim().toLowerCase(), digest: liveDigest(bytes.right) },
    key: request.headers.get('x-idempotency-key'),
  })
}

const jsonBody = ({ bytes, type }: Body): Answer<object> => {
  if (type !== 'application/json')
    return refusedWith(415, `the content type must be application/json, got ${type || 'none'}`)
  const read = parseJsonBody(bytes)
  if (E.isLeft(read)) return refusedWith(400, read.left.reason)
  return typeof read.right === 'object' && read.right !== null
    ? E.right(read.right)
    : refusedWith(422, 'the body must be an object')
}

type PostRoute = (desk: Desk, body: Body, request: Request) => Promise<Answer<object | Response>>

/** A route with a JSON body of a schema. */
const posted =
  <S extends z.ZodType>(
    schema: S,
    answer: (desk: Desk, body: z.output<S>, sent: Sent) => Answer | Promise<Answer>,
  ): PostRoute =>
  async (desk, body) => {
    const read = jsonBody(body)
    if (E.isLeft(read)) return read
    const checked = parsed(schema, read.right)
    return E.isLeft(checked) ? checked : answer(desk, checked.right, { digest: body.digest, key: body.key })
  }

const lossRoute =
  (schema: typeof forwardBackwardSchema | typeof forwardSchema): PostRoute =>
  async (desk, body) => {
    const sent = { digest: body.digest, key: body.key }
    if (body.type === PROTOBUF) {
      const decoded = decodeForwardBackward(body.bytes)
      return E.isLeft(decoded) ? refusedWith(422, decoded.left.reason) : forwardBackward(desk, decoded.right, sent)
    }
    const read = jsonBody(body)
    if (E.isLeft(read)) return read
    const checked = parsed(schema, read.right)
    return E.isLeft(checked) ? checked : forwardBackward(desk, checked.right, sent)
  }

const createSession: PostRoute = posted(REQUESTS.create_session, async (desk) => {
  await sweep(desk)
  if (desk.sessions.size >= desk.limits.sessions)
    return refusedWith(429, `${desk.limits.sessions} sessions are open already`)
  const id = `s${desk.world.ids.fresh().slice(0, 12)}`
  desk.sessions.set(id, { id, seenMs: cell(desk.world.clock.now()) })
  return E.right({ type: 'create_session', session_id: id })
})

/** The answer of a poll. A failed request is an answer with `error`, as on the hosted service. */
const retrieve: PostRoute = async (desk, body, request) => {
  const read = jsonBody(body)
  if (E.isLeft(read)) return read
  const checked = parsed(REQUESTS.retrieve_future, read.right)
  if (E.isLeft(checked)) return checked
  const { request_id: id } = checked.right
  const now = await desk.futures.wait(id, desk.limits.pollMs)
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
      const isAsked = (request.headers.get('accept') ?? '').includes(PROTOBUF)
      if (!isAsked || now.protobuf === null) return E.right(now.json())
      const bytes = now.protobuf() as Uint8Array<ArrayBuffer> // never a shared buffer
      return E.right(new Response(bytes, { headers: { 'content-type': PROTOBUF } }))
    }
  }
}

/** Settings of the Python SDK: it sends protobuf without compression, and polls each request. */
const CLIENT_CONFIG = {
  ...{ pjwt_auth_enabled: false, parallel_fwdbwd_chunks: true, proto_compress_fwdbwd: false },
  ...{ sample_use_retrieve_futures: false, sample_max_concurrent_requests: 256, sample_enable_stuck_detection: false },
  ...{ create_model_via_load_weights: false, custom_loss_server_side: false, sample_join_sampling_session: false },
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
  '/forward_backward': lossRoute(forwardBackwardSchema),
  '/forward': lossRoute(forwardSchema),
  '/optim_step': posted(REQUESTS.optim_step, optimStep),
  '/save_weights': posted(REQUESTS.save_weights, saveWeights),
  '/load_weights': posted(REQUESTS.load_weights, loadModelWeights),
  '/save_weights_for_sampler': posted(REQUESTS.save_weights_for_sampler, saveWeightsForSampler),
  '/create_sampling_session': posted(REQUESTS.create_sampling_session, createSamplingSession),
  '/asample': posted(REQUESTS.asample, sample),
  '/retrieve_future': retrieve,
  '/retrieve_futures': posted(REQUESTS.retrieve_futures, finishedFutures),
  '/cancel_future': posted(REQUESTS.cancel_future, cancelFutures),
  '/weights_info': posted(REQUESTS.weights_info, (desk, body) => weightsInfo(desk, body.tinker_path)),
}

const capabilities = ({ hosts }: Desk): object => ({
  supported_models: [...hosts.values()].map(({ name, model }) => ({
    ...{ model_name: name, max_context_length: model.config.maxPositions, trainable: true, sampleable: true },
  })),
})

const got = async (desk: Desk, path: string, query: URLSearchParams): Promise<Answer<object> | undefined> => {
  if (path === '/healthz') return E.right({ status: 'ok', server: 'tandem' })
  if (path === '/get_server_capabilities') return E.right(capabilities(desk))
  if (path === '/checkpoints') return allCheckpoints(desk, query)
  if (path === '/training_runs') return trainingRuns(desk, query)
  if (path === '/sessions') return E.right({ sessions: [...desk.sessions.keys()] })
  const [, sampler] = /^\/samplers\/([^/]+)$/.exec(path) ?? []
  if (sampler !== undefined) return samplerInfo(desk, sampler)
  const [, session] = /^\/sessions\/([^/]+)$/.exec(path) ?? []
  if (session === undefined) return undefined
  const owned = <T extends { readonly sessionId: string }>(all: ReadonlyMap<string, T>) =>
    [...all].filter(([, each]) => each.sessionId === session).map(([id]) => id)
  return desk.sessions.has(session)
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
    await closeSession(desk, finished)
    return E.right(new Response(null, { status: 204 }))
  }
  const route = Object.hasOwn(POSTS, path) ? POSTS[path] : undefined
  if (route === undefined || request.method !== 'POST')
    return refusedWith(404, `there is no route ${request.method} ${path} on this server`)
  const body = await readBody(desk, request)
  return E.isLeft(body) ? body : route(desk, body.right, request)
}

const deskOf = (options: TinkerServerOptions): Desk => {
  const limits = { ...TINKER_LIMITS, ...options.limits }
  const world: TinkerWorld = {
    ...{ clock: liveClock, timers: liveTimers, calendar: liveCalendar, ids: liveIds, report: console.error },
    ...options.world,
  }
  const hosts = Object.entries(options.models).map(
    ([name, model]) =>
      [
        name,
        {
          name,
          model,
          trainer: makeArithmetic(model.config, limits.microBatchTokens),
          samplers: makeSamplers(model, {}),
        },
      ] as const,
  )
  return {
    hosts: new Map(hosts),
    ...{ sessions: new Map(), models: new Map(), samplers: new Map(), repeated: new Map() },
    futures: makeFutures(world.timers, { pending: limits.pending, results: limits.results, known: 8 * limits.results }),
    checkpoints: makeCheckpoints(options.checkpoints, liveFiles, world.calendar),
    limits,
    world,
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
  checkOptions('tinkerApp', options, OPTIONS)
  const desk = deskOf(options)
  const { apiKeys = [], corsOrigins = [] } = options.access ?? {}
  const isAllowed = async ({ headers }: Request): Promise<boolean> =>
    apiKeys.length === 0 || isAuthorized(givenKey(headers), apiKeys)
  return {
    fetch: async (request) => {
      if (request.method !== 'GET' && !mayCome(request.headers, corsOrigins))
        return refusal({ status: 403, detail: 'requests from pages of this origin are not allowed', category: 'user' })
      if (!(await isAllowed(request)))
        return refusal({ status: 401, detail: 'the API key is missing or wrong', category: 'user' })
      try {
        const answer = await answerTo(desk, request)
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
