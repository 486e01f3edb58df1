/** An imitation of MLflow's server, with the requests of a run. Schemas check all bodies. */
import { z } from 'zod'
import { type Answer, type TroubledServer, troubledServer } from './troubledServer.js'

const pair = z.strictObject({ key: z.string().max(250), value: z.string().max(6000) })
const metric = z.strictObject({
  key: z.string().regex(/^[\p{L}\p{N}_\-. :/]{1,250}$/u),
  value: z.union([z.number(), z.enum(['NaN', 'Infinity', '-Infinity'])]),
  timestamp: z.number().int(),
  step: z.number().int(),
})
const bodies = {
  'experiments/create': z.strictObject({ name: z.string() }),
  'runs/search': z.strictObject({ experiment_ids: z.array(z.string()), filter: z.string(), max_results: z.number() }),
  'runs/create': z.strictObject({
    experiment_id: z.string(),
    run_name: z.string(),
    start_time: z.number().int(),
    tags: z.array(pair),
  }),
  'runs/log-batch': z.strictObject({
    run_id: z.string(),
    metrics: z.array(metric).max(1000),
    params: z.array(pair).max(100),
    tags: z.array(pair).max(100),
  }),
  'runs/update': z.strictObject({ run_id: z.string(), status: z.string(), end_time: z.number().int().optional() }),
}

type LoggedMetric = z.infer<typeof metric>

interface LoggedRun {
  readonly name: string
  readonly marker: string
  readonly metrics: LoggedMetric[]
  readonly params: Map<string, string>
  readonly tags: Map<string, string>
  readonly states: string[]
}

export interface MlflowServer extends TroubledServer {
  readonly paths: readonly string[]
  readonly runs: readonly LoggedRun[]
}

const answersOf = (runs: LoggedRun[], experiments: Set<string>) => {
  const shown = (run: LoggedRun) => ({
    info: { run_id: String(runs.indexOf(run)) },
    data: {
      metrics: [...new Map(run.metrics.map((each) => [each.key, each])).values()],
      params: [...run.params].map(([key, value]) => ({ key, value })),
    },
  })
  const ids = (): readonly string[] => [...experiments]
  return (path: string, query: URLSearchParams, body: string): Answer => {
    const json: unknown = body === '' ? null : JSON.parse(body)
    switch (path) {
      case 'experiments/get-by-name': {
        const id = ids().indexOf(query.get('experiment_name') ?? '')
        return id < 0 ? [404, {}] : [200, { experiment: { experiment_id: String(id) } }]
      }
      case 'experiments/create':
        experiments.add(bodies[path].parse(json).name)
        return [200, { experiment_id: String(experiments.size - 1) }]
      case 'runs/search': {
        const { filter } = bodies[path].parse(json)
        return [200, { runs: runs.filter(({ marker }) => filter === `tags.\`tandem.run\` = '${marker}'`).map(shown) }]
      }
      case 'runs/create': {
        const { run_name: name, tags } = bodies[path].parse(json)
        const run = { name, marker: tags[0]!.value, metrics: [], params: new Map(), tags: new Map(), states: [] }
        runs.push(run)
        return [200, { run: shown(run) }]
      }
      case 'runs/log-batch': {
        const { run_id, metrics, params, tags } = bodies[path].parse(json)
        const run = runs[Number(run_id)]!
        if (metrics.length + params.length + tags.length > 1000) return [400, {}]
        if (params.some(({ key, value }) => run.params.has(key) && run.params.get(key) !== value)) return [400, {}]
        run.metrics.push(...metrics)
        for (const { key, value } of params) run.params.set(key, value)
        for (const { key, value } of tags) run.tags.set(key, value)
        return [200, {}]
      }
      case 'runs/update': {
        const { run_id, status } = bodies[path].parse(json)
        runs[Number(run_id)]!.states.push(status)
        return [200, {}]
      }
    }
    return [404, { message: `no ${path}` }]
  }
}

/** Starts a server without experiments. A body that MLflow would not take is answered with 400. */
export const mlflowServer = async (): Promise<MlflowServer> => {
  const [runs, paths, experiments] = [[] as LoggedRun[], [] as string[], new Set<string>()]
  const answer = answersOf(runs, experiments)
  const server = await troubledServer(({ url, body }) => {
    const path = url.pathname.replace('/api/2.0/mlflow/', '')
    paths.push(path)
    return answer(path, url.searchParams, body)
  })
  return { ...server, paths, runs }
}
