/** A server of environments in OpenEnv's form: functions from requests and frames to responses. */
import { checkOptions, type FrameReply, type FrameSession, type OpenFrames } from '@tandem-rl/base'
import { SMALL_BODY } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskSource } from 'tandem-rl'
import { type Access, accessProblem } from '../access.js'
import { readJsonBody, readJsonBytes } from '../bodies/body.js'
import { type BodyThread, readBody } from '../bodies/bodyThread.js'
import { OPENENV_APP_OPTIONS } from '../optionKinds.js'
import { apiFailure, failureResponse, jsonResponse } from '../requests/failure.js'
import { type Episodes, type Observed, type PlayFailure, playEpisodes, type ServedEnv } from './episode.js'
import { openEnvSchemas, playThread, readPlay } from './schemas.js'

/** The options of a server of environments. */
export interface OpenEnvOptions extends ServedEnv {
  /** Name of the environment for clients. */
  readonly name: string
  readonly description?: string
  /** Most sessions at a time. Default 256. */
  readonly maxSessions?: number
  /** Largest HTTP request in bytes. Default 32 MiB. */
  readonly maxBodyBytes?: number
  readonly access?: Access
}

/** A server of environments without sockets. */
export interface OpenEnvApp {
  readonly fetch: (request: Request) => Promise<Response>
  /** Opens a session for a WebSocket connection to `/ws`. */
  readonly frames: OpenFrames
  /** Number of open sessions. */
  readonly sessions: () => number
}

const errorFrame = (code: string, message: string, details: object = {}): string =>
  JSON.stringify({ type: 'error', data: { message, code, ...details } })

const answered = (result: E.Either<PlayFailure, Observed>): FrameReply => ({
  text: E.isLeft(result)
    ? errorFrame(result.left.code, result.left.reason)
    : JSON.stringify({ type: 'observation', data: result.right }),
})

const receive = async (
  episodes: Episodes,
  text: string,
  { signal, thread }: { readonly signal: AbortSignal; readonly thread: BodyThread },
): Promise<FrameReply> => {
  const read = await readBody(text, { thread, reader: 'frame', here: readPlay.frame })
  if (E.isLeft(read)) return { text: errorFrame('INVALID_JSON', read.left.reason) }
  const frame = read.right
  if (E.isLeft(frame)) {
    const { problems: errors, isUnknown } = frame.left
    if (isUnknown) return { text: errorFrame('UNKNOWN_TYPE', 'type must be reset, step, state or close') }
    return { text: errorFrame('VALIDATION_ERROR', 'Invalid message', { errors }) }
  }
  const data = frame.right
  if (data.type === 'close') return { connection: 'close' }
  if (data.type === 'state') return { text: JSON.stringify({ type: 'state', data: episodes.state() }) }
  if (data.type === 'reset') return answered(await episodes.reset(data.data))
  return answered(await episodes.step(data.data.message, signal))
}

/** Paths of OpenEnv's routes with their methods. */
const ROUTES = {
  '/reset': 'POST',
  '/step': 'POST',
  '/mcp': 'POST',
  '/state': 'GET',
  '/metadata': 'GET',
  '/health': 'GET',
  '/schema': 'GET',
  '/openapi.json': 'GET',
} as const

const openApi = (name: string) => ({
  openapi: '3.1.0',
  info: { title: name, version: '1.0.0' },
  paths: Object.fromEntries(
    Object.entries(ROUTES).map(([path, method]) => [
      path,
      { [method.toLowerCase()]: { responses: { 200: { description: 'Success' } } } },
    ]),
  ),
})

/** The answer to every request for tools: these environments offer none by MCP. */
const noTools = async (request: Request): Promise<Response> => {
  const body = await readJsonBody(request, { maxBytes: SMALL_BODY })
  const sent = E.isRight(body) && typeof body.right === 'object' && body.right !== null ? body.right : {}
  const id = 'id' in sent && (typeof sent.id === 'string' || typeof sent.id === 'number') ? sent.id : null
  return jsonResponse({ jsonrpc: '2.0', id, error: { code: -32601, message: 'Environment does not support MCP' } })
}

