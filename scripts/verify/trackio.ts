/**
 * Logs a run in two sessions, the first of which was killed, to a real Trackio server, and reads
 * its data back: `npm run verify -- trackio`, with TRACKIO_URL and TRACKIO_WRITE_TOKEN set (`pip
 * install trackio`, then `TRACKIO_WRITE_TOKEN=... trackio show`). Exits with 1 unless each number
 * is there once.
 */
import { isDeepStrictEqual } from 'node:util'
import { orThrow } from '@tandem-rl/base'
import { liveIds } from '@tandem-rl/base/host'
import { liveTransport } from '@tandem-rl/host'
import { type TrackedEvent, trackioSink } from '@tandem-rl/tracking'
import { z } from 'zod'

const { TRACKIO_URL: url, TRACKIO_WRITE_TOKEN: token } = process.env
if (url === undefined || token === undefined) {
  console.error('set TRACKIO_URL and TRACKIO_WRITE_TOKEN to the address and the write token of a Trackio server')
  process.exit(2)
}

const STEPS = 700
const KILLED = 450
const FROM = 401
const runId = liveIds.fresh()
const place = { project: 'tandem-check', run: `checked ${runId}`, run_id: runId }

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
  const transport = liveTransport({ url, headers: { 'x-trackio-write-token': token } })
  const sink = trackioSink({ transport, runId, project: place.project })
  const at = Date.now()
  const start: TrackedEvent = { type: 'start', at, run: place.run, from: first, settings }
  orThrow(await sink.write([start, ...range(first, last).map(scalars)])())
  const alarm: TrackedEvent = { type: 'alarm', at, step: FROM, name: 'entropy', text: 'it fell' }
  orThrow(await sink.write([alarm, { type: 'samples', at, step: 7, samples: [{ name: '0', text: '*a* text' }] }])())
  orThrow(await sink.close())
}

const ask = async <T>(api: string, schema: z.ZodType<T>): Promise<T> => {
  const body = JSON.stringify({ args: [], kwargs: place })
  const answer = await fetch(new URL(`/api/${api}`, url), {
    ...{ method: 'POST', headers: { 'content-type': 'application/json' }, body },
  })
  return z.object({ data: schema }).parse(await answer.json()).data
}

await runSession(1, KILLED, { steps: 60, seed: 1 })
await runSession(FROM, STEPS, { steps: STEPS, seed: 1 })

const logs = await ask('get_logs', z.array(z.record(z.string(), z.unknown())))
const summary = await ask(
  'get_run_summary',
  z.object({ num_logs: z.number(), config: z.record(z.string(), z.unknown()) }),
)
const alerts = await ask('get_alerts', z.array(z.object({ title: z.string(), level: z.string(), step: z.number() })))
const losses = logs.filter((log) => 'train/loss' in log).map((log) => [log.step, log['train/loss']])
const checks = {
  everyNumberOnce: isDeepStrictEqual(
    losses,
    range(1, STEPS).map((step) => [step, 1 / step]),
  ),
  oneRow: summary.num_logs === STEPS + 1,
  config: summary.config.steps === STEPS && summary.config.seed === 1,
  alerts: isDeepStrictEqual(
    alerts.map(({ title, level, step }) => [title, level, step]),
    [['entropy', 'warn', FROM]],
  ),
  text: logs.some((log) => isDeepStrictEqual(log['samples/0'], { _type: 'trackio.markdown', _value: '*a* text' })),
}
const ok = Object.values(checks).every(Boolean)
console.log(JSON.stringify({ steps: losses.length, ...checks, ok }))
if (!ok) process.exitCode = 1
