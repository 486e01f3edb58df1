/**
 * The server as a function from requests to responses: endpoints, access control and common
 * headers, without sockets.
 */
import { checkOptions, FailureError } from '@tandem-rl/base'
import { liveCalendar, liveIds } from '@tandem-rl/base/host'
import { givenKey, isAuthorized, mayCome, reportError, SMALL_BODY } from '@tandem-rl/host'
import { thoughtTagsOf } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { Hono } from 'hono'
import { cors } from 'hono/cors'
import { isProtected } from './access.js'
import { readJsonBody, readJsonBytes } from './bodies/body.js'
import { type BodyThread, readBody } from './bodies/bodyThread.js'
import { metricsAnswer } from './metrics.js'
import { SERVE_APP_OPTIONS } from './optionKinds.js'
import { type ApiFailure, apiFailure, failureResponse, jsonResponse } from './requests/failure.js'
import { responseMemory } from './requests/responseMemory.js'
import {
  DEFAULT_LIMITS,
  keySequence,
  relaxedChoices,
  requestRegister,
  type Served,
  type ServeOptions,
  unixSeconds,
  weightLabels,
} from './requests/served.js'
import { chatCompletions } from './routes/chat.js'
import { completions } from './routes/completions.js'
import {
  abortRequests,
  collectiveRpc,
  isPaused,
  pause,
  resetPrefixCache,
  resume,
  serverInfo,
  updateWeightVersion,
  weightInfo,
  worldSize,
} from './routes/control.js'
import { generate } from './routes/generate.js'
import { messages } from './routes/messages.js'
import { listModels, loadAdapterRoute, unloadAdapter } from './routes/models.js'
import { promptThread } from './routes/promptThread.js'
import { type PromptPath, type ReadOf, readRequest } from './routes/readers.js'
import { responses } from './routes/responses.js'
import { detokenize, tokenize } from './routes/tokenize.js'

/** The reported version: the newest supported version of vLLM's protocol, marked with our name. */
const PROTOCOL = '0.32.0+tandem'

type Answer = E.Either<ApiFailure, Response>

/** The input of an endpoint. `read` is what its reader gave, or the JSON of its body. */
interface Wanted {
  readonly request: Request
  readonly query: URLSearchParams
  readonly read: unknown
}

interface Endpoint {
  readonly method: 'GET' | 'POST'
  readonly path: string
  /** `prompt`: large bodies are read on another thread. `json`: bodies are small. */
  readonly reads: 'prompt' | 'json' | 'nothing'
  readonly answer: (served: Served, wanted: Wanted) => Answer | Promise<Answer>
}

const get = (path: string, answer: Endpoint['answer']): Endpoint => ({ method: 'GET', path, reads: 'nothing', answer })
const command = (path: string, answer: Endpoint['answer']): Endpoint => ({ ...get(path, answer), method: 'POST' })
const post = (path: string, answer: (served: Served, body: unknown) => Answer | Promise<Answer>): Endpoint => ({
  method: 'POST',
  path,
  reads: 'json',
  answer: (served, { read }) => answer(served, read),
})

/** An endpoint with a prompt. */
const prompted = <P extends PromptPath>(
  path: P,
  answer: (served: Served, read: ReadOf<P>, request: Request) => Answer | Promise<Answer>,
): Endpoint => ({
  method: 'POST',
  path,
  reads: 'prompt',
  answer: (served, { read, request }) => answer(served, read as ReadOf<P>, request), // of the reader of this path
})

/** Responds with 200 if the engine responds, otherwise with 503. */
const health = async ({ engine }: Served): Promise<Answer> => {
  const isAlive = await engine.version().then(
    () => true,
    () => false,
  )
  return E.right(new Response(null, { status: isAlive ? 200 : 503 }))
}

const metrics = async ({ engine, model, adapters, features, relaxedChoices: relaxed }: Served): Promise<Answer> =>
  E.right(
    await metricsAnswer([
      {
        metrics: await engine.metrics(),
        model: model.names[0]!,
        adapters: [...adapters.keys()],
        ...(features.toolChoiceRequired === 'auto' && { relaxedChoices: relaxed.count() }),
      },
    ]),
  )

