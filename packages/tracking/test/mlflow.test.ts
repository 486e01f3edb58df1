import { isRight } from 'fp-ts/lib/Either.js'
import { liveTransport } from 'tandem-rl/remote'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type MlflowServer, mlflowServer } from '../../../test/kit/mlflowServer.js'
import { leftOf, rightOf } from '../../../test/kit/results.js'
import { mlflowSink } from '../src/mlflow.js'
import type { Sink, TrackedEvent } from '../src/sink.js'

let server: MlflowServer
let sinks: Sink[] = []

beforeEach(async () => {
  server = await mlflowServer()
})
afterEach(async () => {
  await Promise.all(sinks.map(({ close }) => rightOf(close)))
  sinks = []
  await server.close()
})

/** A session of a run. */
const session = (url = server.url): Sink => {
  const transport = liveTransport({ url, retry: { attempts: 1 }, circuit: { failures: 1000 } })
  const sink = mlflowSink({ transport, runId: 'abc' })
  sinks.push(sink)
  return sink
}

const start = (steps = 60): TrackedEvent => ({
  ...{ type: 'start', at: 1000.5, run: 'first', from: 0, settings: { steps, dataset: null } },
})
const scalars = (step: number): TrackedEvent => ({
  ...{ type: 'scalars', at: 2000 + step, step, values: { 'train/loss': step / 8 }, seconds: { training: 2 } },
})
const steps = (first: number, last: number): readonly TrackedEvent[] =>
  Array.from({ length: last - first + 1 }, (_, i) => scalars(first + i))

const losses = (): readonly number[] =>
  server.runs[0]!.metrics.filter(({ key }) => key === 'train/loss').map(({ step }) => step)

describe('mlflowSink', () => {
  it('makes experiment and run, and logs parameters, metrics, paths, alarms and the end', async () => {
    const sink = session()
    await rightOf(sink.write([start(), scalars(1)]))
    await rightOf(
      sink.write([
        { type: 'saved', at: 1, step: 1, what: 'checkpoint', path: 'a/b' },
        { type: 'alarm', at: 1, step: 1, name: 'entropy', text: 'it fell' },
        { type: 'samples', at: 1, step: 1, samples: [{ name: '0', text: 'x' }] },
        { type: 'end', at: 1, step: 1, status: 'interrupted' },
      ]),
    )
    expect(server.runs).toEqual([
      {
        name: 'first',
        marker: 'abc',
        metrics: [
          { key: 'train/loss', value: 0.125, timestamp: 2001, step: 1 },
          { key: 'time/training', value: 2, timestamp: 2001, step: 1 },
        ],
        params: new Map([
          ['steps', '60'],
          ['dataset', 'null'],
        ]),
        tags: new Map([
          ['tandem.checkpoint', 'a/b'],
          ['tandem.alarm.entropy', 'step 1: it fell'],
        ]),
        states: ['RUNNING', 'KILLED'],
      },
    ])
  })

  it('keeps to the limits of a request, to names that are allowed, and to values that JSON has', async () => {
    const values = {
      'a|b#': Number.NaN,
      up: Number.POSITIVE_INFINITY,
      down: Number.NEGATIVE_INFINITY,
      ['x'.repeat(300)]: 1,
    }
    const settings = Object.fromEntries(Array.from({ length: 250 }, (_, i) => [`s${i}`, 'y'.repeat(7000)]))
    const sink = session()
    await rightOf(sink.write([{ type: 'start', at: 1, run: 'r', from: 0, settings }, ...steps(1, 1600)]))
    await rightOf(sink.write([{ type: 'scalars', at: 1, step: 1, values, seconds: {} }]))
    expect(server.paths.filter((path) => path === 'runs/log-batch')).toHaveLength(5)
    expect(losses()).toEqual(Array.from({ length: 1600 }, (_, i) => i + 1))
    expect(server.runs[0]!.params.size).toBe(250)
    expect(server.runs[0]!.metrics.slice(-4).map(({ key, value }) => [key, value])).toEqual([
      ['a_b_', 'NaN'],
      ['up', 'Infinity'],
      ['down', '-Infinity'],
      ['x'.repeat(250), 1],
    ])
  })

  it('logs nothing twice when a killed run resumes: known steps are left out, changed settings are tags', async () => {
    await rightOf(session().write([start(), ...steps(1, 7)]))
    await rightOf(session().write([start(90), ...steps(5, 9)]))
    expect(server.runs).toHaveLength(1)
    expect(losses()).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9])
    expect(server.runs[0]!.params.get('steps')).toBe('60')
    expect(server.runs[0]!.tags.get('tandem.resumed.steps')).toBe('90')
  })

  it.each(['refuse', 'lose-answer'] as const)(
    'has each number once if the server does %s at any request',
    async (trouble) => {
      for (let failing = 0; failing < 8; failing++) {
        await server.close()
        server = await mlflowServer()
        let count = 0
        server.trouble(() => (count++ === failing ? trouble : 'none'))
        const sink = session()
        let waiting: readonly TrackedEvent[] = []
        for (const events of [[start(), ...steps(1, 600)], steps(601, 602)]) {
          waiting = [...waiting, ...events]
          if (isRight(await sink.write(waiting)())) waiting = []
          else {
            await rightOf(sink.write(waiting))
            waiting = []
          }
        }
        expect(server.runs).toHaveLength(1)
        expect(losses()).toEqual(Array.from({ length: 602 }, (_, i) => i + 1))
      }
    },
  )

  it('retries later without a response or without access, and never for wrong events', async () => {
    expect(await leftOf(session('http://127.0.0.1:1').write([start()]))).toMatchObject({
      ...{ sink: 'mlflow', again: 'later', cause: { _tag: 'HttpFailure', kind: 'unreachable' } },
    })
    const sink = session()
    await rightOf(sink.write([start()]))
    const wrong: TrackedEvent = { type: 'scalars', at: 1, step: 0.5, values: { x: 1 }, seconds: {} }
    expect(await leftOf(sink.write([wrong]))).toMatchObject({ again: 'never', cause: { status: 400 } })
    await rightOf(sink.write([scalars(1)]))
    expect(losses()).toEqual([1])
  })
})
