import { readFileSync } from 'node:fs'
import { liveTransport } from 'tandem-rl/remote'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { leftOf, rightOf } from '../../../test/kit/results.js'
import { type WandbServer, wandbServer, wandbStream } from '../../../test/kit/wandbServer.js'
import type { Sink, TrackedEvent } from '../src/sink.js'
import { wandbSink } from '../src/wandb.js'

let server: WandbServer
let sinks: Sink[] = []

beforeEach(async () => {
  server = await wandbServer()
})
afterEach(async () => {
  await Promise.all(sinks.map(({ close }) => rightOf(close)))
  sinks = []
  await server.close()
})

/** A session of a run. */
const session = ({ key = 'key', project = 'tandem', url = server.url } = {}): Sink => {
  const headers = { authorization: `Basic ${Buffer.from(`api:${key}`).toString('base64')}` }
  const sink = wandbSink({
    ...{ transport: liveTransport({ url, headers, retry: { attempts: 1 } }), runId: 'abc', project },
  })
  sinks.push(sink)
  return sink
}

const start = (steps = 60): TrackedEvent => ({
  ...{ type: 'start', at: 1000, run: 'first', from: 0, settings: { steps, dataset: null } },
})
const scalars = (step: number, name = 'loss'): TrackedEvent => ({
  ...{ type: 'scalars', at: 2000, step, values: { [name]: step / 8 }, seconds: {} },
})
const saved = (step: number): TrackedEvent => ({ type: 'saved', at: 1, step, what: 'checkpoint', path: 'a/b' })
const end = (step: number): TrackedEvent => ({ type: 'end', at: 1, step, status: 'interrupted' })
const stepsThere = (): readonly number[] => server.rows.map((row) => Number(/"_step":(\d+)/.exec(row)?.[1]))

const query = z.object({
  operationName: z.string(),
  words: z.array(z.string()),
  variables: z.record(z.string(), z.unknown()),
})
const request = z.object({ path: z.string(), body: z.union([query, z.string()]) })
const recorded = z
  .object({ first: z.array(request), resumed: z.array(request) })
  .parse(JSON.parse(readFileSync(new URL('../../../test/golden/tracking/wandb.json', import.meta.url), 'utf8')))

describe('wandbSink', () => {
  it('sends requests whose words, variables and files the official client has, recorded from version 0.31.0', async () => {
    const sink = session()
    await rightOf(
      sink.write([start(), scalars(1), { type: 'alarm', at: 1, step: 1, name: 'entropy', text: 'it fell' }]),
    )
    await rightOf(sink.write([scalars(2), end(2)]))
    const theirs = recorded.first.flatMap(({ body }) => (typeof body === 'string' ? [] : [body]))
    expect(server.queries).toHaveLength(3)
    for (const ours of server.queries) {
      const same = theirs.find(({ operationName }) => operationName === ours.operationName)!
      expect(same.words).toEqual(expect.arrayContaining(ours.query.match(/\w+/g)!))
      expect(Object.keys(same.variables)).toEqual(expect.arrayContaining(Object.keys(ours.variables)))
    }
    const streams = [...recorded.first, ...recorded.resumed].flatMap(({ path, body }) =>
      typeof body === 'string' ? [[path, wandbStream.parse(JSON.parse(body))] as const] : [],
    )
    expect(streams.map(([path]) => path)).toEqual(Array(4).fill('/files/me/tandem/abc/file_stream'))
    expect(streams.map(([, { files }]) => files?.['wandb-history.jsonl']?.offset)).toEqual([undefined, 0, undefined, 2])
    expect(streams.at(-1)![1]).toMatchObject({ complete: true, exitcode: 0 })
  })

  it('sends settings, one row per step, the summary, alerts and the end', async () => {
    const sink = session()
    await rightOf(sink.write([start(), scalars(1), { type: 'failure', at: 1, step: 1, name: 'rollout', text: 'lost' }]))
    expect(server.rows).toEqual([])
    await rightOf(sink.write([{ ...scalars(1, 'accuracy'), seconds: { evaluation: 3 } } as TrackedEvent]))
    const odd = { a: Number.NaN, b: Number.NEGATIVE_INFINITY }
    await rightOf(sink.write([{ type: 'scalars', at: 1, step: 2, values: odd, seconds: {} }]))
    expect(server.rows).toEqual(['{"loss":0.125,"_step":1,"_timestamp":2,"accuracy":0.125,"time/evaluation":3}'])
    await rightOf(sink.write([end(2)]))
    expect(server.rows.slice(1)).toEqual(['{"a":NaN,"b":-Infinity,"_step":2,"_timestamp":0.001}'])
    expect(server.last()).toEqual({
      summary: '{"loss":0.125,"_step":2,"_timestamp":0.001,"accuracy":0.125,"time/evaluation":3,"a":NaN,"b":-Infinity}',
      config: { steps: { value: 60 }, dataset: { value: null } },
      exit: 255,
    })
    expect(server.queries.at(-1)).toMatchObject({
      variables: { title: 'rollout', text: 'lost', severity: 'ERROR', runName: 'abc', entityName: 'me' },
    })
  })

  it('has each step once when a run that was killed after a checkpoint resumes, with the new settings', async () => {
    await rightOf(session().write([start(), ...[1, 2, 3].map((step) => scalars(step)), saved(3)]))
    expect(stepsThere()).toEqual([1, 2, 3])
    await rightOf(session().write([start(90), ...[3, 4, 5].map((step) => scalars(step)), end(5)]))
    expect(stepsThere()).toEqual([1, 2, 3, 4, 5])
    expect(server.last().config).toMatchObject({ steps: { value: 90 } })
  })

  it('retries later if the server is unreachable, broken or denies access, and never after an error of the query', async () => {
    expect(await leftOf(session({ url: 'http://127.0.0.1:1' }).write([start()]))).toMatchObject({ again: 'later' })
    expect(await leftOf(session({ key: 'wrong' }).write([start()]))).toMatchObject({
      ...{ sink: 'wandb', again: 'later', cause: { status: 401 } },
    })
    expect(await leftOf(session({ project: 'forbidden' }).write([start()]))).toMatchObject({
      ...{ again: 'never', cause: { reason: 'RunResumeStatus: not yours' } },
    })
  })
})
