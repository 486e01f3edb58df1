import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { makeMetricsRecorder } from '../../../src/modules/generation/engineMetrics.js'

const gauges = { running: 1, waiting: 2, cacheUsage: 0.5, cacheBytes: 1000 }

describe('the recorder of metrics', () => {
  it('counts each observation under every bound that it does not pass', () => {
    fc.assert(
      fc.property(fc.array(fc.double({ min: 0, max: 10_000, noNaN: true })), (seconds) => {
        const recorder = makeMetricsRecorder()
        for (const each of seconds) recorder.observe('queueTime', each)
        const { bounds, counts, sum, count } = recorder.read(gauges).queueTime
        expect(counts).toEqual(bounds.map((bound) => seconds.filter((each) => each <= bound).length))
        expect(sum).toBe(seconds.reduce((a, b) => a + b, 0))
        expect(count).toBe(seconds.length)
      }),
    )
  })

  it('gives out values that do not change any more', () => {
    const recorder = makeMetricsRecorder()
    const before = recorder.read(gauges)
    recorder.add('promptTokens', 3)
    recorder.finish('stop')
    recorder.observe('endToEnd', 0.1)
    expect(before).toMatchObject({ ...gauges, promptTokens: 0, finished: { stop: 0 }, endToEnd: { count: 0 } })
    expect(recorder.read(gauges)).toMatchObject({ promptTokens: 3, finished: { stop: 1 }, endToEnd: { count: 1 } })
  })
})