/** Plays a reset, and a step if the path has one, in an episode of its own. */
const playOnce = async (
  path: '/reset' | '/step',
  request: Request,
  world: { readonly episodes: Episodes; readonly maxBytes: number; readonly thread: BodyThread },
): Promise<Response> => {
  const { episodes, maxBytes, thread } = world
  const isEmpty = request.headers.get('content-type') === null
  const body = isEmpty ? E.right('{}') : await readJsonBytes(request, { maxBytes })
  if (E.isLeft(body)) return failureResponse(body.left)
  const read =
    path === '/step'
      ? await readBody(body.right, { thread, reader: 'step', here: readPlay.step })
      : await readBody(body.right, { thread, reader: 'reset', here: readPlay.reset })
  if (E.isLeft(read)) return failureResponse(read.left)
  if (E.isLeft(read.right)) return jsonResponse({ detail: read.right.left.problems }, 422)
  const { action, timeout_s: _timeout, request_id: _id, ...fields } = read.right.right
  try {
    const first = await episodes.reset(fields)
    const played = path === '/reset' || E.isLeft(first) ? first : await episodes.step(messageOf(action), request.signal)
    if (E.isRight(played)) return jsonResponse(played.right)
    return jsonResponse({ detail: played.left.reason }, played.left.code === 'VALIDATION_ERROR' ? 422 : 500)
  } finally {
    episodes.close()
  }
}

const messageOf = (action: unknown): string => (action as { readonly message: string }).message // by the schema

/**
 * Makes a server of environments in the form of OpenEnv.
 *
 * Each WebSocket connection to `/ws` plays its own episodes: `reset`, `step` with the model's
 * message, `state`, `close`. A reset contains the fields of a task, or selects one of `tasks` by
 * its `seed`. Over HTTP, `/reset` and `/step` play a new episode per request.
 *
 * Errors   a failure of a request or of the environment is an error frame, or a status of 4xx or
 *          500; it is never a reward of 0. A failed step ends its episode. Throws RangeError for
 *          unknown options.
 * Source   OpenEnv 0.3.0, `openenv/core/env_server/http_server.py`.
 *
 * @example
 * openEnvApp({ name: 'sums', env: envOfTask((source) => (tasks) => GSM8KEnv({ source, ...tasks })), key: keyFromSeed(1) }).sessions() // 0
 */
export const openEnvApp = (options: OpenEnvOptions): OpenEnvApp => {
  checkOptions('openEnvApp', options, OPENENV_APP_OPTIONS)
  const { name, description = `The environment of ${name}.`, access = {}, maxSessions = 256 } = options
  const { maxBodyBytes: maxBytes = 32 * 2 ** 20 } = options
  const thread = playThread()
  let [played, sessions] = [0, 0]
  let loaded: ReturnType<NonNullable<ServedEnv['tasks']>> | undefined
  const load = options.tasks
  const tasks = async (): Promise<TaskSource> => {
    loaded ??= load!() // called only if there are tasks
    try {
      return await loaded
    } catch (error) {
      loaded = undefined // the next reset tries again
      throw error
    }
  }
  const world = { env: options.env, key: options.key, ...(load !== undefined && { tasks }) }
  const newEpisodes = (): Episodes => playEpisodes(world, () => played++)

  const frames: OpenFrames = async (request) => {
    const refused = await accessProblem(request, access)
    if (refused !== null) return failureResponse(refused)
    if (sessions >= maxSessions) {
      const details = { active_sessions: sessions, max_sessions: maxSessions }
      const text = errorFrame('CAPACITY_REACHED', `${sessions} of ${maxSessions} sessions are in use`, details)
      return { receive: async () => ({ text, connection: 'close' }), end: () => undefined } satisfies FrameSession
    }
    sessions++
    const episodes = newEpisodes()
    return {
      receive: (text, signal) => receive(episodes, text, { signal, thread }),
      end: () => {
        sessions--
        episodes.close()
      },
    } satisfies FrameSession
  }

  const fetch = async (request: Request): Promise<Response> => {
    const { pathname: path } = new URL(request.url)
    if (path === '/health') return jsonResponse({ status: 'healthy' })
    const refused = await accessProblem(request, access)
    if (refused !== null) return failureResponse(refused)
    const method = Object.entries(ROUTES).find(([route]) => route === path)?.[1]
    if (method === undefined) return failureResponse(apiFailure(404, `There is no route ${path}.`))
    if (request.method !== method) return failureResponse(apiFailure(405, `Send a ${method} request.`))
    if (path === '/reset' || path === '/step')
      return playOnce(path, request, { episodes: newEpisodes(), maxBytes, thread })
    if (path === '/mcp') return noTools(request)
    if (path === '/state') return jsonResponse(newEpisodes().state())
    if (path === '/schema') return jsonResponse(openEnvSchemas())
    return jsonResponse(path === '/metadata' ? { name, description } : openApi(name))
  }
  return { fetch, frames, sessions: () => sessions }
}
