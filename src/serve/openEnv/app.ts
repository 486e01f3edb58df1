/** A server of environments in OpenEnv's form: functions from requests and frames to responses. */
import * as E from 'fp-ts/lib/Either.js'
import type { z } from 'zod'
import type { FrameReply, FrameSession, OpenFrames } from '../../core/frames.js'
import { aFunction, aNumber, aRecord, aText, checkOptions, type OptionKinds } from '../../core/options.js'
import type { TaskSource } from '../../data/task.js'
import { type Access, accessProblem } from '../access.js'
import { parseJsonText, readJsonBody } from '../body.js'
import { apiFailure, failureResponse, jsonResponse } from '../requests/failure.js'
import { type Episodes, type Observed, type PlayFailure, playEpisodes, type ServedEnv } from './episode.js'
import { frameSchema, openEnvSchemas, resetSchema, stepSchema } from './schemas.js'

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

const OPTIONS: OptionKinds<OpenEnvOptions> = {
  ...{ env: aFunction, tasks: aFunction, key: aRecord, name: aText, description: aText },
  ...{ maxSessions: aNumber, maxBodyBytes: aNumber, access: aRecord },
}

const errorFrame = (code: string, message: string, details: object = {}): string =>
  JSON.stringify({ type: 'error', data: { message, code, ...details } })

const problemsOf = ({ issues }: z.ZodError): readonly object[] =>
  issues.map(({ path, message }) => ({ loc: path, msg: message }))

const answered = (result: E.Either<PlayFailure, Observed>): FrameReply => ({
  text: E.isLeft(result)
    ? errorFrame(result.left.code, result.left.reason)
    : JSON.stringify({ type: 'observation', data: result.right }),
})

const receive = async (episodes: Episodes, text: string, signal: AbortSignal): Promise<FrameReply> => {
  const json = parseJsonText(text)
  if (E.isLeft(json)) return { text: errorFrame('INVALID_JSON', json.left.reason) }
  const frame = frameSchema.safeParse(json.right)
  if (!frame.success) {
    const isUnknown = frame.error.issues.some(({ code }) => code === 'invalid_union')
    if (isUnknown) return { text: errorFrame('UNKNOWN_TYPE', 'type must be reset, step, state or close') }
    return { text: errorFrame('VALIDATION_ERROR', 'Invalid message', { errors: problemsOf(frame.error) }) }
  }
  const { data } = frame
  if (data.type === 'close') return { connection: 'close' }
  if (data.type === 'state') return { text: JSON.stringify({ type: 'state', data: episodes.state() }) }
  if (data.type === 'reset') return answered(await episodes.reset(data.data))
  return answered(await episodes.step(data.data.message, signal))
}

/** Paths of OpenEnv's routes with their methods. */
const ROUTES = {
  ...{ '/reset': 'POST', '/step': 'POST', '/mcp': 'POST', '/state': 'GET', '/metadata': 'GET' },
  ...{ '/health': 'GET', '/schema': 'GET', '/openapi.json': 'GET' },
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
  const body = await readJsonBody(request, { maxBytes: 2 ** 20 })
  const sent = E.isRight(body) && typeof body.right === 'object' && body.right !== null ? body.right : {}
  const id = 'id' in sent && (typeof sent.id === 'string' || typeof sent.id === 'number') ? sent.id : null
  return jsonResponse({ jsonrpc: '2.0', id, error: { code: -32601, message: 'Environment does not support MCP' } })
}

/** Plays a reset, and a step if the path has one, in an episode of its own. */
const playOnce = async (
  path: '/reset' | '/step',
  request: Request,
  { episodes, maxBytes }: { readonly episodes: Episodes; readonly maxBytes: number },
): Promise<Response> => {
  const isEmpty = request.headers.get('content-type') === null
  const body = isEmpty ? E.right({}) : await readJsonBody(request, { maxBytes })
  if (E.isLeft(body)) return failureResponse(body.left)
  const parsed = (path === '/step' ? stepSchema : resetSchema).safeParse(body.right)
  if (!parsed.success) return jsonResponse({ detail: problemsOf(parsed.error) }, 422)
  const { action, timeout_s: _timeout, request_id: _id, ...fields } = parsed.data
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
  checkOptions('openEnvApp', options, OPTIONS)
  const { name, description = `The environment of ${name}.`, access = {}, maxSessions = 256 } = options
  const { maxBodyBytes: maxBytes = 32 * 2 ** 20 } = options
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
      receive: (text, signal) => receive(episodes, text, signal),
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
    if (path === '/reset' || path === '/step') return playOnce(path, request, { episodes: newEpisodes(), maxBytes })
    if (path === '/mcp') return noTools(request)
    if (path === '/state') return jsonResponse(newEpisodes().state())
    if (path === '/schema') return jsonResponse(openEnvSchemas())
    return jsonResponse(path === '/metadata' ? { name, description } : openApi(name))
  }
  return { fetch, frames, sessions: () => sessions }
}
