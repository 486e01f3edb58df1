/** The run viewer: a page and its API over run folders. */
import { errorMessage, type Files, type Json, jsonSizeProblem, parseJsonAs } from '@tandem-rl/base'
import { readBodyBytes } from '@tandem-rl/host'
import { table } from '@tandem-rl/text'
import { z } from 'zod'
import { dataSetOf } from './dataSets.js'
import type { EventHub } from './events.js'
import { columnsOf, phasesOf, selectColumns } from './metricColumns.js'
import type { ModelDesk } from './modelDesk.js'
import { modelFeatures } from './modelFeatures.js'
import { annotationSchema, noteSchema, writeAnnotation, writeNote } from './notes.js'
import type { PageFiles } from './onePage.js'
import {
  type CompareAnswer,
  type ErrorAnswer,
  type Evidence,
  EXPORT_FORMATS,
  MODEL_REQUESTS,
  type ModelRequest,
  type RunAnswer,
} from './protocol.js'
import { QueryError, rolloutsQuery } from './query.js'
import { ViewRefusal } from './refusal.js'
import { rescore } from './rescore.js'
import { labelsIn, rolloutAnswer, rolloutOf } from './rolloutAnswer.js'
import { filterRollouts, queryRollouts } from './rolloutRows.js'
import type { ViewedRun } from './viewedRun.js'
import { runAnswer, runRow, viewedRuns } from './viewedRuns.js'

export interface ViewOptions {
  readonly files: Files
  /** Run folders, or folders that hold some. */
  readonly folders: readonly string[]
  /** The page and uPlot's two files, by name. */
  readonly page: PageFiles
  /** Version of Tandem, for the page. */
  readonly version: string
  readonly events: EventHub
  /** Runs checkpoints. Default: requests about them are refused. */
  readonly models?: ModelDesk
}

const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:"