const ENDPOINTS: readonly Endpoint[] = [
  get('/health', health),
  get('/version', ({ world }) => E.right(jsonResponse({ version: world.version }))),
  get('/load', ({ requests }) => E.right(jsonResponse({ server_load: requests.size() }))),
  get('/metrics', metrics),
  get('/v1/models', (served) => E.right(listModels(served))),
  prompted('/v1/completions', completions),
  prompted('/v1/chat/completions', chatCompletions),
  prompted('/v1/responses', responses),
  prompted('/v1/messages', messages),
  prompted('/v1/messages/count_tokens', (_, count) => E.right(jsonResponse({ input_tokens: count }))),
  prompted('/inference/v1/generate', generate),
  prompted('/tokenize', tokenize),
  prompted('/detokenize', detokenize),
]

const ADAPTERS: readonly Endpoint[] = [
  post('/v1/load_lora_adapter', loadAdapterRoute),
  post('/v1/unload_lora_adapter', unloadAdapter),
]

const CONTROL: readonly Endpoint[] = [
  command('/pause', (served, { query }) => pause(served, query)),
  command('/resume', resume),
  get('/is_paused', isPaused),
  post('/abort_requests', abortRequests),
  post('/collective_rpc', collectiveRpc),
  post('/update_weight_version', updateWeightVersion),
  get('/weight_info', weightInfo),
  get('/get_world_size', worldSize),
  get('/server_info', serverInfo),
  command('/reset_prefix_cache', resetPrefixCache),
]

const servedOf = (options: ServeOptions): Served => {
  const {
    engine,
    model,
    text,
    key,
    limits,
    access,
    features,
    responses: known,
    relaxedChoices: relaxed,
    world: given,
  } = options
  const world = { calendar: liveCalendar, ids: liveIds, version: PROTOCOL, report: reportError, ...given }
  return {
    engine,
    model,
    text,
    world,
    limits: { ...DEFAULT_LIMITS, ...limits },
    access: { apiKeys: [], corsOrigins: [], ...access },
    features: {
      control: 'off',
      readAdapter: null,
      toolCalls: 'none',
      toolChoiceRequired: 'refuse',
      thoughts: thoughtTagsOf(text.template.source),
      logProbsMode: 'raw_logprobs',
      ...features,
    },
    created: unixSeconds(world),
    nextKey: keySequence(key),
    requests: requestRegister(engine),
    adapters: new Map(),
    loading: new Set(),
    weights: weightLabels(),
    responses: known ?? responseMemory(),
    relaxedChoices: relaxed ?? relaxedChoices(),
  }
}

const isPrompt = (endpoint: Endpoint): endpoint is Endpoint & { readonly path: PromptPath } =>
  endpoint.reads === 'prompt'

/** A request for an endpoint. */
interface Incoming {
  readonly endpoint: Endpoint
  readonly request: Request
  /** Reads large bodies; null if they have to be read on this thread. */
  readonly bodies: BodyThread | null
}

/** Reads the body of a request for an endpoint. */
const readFor = async (
  served: Served,
  { endpoint, request, bodies }: Incoming,
): Promise<E.Either<ApiFailure, unknown>> => {
  if (endpoint.reads === 'nothing') return E.right(undefined)
  const { maxBodyBytes } = served.limits
  if (!isPrompt(endpoint)) return readJsonBody(request, { maxBytes: Math.min(maxBodyBytes, SMALL_BODY) })
  const bytes = await readJsonBytes(request, { maxBytes: maxBodyBytes })
  if (E.isLeft(bytes)) return bytes
  const env = { ...served, maxModelLength: served.engine.info.maxModelLength }
  const { path } = endpoint
  return readBody(bytes.right, {
    thread: bodies,
    reader: path,
    here: (json) => readRequest(env, path, json),
  })
}

