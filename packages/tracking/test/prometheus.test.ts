import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readPrometheus, seriesOf } from '../../../test/kit/prometheusText.js'
import { leftOf, rightOf } from '../../../test/kit/results.js'
import { serveMetrics } from '../src/metricsServer.js'
import { prometheusSink } from '../src/prometheus.js'
import type { TrackedEvent } from '../src/sink.js'

const start = (from = 0): TrackedEvent => ({ type: 'start', at: 1000, run: 'first "run"', from, settings: { seed: 1 } })
const scalars = (
  step: number,
  values: Readonly<Record<string, number>>,
  seconds: Readonly<Record<string, number>> = {},
): TrackedEvent => ({ type: 'scalars', at: 1000 * step, step, values, seconds })

const text = async (events: readonly TrackedEvent[], options?: Parameters<typeof prometheusSink>[0]) => {
  const sink = prometheusSink(options)
  await rightOf(sink.write(events))
  return sink.registry.metrics()
}

describe('prometheusSink', () => {
  it('has the last value of each scalar, counts what happened, and adds up tokens and the seconds of phases', async () => {
    const series = seriesOf(
      await text([
        start(),
        scalars(0, { 'eval/accuracy': 0.25 }, { evaluation: 2 }),
        scalars(1, { 'train/clipFraction': 0.5, 'train/tokens': 10 }, { generation: 1, training: 0.5 }),
        { type: 'alarm', at: 1, step: 1, name: 'truncation', text: 'cut' },
        { type: 'failure', at: 1, step: 1, name: 'EnvFailure', text: 'gone' },
        { type: 'failure', at: 1, step: 1, name: 'EnvFailure', text: 'gone' },
        { type: 'samples', at: 1, step: 1, samples: [{ name: '0', text: 'x' }] },
        scalars(2, { 'train/clipFraction': 0.25, 'train/tokens': 7 }, { generation: 3, training: 0.25 }),
        {
          type: 'saved',
          at: 9,
          step: 2,
          what: 'checkpoint',
          path: 'a',
          spans: [{ name: 'checkpoint', from: 0, to: 4 }],
        },
        { type: 'end', at: 9000, step: 2, status: 'finished' },
      ]),
    )
    expect(series).toEqual({
      'tandem_run_info{run="first "run""}': 1,
      tandem_run_running: 0,
      tandem_last_event_timestamp_seconds: 9,
      tandem_step: 2,
      tandem_steps_total: 2,
      tandem_eval_accuracy: 0.25,
      tandem_train_clip_fraction: 0.25,
      tandem_train_tokens: 7,
      tandem_train_tokens_total: 17,
      'tandem_alarms_total{alarm="truncation"}': 1,
      'tandem_failures_total{failure="EnvFailure"}': 2,
      'tandem_saved_total{what="checkpoint"}': 1,
      'tandem_phase_seconds_sum{phase="evaluation"}': 2,
      'tandem_phase_seconds_count{phase="evaluation"}': 1,
      'tandem_phase_seconds_sum{phase="generation"}': 4,
      'tandem_phase_seconds_count{phase="generation"}': 2,
      'tandem_phase_seconds_sum{phase="training"}': 0.75,
      'tandem_phase_seconds_count{phase="training"}': 2,
      'tandem_phase_seconds_sum{phase="checkpoint"}': 0.004,
      'tandem_phase_seconds_count{phase="checkpoint"}': 1,
    })
  })

  it('counts only the steps of this process when a run is resumed, and none twice', async () => {
    const series = seriesOf(await text([start(7), scalars(7, {}), scalars(7, {}), scalars(8, {})]))
    expect(series).toMatchObject({ tandem_step: 8, tandem_steps_total: 2 })
  })

  it('puts each phase into its bucket', async () => {
    const families = readPrometheus(
      await text([scalars(1, {}, { a: 0.5 }), scalars(2, {}, { a: 1 }), scalars(3, {}, { a: 3 })], { buckets: [1, 2] }),
    )
    const buckets = families.tandem_phase_seconds?.series.tandem_phase_seconds_bucket
    expect(buckets?.map(({ labels, value }) => [labels.le, value])).toEqual([
      ['1', 2],
      ['2', 2],
      ['+Inf', 3],
    ])
  })

  it('distinguishes scalars with similar names, also those that look like its own', async () => {
    const values = { 'a/b': 1, 'a.b': 2, step: 3, phaseSeconds: 4, 'phase_seconds/sum': 5, 'run/info': 6 }
    expect(seriesOf(await text([scalars(9, values)]))).toMatchObject({
      ...{ tandem_a_b: 1, tandem_a_b_2: 2, tandem_step: 9, tandem_step_2: 3, tandem_phase_seconds_2: 4 },
      ...{ tandem_phase_seconds_sum_2: 5, tandem_run_info_2: 6 },
    })
  })

  it('gives a text that can be read for any names, texts and numbers, with a series of its own for each scalar', async () => {
    const numbers = fc.dictionary(fc.string({ maxLength: 9 }), fc.double(), { maxKeys: 6 })
    await fc.assert(
      fc.asyncProperty(numbers, numbers, fc.string(), async (values, seconds, words) => {
        const written = await text([
          { ...start(), run: words } as TrackedEvent, // a start
          scalars(1, values, seconds),
          { type: 'alarm', at: 1, step: 1, name: words, text: words },
        ])
        const families = readPrometheus(written)
        const shown = Object.values(families)
          .filter(({ help }) => help.startsWith('Scalar '))
          .flatMap(({ series }) => Object.values(series).flatMap((each) => each.map(({ value }) => value)))
        expect(shown).toEqual(Object.values(values).map((value) => (Object.is(value, -0) ? 0 : value)))
        expect(families.tandem_alarms_total?.series.tandem_alarms_total).toEqual([
          { labels: { alarm: words }, value: 1 },
        ])
      }),
    )
  })

  it('refuses a prefix that no metric may have and buckets that do not rise, both at once', () => {
    expect(() => prometheusSink({ prefix: '9-', buckets: [2, 1] })).toThrow(
      /prefix must consist .*'9-'; buckets must increase, got 2, 1/,
    )
  })
})

