import { readFileSync } from 'node:fs'
import { liveTransport } from 'tandem-rl/remote'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { leftOf, rightOf } from '../../../test/kit/results.js'
import { type TrackioServer, trackioBodies, trackioServer } from '../../../test/kit/trackioServer.js'
import type { Sink, TrackedEvent } from '../src/sink.js'
import { trackioSink } from '../src/trackio.js'

let server: TrackioServer
let sinks: Sink[] = []

beforeEach(async () => {
  server = await trackioServer()
})
afterEach(async () => {
  await Promise.all(sinks.map(({ close }) => rightOf(close)))
  sinks = []
  await server.close()
})

/** A session of a run. */
const session = (token = 'token', url = server.url): Sink => {
  const transport = liveTransport({ url, headers: { 'x-trackio-write-token': token }, retry: { attempts: 1 } })
  const sink = trackioSink({ transport, runId: 'abc' })
  sinks.push(sink)
  return sink
}

const start = (steps = 60): TrackedEvent => ({
  ...{ type: 'start', at: 1000, run: 'first', from: 0, settings: { steps, dataset: null } },
})
const scalars = (step: number, name = 'train/loss'): TrackedEvent => ({
  ...{ type: 'scalars', at: 2000 + step, step, values: { [name]: step / 8 }, seconds: { training: 2 } },
})

describe('trackioSink', () => {
  it("sends bodies of the same form as Trackio's own client, recorded from version 0.43.0", () => {
    const recorded = z.object({
      requests: z.array(z.object({ path: z.enum(['/api/bulk_log', '/api/bulk_alert']), body: z.unknown() })),
    })
    const file = new URL('../../../test/golden/tracking/trackio.json', import.meta.url)
    const { requests } = recorded.parse(JSON.parse(readFileSync(file, 'utf8')))
    expect(requests.map(({ path }) => path)).toEqual(['/api/bulk_log', '/api/bulk_alert'])
    for (const { path, body } of requests) expect(trackioBodies[path].parse(body)).toEqual(body)
  })

  it('logs settings, numbers, texts, alarms, failures and a failed end', async () => {
    const sink = session()
    await rightOf(sink.write([start()]))
    expect(server.requests).toEqual([])
    await rightOf(sink.write([scalars(1), scalars(1, 'eval/accuracy')]))
    const place = { project: 'tandem', run: 'first', run_id: 'abc' }
    const odd = { a: Number.NaN, b: Number.NEGATIVE_INFINITY }
    await rightOf(
      sink.write([
        { type: 'scalars', at: 1, step: 2, values: odd, seconds: {} },
        { type: 'saved', at: 1, step: 2, what: 'checkpoint', path: 'a/b' },
        { type: 'alarm', at: 1, step: 2, name: 'entropy', text: 'it fell' },
        { type: 'failure', at: 2, step: 2, name: 'rollout', text: 'lost' },
        { type: 'samples', at: 1, step: 2, samples: [{ name: '0', text: 'x' }] },
        { type: 'end', at: 3, step: 2, status: 'failed' },
      ]),
    )
    const config = { steps: 60, dataset: null }
    expect(server.logs()).toEqual([
      {
        ...place,
        ...{ metrics: { 'train/loss': 0.125, 'time/training': 2 }, step: 1, config, log_id: 'abc/1/train/loss' },
      },
      {
        ...place,
        ...{ metrics: { 'eval/accuracy': 0.125, 'time/training': 2 }, step: 1, config: null },
        log_id: 'abc/1/eval/accuracy',
      },
      { ...place, metrics: { a: 'NaN', b: '-Infinity' }, step: 2, config: null, log_id: 'abc/2/a' },
      {
        ...place,
        ...{ metrics: { 'samples/0': { _type: 'trackio.markdown', _value: 'x' } }, step: 2, config: null },
        log_id: 'abc/2/samples/0',
      },
    ])
    expect(server.alerts().map(({ title, text, level, timestamp }) => [title, text, level, timestamp])).toEqual([
      ['entropy', 'it fell', 'warn', '1970-01-01T00:00:00.001Z'],
      ['rollout', 'lost', 'error', '1970-01-01T00:00:00.002Z'],
      ['failed', 'the run failed', 'error', '1970-01-01T00:00:00.003Z'],
    ])
  })

  it('has each number once when a killed run resumes, and sends at most 256 items per request', async () => {
    const steps = (first: number, last: number) =>
      Array.from({ length: last - first + 1 }, (_, i) => scalars(first + i))
    await rightOf(session().write([start(), ...steps(1, 300)]))
    expect(server.requests).toHaveLength(2)
    await rightOf(session().write([start(90), ...steps(250, 310)]))
    expect(server.logs().map(({ step }) => step)).toEqual(Array.from({ length: 310 }, (_, i) => i + 1))
  })

  it('retries later if the server is unreachable, broken or denies access, and never if the events are wrong', async () => {
    expect(await leftOf(session('token', 'http://127.0.0.1:1').write([scalars(1)]))).toMatchObject({ again: 'later' })
    expect(await leftOf(session('wrong').write([scalars(1)]))).toMatchObject({
      ...{ sink: 'trackio', again: 'later', cause: { status: 400, body: expect.stringContaining('write_token') } },
    })
    server.trouble(() => 'refuse')
    expect(await leftOf(session().write([scalars(1)]))).toMatchObject({ again: 'later', cause: { status: 503 } })
    server.trouble(() => 'none')
    const wrong: TrackedEvent = { type: 'scalars', at: 1, step: 0.5, values: { x: 1 }, seconds: {} }
    expect(await leftOf(session().write([wrong]))).toMatchObject({ again: 'never', cause: { status: 400 } })
  })

  it('sends the settings again if the request with them failed', async () => {
    const sink = session()
    server.trouble(() => 'refuse')
    const events = [start(), scalars(1)]
    await leftOf(sink.write(events))
    server.trouble(() => 'none')
    await rightOf(sink.write(events))
    expect(server.logs().map(({ config }) => config)).toEqual([{ steps: 60, dataset: null }])
  })
})