const HEADERS = {
  'content-security-policy': `${POLICY}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-resource-policy': 'same-origin',
  'cache-control': 'no-store',
}

const TYPES: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml',
}

const respond = (status: number, type: string, body: string): Response =>
  new Response(body, { status, headers: { ...HEADERS, 'content-type': type } })

const answer = (body: unknown): Response => respond(200, 'application/json', JSON.stringify(body))

const refuse = (status: number, reason: string): Response =>
  respond(status, 'application/json', JSON.stringify({ error: { reason } } satisfies ErrorAnswer))

/** Bytes of the longest body that is read. */
const LONGEST_BODY = 2 ** 18

/** Reads the body of a request that writes. Web pages of other origins cannot send one. */
const bodyOf = async <T>(request: Request, schema: z.ZodType<T>): Promise<T> => {
  const { headers, url } = request
  if (headers.get('origin') !== new URL(url).origin)
    throw new ViewRefusal(403, 'the request needs an Origin of this server')
  if (headers.get('content-type')?.split(';')[0] !== 'application/json')
    throw new ViewRefusal(415, 'the body has to be application/json')
  const body = await readBodyBytes(request, LONGEST_BODY)
  if (body._tag === 'Left') throw new ViewRefusal(body.left.status, body.left.reason)
  const text = new TextDecoder().decode(body.right)
  const problem = jsonSizeProblem(text)
  if (problem !== undefined) throw new ViewRefusal(400, `the body ${problem}`)
  const parsed = parseJsonAs(schema, text)
  if (parsed._tag === 'Left') throw new ViewRefusal(400, parsed.left)
  return parsed.right
}

const place = z.strictObject({
  run: z.string(),
  rollout: z.string().exactOptional(),
  turn: z.number().int().exactOptional(),
  token: z.number().int().exactOptional(),
  text: z.string().max(20_000),
})

const evidenceSchema = z.strictObject({ title: z.string().max(500), items: z.array(place).max(1000) })

const rescoreSchema = z.strictObject({
  weights: table(z.number(), 1000),
  rollouts: z.array(z.string()).max(500).exactOptional(),
})

const flat = (value: Json, path: string): readonly (readonly [string, Json])[] =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.entries(value).flatMap(([name, each]) => flat(each, path === '' ? name : `${path}.${name}`))
    : [[path, value]]

const COMPARED = 8

const compareAnswer = async (runs: readonly ViewedRun[], names: string | null): Promise<CompareAnswer> => {
  const logs = await Promise.all(runs.map((run) => run.log()))
  const metrics = logs.map(columnsOf)
  const settings = logs.map((log) => new Map(flat(log.settings, '')))
  const paths = [...new Set(settings.flatMap((each) => [...each.keys()]))]
  return {
    runs: await Promise.all(runs.map((run) => runRow(run))),
    settings: paths.flatMap((path) => {
      const values = settings.map((each) => each.get(path) ?? null)
      return new Set(values.map((value) => JSON.stringify(value))).size > 1 ? [{ path, values }] : []
    }),
    metricNames: [...new Set(metrics.flatMap(({ columns }) => Object.keys(columns)))],
    metrics: names === null ? metrics : metrics.map((each) => selectColumns(each, names.split(','))),
  }
}

/** One request, with the run that its path names. */
interface Call {
  readonly request: Request
  readonly query: URLSearchParams
  readonly options: ViewOptions
  readonly run: ViewedRun
  readonly rollout: string
}

/** Answers a request that runs checkpoints, as a stream of JSON lines. */
const modelLines = async ({ options, run, request }: Call, name: ModelRequest): Promise<Response> => {
  const { models } = options
  if (models === undefined) throw new ViewRefusal(404, 'this server runs no models')
  const { MODEL_TASKS } = await import('./modelTasks.js') // loads the engine
  const task = await bodyOf(request, MODEL_TASKS[name])
  return streamOf('application/jsonl', models.ask(run, task, request.signal))
}

/** Requests about one run: method and path below `/api/runs/:id`. */
const RUN_ROUTES: Readonly<Record<string, (call: Call) => Promise<Response>>> = {
  ...Object.fromEntries(MODEL_REQUESTS.map((name) => [`POST ${name}`, (call: Call) => modelLines(call, name)])),
  'GET ': async ({ options, run }) => {
    const found = await runAnswer(run)
    const features = options.models === undefined ? [] : modelFeatures(await run.log(), found.rollouts)
    return answer({ ...found, features: [...found.features, ...features] } satisfies RunAnswer)
  },
  'GET metrics': async ({ run, query }) => {
    const all = columnsOf(await run.log())
    const names = query.get('names')
    return answer(names === null ? all : selectColumns(all, names.split(',')))
  },
  'GET phases': async ({ run }) => {
    const { steps, evaluations } = await run.log()
    return answer(phasesOf(steps, evaluations))
  },
  'GET events': async ({ options, run, request }) => eventStream(options.events.open(run, request.signal)),
  'GET rollouts': async ({ run, query }) =>
    answer(await queryRollouts(run, rolloutsQuery(query), labelsIn(await run.annotations()))),
  'GET rollouts/:rollout': async ({ run, rollout }) =>
    answer(await rolloutAnswer(run, rollout, await run.annotations())),
  'GET export': async ({ run, query }) => {
    const format = EXPORT_FORMATS.find((each) => each === query.get('format'))
    if (format === undefined) throw new ViewRefusal(400, `format: expected ${EXPORT_FORMATS.join(' or ')}`)
    const { sort, order, ...filter } = rolloutsQuery(query)
    const found = await filterRollouts(run, filter, labelsIn(await run.annotations()))
    const response = respond(200, 'application/jsonl', await dataSetOf(run, found, format))
    response.headers.set('content-disposition', `attachment; filename="${run.id}-${format}.jsonl"`)
    return response
  },
  'PUT note': async ({ options, run, request }) => {
    await writeNote(run.files, run.folder, await bodyOf(request, noteSchema))
    options.events.send('runs', {})
    return answer(await runRow(run))
  },
  'PUT rollouts/:rollout/annotation': async ({ run, rollout, request }) => {
    await rolloutOf(run, rollout)
    const annotation = await bodyOf(request, annotationSchema)
    await writeAnnotation(run.files, run.folder, { rollout, annotation })
    return answer(annotation)
  },
  'POST rescore': async ({ run, request }) => {
    const body = await bodyOf(request, rescoreSchema)
    const rollouts = await run.rollouts()
    return answer(rescore(rollouts, [...new Set(rollouts.flatMap(({ row }) => Object.keys(row.parts)))], body))
  },
}

const streamOf = (type: string, stream: ReadableStream<Uint8Array>): Response =>
  new Response(stream, { status: 200, headers: { ...HEADERS, 'content-type': type } })

const eventStream = (stream: ReadableStream<Uint8Array>): Response => streamOf('text/event-stream', stream)

const runRoute = async (
  call: Omit<Call, 'run' | 'rollout'>,
  id: string,
  rest: readonly string[],
): Promise<Response> => {
  const [part = '', rollout = '', last] = rest
  const path = [part, ...(rollout === '' ? [] : [':rollout']), ...(last === undefined ? [] : [last])].join('/')
  const { method } = call.request
  const route = RUN_ROUTES[`${method} ${path}`]
  if (route === undefined) throw new ViewRefusal(404, 'no such address')
  const run = (await viewed(call.options)).find((each) => each.id === id)
  if (run === undefined) throw new ViewRefusal(404, `no run '${id}'`)
  if (method === 'PUT' && run.access === 'read')
    throw new ViewRefusal(403, 'nothing is written beside logs of other programs')
  return route({ ...call, run, rollout })
}

const finders = new WeakMap<ViewOptions, () => Promise<readonly ViewedRun[]>>()

const viewed = (options: ViewOptions): Promise<readonly ViewedRun[]> => {
  const find = finders.get(options) ?? viewedRuns(options.files, options.folders)
  finders.set(options, find)
  return find()
}

const file = ({ page }: ViewOptions, name: string): Response => {
  const text = Object.hasOwn(page, name) ? page[name] : undefined
  const type = TYPES[name.split('.').at(-1) ?? '']
  return text === undefined || type === undefined ? refuse(404, 'no such file') : respond(200, type, text)
}

/** Makes the handler of the viewer's requests. */
export const viewApp = (options: ViewOptions): { readonly fetch: (request: Request) => Promise<Response> } => {
  let evidence: Evidence = { title: '', items: [] }
  const api = async (request: Request, parts: readonly string[], query: URLSearchParams): Promise<Response> => {
    const [kind, id, ...rest] = parts
    const call = { request, query, options }
    if (kind === 'runs' && id !== undefined) return runRoute(call, id, rest)
    switch (`${request.method} ${kind}`) {
      case 'GET runs': {
        const rows = await Promise.all((await viewed(options)).map((run) => runRow(run)))
        return answer({ runs: rows, version: options.version })
      }
      case 'GET events':
        return eventStream(options.events.open(null, request.signal))
      case 'GET compare': {
        const ids = (query.get('runs') ?? '').split(',')
        const found = (await viewed(options)).filter((run) => ids.includes(run.id)).slice(0, COMPARED)
        return answer(await compareAnswer(found, query.get('names')))
      }
      case 'GET evidence':
        return answer(evidence)
      case 'PUT evidence':
        evidence = await bodyOf(request, evidenceSchema)
        options.events.send('evidence', {})
        return answer(evidence)
      default:
        throw new ViewRefusal(404, 'no such address')
    }
  }
  return {
    fetch: async (request) => {
      const { pathname, searchParams } = new URL(request.url)
      try {
        if (pathname === '/') return file(options, 'index.html')
        const [first, ...parts] = pathname.slice(1).split('/').map(decodeURIComponent)
        if (first === 'assets' && parts.length === 1) return file(options, parts[0]!)
        return first === 'api' ? await api(request, parts, searchParams) : refuse(404, 'no such address')
      } catch (error) {
        if (error instanceof ViewRefusal) return refuse(error.status, error.message)
        if (error instanceof QueryError || error instanceof URIError) return refuse(400, error.message)
        return refuse(500, errorMessage(error))
      }
    },
  }
}