const answerTo = async (served: Served, incoming: Incoming): Promise<Response> => {
  const { endpoint, request } = incoming
  const read = await readFor(served, incoming)
  if (E.isLeft(read)) return failureResponse(read.left, endpoint.path)
  const query = new URL(request.url).searchParams
  const answer = await endpoint.answer(served, { request, read: read.right, query })
  return E.isLeft(answer) ? failureResponse(answer.left, endpoint.path) : answer.right
}

/** Makes FastAPI's response for an unknown path or method. */
const notThere = (status: 404 | 405, type: string, allow?: string): Response => {
  const response = failureResponse({ ...apiFailure(status, type), type })
  if (allow !== undefined) response.headers.set('allow', allow)
  return response
}

/** A server without sockets. */
export interface ServeApp {
  readonly fetch: (request: Request) => Promise<Response>
  /** Number of requests in the engine. */
  readonly inFlight: () => number
}

/**
 * Makes a server with vLLM's protocol over an engine, as a function from requests to responses.
 *
 * `/v1/completions`, `/v1/chat/completions`, `/v1/responses`, `/v1/messages`, `/v1/models`,
 * `/inference/v1/generate`, `/tokenize`, `/detokenize`, `/health`, `/version`, `/metrics` and
 * `/load`; adapters and the control of the engine if they are enabled.
 *
 * Errors   every failure of a request is a response in vLLM's format. Throws RangeError for unknown
 *          options.
 * Effects  requests run in the engine. If a client disconnects, its requests are aborted.
 * Source   vLLM 0.32. `docs/guide/32-serving.md` describes the differences.
 */
export const serveApp = (options: ServeOptions): ServeApp => {
  checkOptions('serveApp', options, SERVE_APP_OPTIONS)
  const served = servedOf(options)
  const bodies = promptThread({ ...served, maxModelLength: served.engine.info.maxModelLength })
  const { access, features } = served
  const endpoints = [
    ...ENDPOINTS,
    ...(features.readAdapter === null ? [] : ADAPTERS),
    ...(features.control === 'on' ? CONTROL : []),
  ]
  const app = new Hono()
  if (access.corsOrigins.length > 0) {
    const origin = access.corsOrigins.includes('*') ? '*' : [...access.corsOrigins]
    app.use(
      '*',
      cors({ origin, allowMethods: ['GET', 'POST', 'OPTIONS'], allowHeaders: ['authorization', 'content-type'] }),
    )
  }
  app.all('*', async ({ req }) => {
    const { path } = req
    if (req.raw.method === 'POST' && !mayCome(req.raw.headers, access.corsOrigins)) {
      return failureResponse(apiFailure(403, 'Requests from pages of this origin are not allowed.'), path)
    }
    const isOpen = access.apiKeys.length === 0 || req.method === 'OPTIONS' || !isProtected(path)
    if (!isOpen && !(await isAuthorized(givenKey(req.raw.headers), access.apiKeys))) {
      return path.startsWith('/v1/messages')
        ? failureResponse(apiFailure(401, 'Unauthorized'), path)
        : jsonResponse({ error: 'Unauthorized' }, 401)
    }
    const there = endpoints.filter((endpoint) => endpoint.path === path)
    const endpoint = there.find(({ method }) => method === req.raw.method)
    if (endpoint !== undefined) return answerTo(served, { endpoint, request: req.raw, bodies })
    if (there.length === 0) return notThere(404, 'Not Found')
    return notThere(405, 'Method Not Allowed', there.map(({ method }) => method).join(', '))
  })
  app.onError((error, { req: { path } }) => {
    if (error instanceof FailureError && error.failure._tag === 'TokenizerFailure') {
      return failureResponse(apiFailure(400, error.failure.reason), path)
    }
    served.world.report(error)
    return failureResponse(apiFailure(500, 'Internal server error'), path)
  })
  return { fetch: async (request) => app.fetch(request), inFlight: () => served.requests.size() }
}
