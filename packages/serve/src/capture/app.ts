/**
 * A proxy for agents with the API of an ordinary server. It records what the engine sampled for
 * them.
 */
import { type Clock, checkOptions, child, type Key } from '@tandem-rl/base'
import { liveCalendar, liveClock, liveIds } from '@tandem-rl/base/host'
import { givenKey, isAuthorized, reportError, SMALL_BODY } from '@tandem-rl/host'
import { type CapturedSession, callJson, type SessionEnd, table } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { serveApp } from '../app.js'
import { readJsonBody, readJsonBytes } from '../bodies/body.js'
import { readBody } from '../bodies/bodyThread.js'
import { CAPTURE_APP_OPTIONS } from '../optionKinds.js'
import { type ApiFailure, apiFailure, failureResponse, jsonResponse } from '../requests/failure.js'
import { parseFields } from '../requests/fields.js'
import { REQUEST_LIMITS } from '../requests/limits.js'
import { DEFAULT_LIMITS, relaxedChoices, type ServedModel, type ServeOptions } from '../requests/served.js'
import { promptThread } from '../routes/promptThread.js'
import type { PromptPath } from '../routes/readers.js'
import { answerCall, type CaptureCallOptions } from './calls.js'
import { type CaptureJournal, noJournal } from './journal.js'
import { oneVersion, pathInSession, SAMPLING, sessionPath } from './paths.js'
import { summary, trajectoriesJson } from './sessionJson.js'
import {
  type CaptureLimits,
  DEFAULT_CAPTURE_LIMITS,
  type LiveSession,
  makeSessions,
  type SamplingOverride,
} from './sessions.js'

export interface CaptureOptions {
  /** A call that names an unknown session creates it, or is refused with 404. Default `create`. */
  readonly unknown?: 'create' | 'refuse'
  /**
   * `tokens`: a continued conversation keeps the sampled tokens, and only new messages are encoded.
   * `render`: every request is rendered and encoded again, as by an ordinary server; replies may
   * then be encoded to other tokens, which splits trajectories. Default `tokens`.
   */
  readonly continuation?: 'tokens' | 'render'
  /** Sampling that takes the place of what agents ask for, such as the temperature. */
  readonly sampling?: CaptureCallOptions['sampling']
  readonly limits?: Partial<CaptureLimits>
  /** The journal of all sessions. Default: none. */
  readonly journal?: CaptureJournal
  /** Sessions to continue. */
  readonly restored?: readonly CapturedSession[]
  readonly clock?: Pick<Clock, 'now'>
}

/** A session to open. */
interface SessionOptions {
  readonly id: string
  /** Default: the id. */
  readonly group?: string
  readonly metadata?: CapturedSession['metadata']
  /** Sampling of the session's calls, whatever they request. Default: that of the proxy. */
  readonly sampling?: SamplingOverride
  /**
   * Random key of all calls, whatever seeds they request. Default: their seeds, else the proxy's
   * key.
   */
  readonly key?: Key
}

/** A capture proxy without a socket. */
export interface CaptureApp {
  /**
   * Opens a session. Returns the path that its calls begin with and its key, or `Left(ApiFailure)`
   * for an id that is taken and where a limit is reached.
   */
  readonly open: (session: SessionOptions) => Promise<E.Either<ApiFailure, OpenedSession>>
  /**
   * Ends a session: later calls are refused, and unanswered ones are aborted, which fails the
   * session. Returns it, or `null` if it was dropped.
   */
  readonly finish: (id: string, end: SessionEnd) => Promise<CapturedSession | null>
  readonly fetch: (request: Request) => Promise<Response>
  /** Requests that are in the engine. */
  readonly inFlight: () => number
  /** All sessions that are held. */
  readonly sessions: () => readonly CapturedSession[]
  /** Forgets sessions, such as those that were learned from. */
  readonly drop: (ids: readonly string[]) => Promise<void>
}

/** The address of an open session. */
interface OpenedSession {
  readonly path: string
  readonly apiKey: string
}

type Answer = E.Either<ApiFailure, Response>

const SESSION_ID = /^[A-Za-z0-9._-]{1,128}$/

const idText = z.string().regex(SESSION_ID, 'expected 1 to 128 letters, digits, dots, underscores and hyphens')

