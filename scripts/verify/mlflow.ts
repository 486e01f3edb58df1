/**
 * Logs a run in two sessions, the first of which was killed, to a real MLflow server, and reads
 * its data back: `npm run verify -- mlflow`, with MLFLOW_URL set to the address of a server (`pip
 * install mlflow`, then `mlflow server --port 5000`). Exits with 1 unless each number is there
 * once.
 */
import { isDeepStrictEqual } from 'node:util'
import { orThrow } from '@tandem-rl/base'
import { liveIds } from '@tandem-rl/base/host'
import { liveTransport } from '@tandem-rl/host'
import { mlflowSink, type TrackedEvent } from '@tandem-rl/tracking'
import { z } from 'zod'

const url = process.env.MLFLOW_URL
if (url === undefined) {
  console.error('set MLFLOW_URL to the address of an MLflow server')
  process.exit(2)
}

const STEPS = 700
const KILLED = 450
const FROM = 401
const runId = liveIds.fresh()

const scalars = (step: number): TrackedEvent => ({
  type: 'scalars',
  at: Date.now(),
  step,
  values: { 'train/loss': 1 / step, 'eval/ümlaut': step === 3 ? Number.NaN : step },
  seconds: { training: step / 7 },
})

const range = (first: number, last: number): readonly number[] =>
  Array.from({ length: last - first + 1 }, (_, i) => first + i)

const runSession = async (first: number, last: number, settings: Readonly<Record<string, number>>): Promise<void> => {
  const sink = mlflowSink({ transport: liveTransport({ url }), runId, experiment: 'tandem-check' })
  const start: TrackedEvent = { type: 'start', at: Date.now(), run: 'checked', from: first, settings }
  orThrow(await sink.write([start, ...range(first, last).map(scalars)])())
  if (last === STEPS) {
    const at = Date.now()
    const saved: TrackedEvent = { type: 'saved', at, step: last, what: 'checkpoint', path: 'runs/checked' }
    orThrow(await sink.write([saved, { type: 'end', at, step: last, status: 'finished' }])())
  }
  orThrow(await sink.close())
}

const ask = async <T>(path: string, schema: z.ZodType<T>, json?: object): Promise<T> => {
  const post = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(json) }
  const answer = await fetch(`${url}/api/2.0/mlflow/${path}`, json === undefined ? {} : post)
  return schema.parse(await answer.json())
}

const pairs = z.array(z.object({ key: z.string(), value: z.string() }))
const runs = z.object({
  runs: z.array(
    z.object({
      info: z.object({ run_id: z.string(), status: z.string() }),
      data: z.object({ params: pairs, tags: pairs }),
    }),
  ),
})
const history = z.object({ metrics: z.array(z.object({ step: z.number(), value: z.union([z.number(), z.string()]) })) })
const experiment = z.object({ experiment: z.object({ experiment_id: z.string() }) })

await runSession(1, KILLED, { steps: 60, seed: 1 })
await runSession(FROM, STEPS, { steps: STEPS, seed: 1 })

const { experiment_id } = (await ask('experiments/get-by-name?experiment_name=tandem-check', experiment)).experiment
const filter = `tags.\`tandem.run\` = '${runId}'`
const found = (await ask('runs/search', runs, { experiment_ids: [experiment_id], filter })).runs
const run = found[0]!
const logged = await ask(
  `metrics/get-history?run_id=${run.info.run_id}&metric_key=train/loss&max_results=10000`,
  history,
)
const byStep = [...logged.metrics].sort((a, b) => a.step - b.step)
const checks = {
  oneRun: found.length === 1,
  finished: run.info.status === 'FINISHED',
  everyNumberOnce: isDeepStrictEqual(
    byStep.map(({ step, value }) => [step, value]),
    range(1, STEPS).map((step) => [step, 1 / step]),
  ),
  params: isDeepStrictEqual(
    new Map(run.data.params.map(({ key, value }) => [key, value])),
    new Map([
      ['steps', '60'],
      ['seed', '1'],
    ]),
  ),
  tags: ['tandem.checkpoint', 'tandem.resumed.steps'].every((name) => run.data.tags.some(({ key }) => key === name)),
}
const ok = Object.values(checks).every(Boolean)
console.log(JSON.stringify({ steps: byStep.length, ...checks, ok }))
if (!ok) process.exitCode = 1