describe('serveMetrics', () => {
  it('answers a scrape with the events so far, and nothing after it was closed', async () => {
    const sink = prometheusSink()
    const server = await rightOf(serveMetrics(sink.registry, { port: 0 }))
    expect(server.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/metrics$/)
    for (const step of [1, 2]) {
      await rightOf(sink.write([scalars(step, { x: step })]))
      const answer = await fetch(server.url)
      expect(answer.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
      expect(seriesOf(await answer.text())).toMatchObject({ tandem_x: step, tandem_steps_total: step })
    }
    await server.close()
    await server.close()
    await expect(fetch(server.url)).rejects.toThrow('fetch failed')
  })

  it('has nothing elsewhere, and takes nothing', async () => {
    const server = await rightOf(serveMetrics(prometheusSink().registry, { port: 0 }))
    expect((await fetch(new URL('/', server.url))).status).toBe(404)
    expect((await fetch(server.url, { method: 'POST', body: 'x' })).status).toBe(405)
    expect(await (await fetch(server.url, { method: 'HEAD' })).text()).toBe('')
    await server.close()
  })

  it('fails where the port is taken', async () => {
    const first = await rightOf(serveMetrics(prometheusSink().registry, { port: 0 }))
    const port = Number(new URL(first.url).port)
    expect(await leftOf(serveMetrics(prometheusSink().registry, { port }))).toMatchObject({
      ...{ _tag: 'ListenFailure', code: 'EADDRINUSE', reason: expect.stringContaining('the port is in use') },
    })
    await first.close()
  })
})