const openSchema = z.strictObject({
  session_id: idText.nullish(),
  group_id: z.string().min(1).max(256).nullish(),
  metadata: table(z.unknown(), REQUEST_LIMITS.fields).nullish(),
})

const rewardSchema = z.strictObject({ reward: z.number(), parts: table(z.number(), REQUEST_LIMITS.fields).nullish() })

const finishSchema = z.strictObject({
  status: z.enum(['ok', 'failed']).nullish(),
  reason: z.string().max(2000).nullish(),
})

const SESSION_KEY = /^sk-session-(.*)$/i

const keyOf = ({ session, secret }: LiveSession, apiKeys: readonly string[]): string =>
  apiKeys.length === 0 ? `sk-session-${session.id}` : `sk-session-${session.id}.${secret}`

/** Returns `other` for a request that names another model than the served one. */
const namedModel = (body: unknown, { names }: ServedModel): 'own' | 'other' => {
  const named = typeof body === 'object' && body !== null && 'model' in body ? body.model : undefined
  return typeof named !== 'string' || names.includes(named) ? 'own' : 'other'
}

const notThere = (path: string): E.Either<ApiFailure, never> => E.left(apiFailure(404, `There is no ${path} here.`))

const unauthorized = (): E.Either<ApiFailure, never> =>
  E.left({ ...apiFailure(401, 'Unauthorized'), type: 'AuthenticationError' })

/** The same request for another path. */
const withPath = ({ url: given, method, headers, signal, body }: Request, path: string): Request => {
  const url = new URL(given)
  url.pathname = path // assigned, not resolved: the path may look like a URL
  const hasBody = method !== 'GET' && method !== 'HEAD'
  return new Request(url, { method, headers, signal, ...(hasBody && { body, duplex: 'half' }) })
}

/** The fields of a small body; an absent one has none. */
const fieldsOf = async <T>(request: Request, schema: z.ZodType<T>): Promise<E.Either<ApiFailure, T>> => {
  const isEmpty = request.headers.get('content-length') === '0' || request.headers.get('content-type') === null
  const body = isEmpty ? E.right({}) : await readJsonBody(request, { maxBytes: SMALL_BODY })
  return E.isLeft(body) ? body : parseFields(schema, body.right)
}

/**
 * A capture proxy over an engine, as a function from requests to responses.
 *
 * Agents use any client of OpenAI's API with the base URL `/sessions/ID/v1`, the header
 * `x-session-id`, or the key `sk-session-ID`. The model answers to every name, unless
 * `model.others` is `refuse`; `/health` counts calls with other names. Endpoints such as
 * `/v1/models` and `/tokenize` respond as without the proxy. `POST /sessions` opens a session,
 * `POST /sessions/ID/reward` and `/finish` end it, `GET /sessions/ID`, `/traces` and
 * `/trajectories` return the captured data, and `DELETE` deletes it. With API keys set, those grant
 * full access, and the key returned by `POST /sessions` grants agents access to that session only.
 *
 * Errors   every failure of a request is a response in vLLM's form. Throws RangeError for unknown
 *          options.
 * Effects  runs requests in the engine. Holds sessions within the limits, and writes them to the
 *          journal.
 */
export const captureApp = (server: ServeOptions, options: CaptureOptions = {}): CaptureApp => {
  checkOptions('captureApp', options, CAPTURE_APP_OPTIONS)
  const serve: ServeOptions = { ...server, model: { others: 'answer', ...server.model } }
  const { unknown = 'create', continuation = 'tokens', sampling = {}, journal = noJournal, clock = liveClock } = options
  const world = { calendar: liveCalendar, ids: liveIds, report: reportError, ...serve.world }
  const apiKeys = serve.access?.apiKeys ?? []
  const maxBytes = serve.limits?.maxBodyBytes ?? DEFAULT_LIMITS.maxBodyBytes
  const relaxed = serve.relaxedChoices ?? relaxedChoices()
  const plain = serveApp({
    ...serve,
    relaxedChoices: relaxed,
    access: { ...serve.access, apiKeys: [] },
    features: { ...serve.features, control: 'off', readAdapter: null },
  })
  const { maxModelLength } = serve.engine.info
  const bodies = promptThread({ text: serve.text, maxModelLength, limits: { ...DEFAULT_LIMITS, ...serve.limits } })
  const sessions = makeSessions(
    { ...DEFAULT_CAPTURE_LIMITS, ...options.limits },
    {
      clock,
      journal,
      restored: (options.restored ?? []).map((session) => ({ session, secret: world.ids.fresh() })),
    },
  )
  const calls: CaptureCallOptions = { serve, relaxed, sessions, clock, world, continuation, sampling }
  const decode = (ids: Int32Array): string => serve.text.tokenizer.decode(ids, 'keep')

  const isOpen = async (request: Request, keys: readonly string[]): Promise<boolean> =>
    apiKeys.length === 0 || isAuthorized(givenKey(request.headers), keys)

  const openSession = ({ id, group = id, metadata = {}, ...more }: SessionOptions) =>
    sessions.open({ id, group, metadata, createdAt: world.calendar.today().getTime(), ...more }, world.ids.fresh())

  /** The session that a call is for: it may be made here, by whoever has an API key. */
  const sessionFor = async (request: Request, id: string): Promise<E.Either<ApiFailure, LiveSession>> => {
    const live = sessions.get(id)
    const keys = live === undefined ? apiKeys : [...apiKeys, keyOf(live, apiKeys)]
    if (!(await isOpen(request, keys))) return unauthorized()
    if (live !== undefined) return E.right(live)
    if (!SESSION_ID.test(id)) return E.left(apiFailure(400, `'${id.slice(0, 200)}' is no id of a session.`))
    return unknown === 'create' ? openSession({ id }) : E.left(apiFailure(404, `There is no session '${id}'.`))
  }

  /** The id in a header or in a key. */
  const namedSession = (request: Request): string | undefined => {
    const named = request.headers.get('x-session-id')
    if (named !== null) return named
    const [, key] = SESSION_KEY.exec(givenKey(request.headers) ?? '') ?? []
    return key === undefined || apiKeys.length === 0 ? key : key.slice(0, Math.max(0, key.lastIndexOf('.')))
  }

  const call = async (request: Request, live: LiveSession, path: PromptPath): Promise<Answer> => {
    const may = sessions.mayCall(live)
    if (E.isLeft(may)) return may
    const bytes = await readJsonBytes(request, { maxBytes })
    if (E.isLeft(bytes)) return bytes
    const reading = { thread: bodies, reader: path, gives: 'json', here: (json: unknown) => E.right(json) } as const
    const body = await readBody(bytes.right, reading)
    if (E.isLeft(body)) return body
    const key = child(
      live.key ?? child(serve.key, live.session.id),
      sessions.asks(live, namedModel(body.right, serve.model)),
    )
    return E.right(await answerCall({ live, path, body: body.right, request, key }, calls))
  }

  /** Returns the response of the server behind the proxy. */
  const pass = (request: Request, path: string): Promise<Response> => plain.fetch(withPath(request, path))

  const open = async (request: Request): Promise<Answer> => {
    const fields = await fieldsOf(request, openSchema)
    if (E.isLeft(fields)) return fields
    const { session_id: id, group_id: group, metadata } = fields.right
    const live = await openSession({
      id: id ?? world.ids.fresh(),
      ...(group != null && { group }),
      ...(metadata != null && { metadata }),
    })
    return E.map((opened: LiveSession) =>
      jsonResponse(
        {
          session_id: opened.session.id,
          base_url: new URL(`/sessions/${opened.session.id}/v1`, request.url).href,
          api_key: keyOf(opened, apiKeys),
        },
        201,
      ),
    )(live)
  }

  const reward = async (request: Request, live: LiveSession): Promise<Answer> => {
    const fields = await fieldsOf(request, rewardSchema)
    if (E.isLeft(fields)) return fields
    await sessions.reward(live, { total: fields.right.reward, parts: fields.right.parts ?? {} })
    return E.right(jsonResponse(summary(live)))
  }

  const finish = async (request: Request, live: LiveSession): Promise<Answer> => {
    const fields = await fieldsOf(request, finishSchema)
    if (E.isLeft(fields)) return fields
    if (live.running > 0) {
      const reason = `The session '${live.session.id}' has ${live.running} calls that are not answered yet.`
      return E.left({ ...apiFailure(409, reason), type: 'ConflictError' })
    }
    await sessions.end(live, { status: fields.right.status ?? 'ok', reason: fields.right.reason ?? null })
    return E.right(jsonResponse(summary(live)))
  }

  const drop = async (live: LiveSession): Promise<Answer> => {
    await sessions.drop(live)
    return E.right(new Response(null, { status: 204 }))
  }

  const ADMIN: Readonly<Record<string, (request: Request, live: LiveSession) => Promise<Answer> | Answer>> = {
    'GET ': (_, live) => E.right(jsonResponse(summary(live))),
    'DELETE ': (_, live) => drop(live),
    'GET /traces': (_, { session }) =>
      E.right(jsonResponse({ ...session, session_id: session.id, calls: session.calls.map(callJson) })),
    'GET /trajectories': (_, { session }) => E.right(jsonResponse(trajectoriesJson(session, decode))),
    'POST /reward': reward,
    'POST /finish': finish,
  }

  const health = async (request: Request): Promise<Answer> => {
    const { status } = await pass(request, '/health')
    const body = {
      status: status === 200 ? 'ok' : 'the engine does not answer',
      journal: journal.problem(),
      ...sessions.counts(),
      ...(serve.features?.toolChoiceRequired === 'auto' && { relaxed_tool_choices: relaxed.count() }),
    }
    return E.right(jsonResponse(body, status))
  }

  const administer = async (request: Request, path: string): Promise<Answer> => {
    if (!(await isOpen(request, apiKeys))) return unauthorized()
    if (path === '/sessions') {
      if (request.method === 'POST') return open(request)
      return request.method === 'GET' ? E.right(jsonResponse({ data: sessions.list().map(summary) })) : notThere(path)
    }
    const { id, rest } = sessionPath(path)!
    const handler = ADMIN[`${request.method} ${rest}`]
    if (handler === undefined) return notThere(`${request.method} ${path}`)
    const live = sessions.get(id)
    return live === undefined
      ? E.left(apiFailure(404, `There is no session '${id.slice(0, 200)}'.`))
      : handler(request, live)
  }

  const route = async (request: Request): Promise<Answer> => {
    const { pathname } = new URL(request.url)
    if (pathname === '/health') return health(request)
    const below = sessionPath(pathname)
    const path = below === undefined ? oneVersion(pathname) : below.rest
    const isModel = path.startsWith('/v1/') || path.startsWith('/inference/')
    if (pathname === '/sessions' || (below !== undefined && !isModel)) return administer(request, pathname)
    const sampled = SAMPLING.find((each) => each === path)
    if (sampled === undefined || request.method !== 'POST') {
      const isKnown = !isModel || request.method === 'OPTIONS' || (await mayLook(request, below?.id))
      return isKnown ? E.right(await pass(request, path)) : unauthorized()
    }
    const id = below?.id ?? namedSession(request)
    if (id === undefined) {
      const reason =
        'The call names no session: use /sessions/ID/v1 as base address, the header x-session-id, or the key sk-session-ID.'
      return E.left(apiFailure(400, reason))
    }
    const live = await sessionFor(request, id)
    return E.isLeft(live) ? live : call(request, live.right, sampled)
  }

  /** Returns true if models may be listed: with any key that may sample. */
  const mayLook = (request: Request, id: string | undefined): Promise<boolean> => {
    const live = sessions.get(id ?? namedSession(request) ?? '')
    return isOpen(request, live === undefined ? apiKeys : [...apiKeys, keyOf(live, apiKeys)])
  }

  return {
    fetch: async (request) => {
      try {
        const answer = await route(request)
        return E.isLeft(answer) ? failureResponse(answer.left, pathInSession(request)) : answer.right
      } catch (error) {
        world.report(error)
        return failureResponse(apiFailure(500, 'Internal server error'), pathInSession(request))
      }
    },
    open: async (session) =>
      E.map((live: LiveSession) => ({ path: `/sessions/${session.id}/v1`, apiKey: keyOf(live, apiKeys) }))(
        await openSession(session),
      ),
    finish: async (id, given) => {
      const live = sessions.get(id)
      if (live === undefined) return null
      const { running } = live
      const reason = `the program ended while ${running} ${running === 1 ? 'call was' : 'calls were'} unanswered`
      await sessions.end(live, given.status === 'ok' && running > 0 ? { status: 'failed', reason } : given)
      return live.session
    },
    inFlight: () => sessions.counts().running,
    sessions: () => sessions.list().map(({ session }) => session),
    drop: async (ids) => {
      for (const id of ids) {
        const live = sessions.get(id)
        if (live !== undefined) await sessions.drop(live)
      }
    },
  }
}
