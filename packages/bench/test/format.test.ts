/** Tables and pictures of results. */
import { describe, expect, it } from 'vitest'
import { type BenchmarkRound, comparisonOf, summarize } from '../src/benchmark.js'
import { formatBenchmark } from '../src/format.js'
import { benchmarkPicture } from '../src/picture.js'

const host = { cpu: 'a processor', cores: 2, node: 'v20.0.0', backend: 'cpu 4.22.0' }

const round = (seconds: number, flight: number): BenchmarkRound => ({
  ...{ units: 100, seconds, cpuSeconds: seconds / 2, policySeconds: 0, envSeconds: 0, restSeconds: seconds / 4 },
  inFlight: { mean: flight, most: 2 * flight },
  ...{ residentBytes: 300 * 2 ** 20, heapBytes: seconds * 2 ** 20, tensors: 3 },
})

const result = (name: string, seconds: readonly number[], flight = 0) =>
  summarize(
    { name, unit: 'rollouts' },
    seconds.map((each) => round(each, flight)),
    host,
  )

const before = result('before', [2, 2, 4])
const after = result('after', [1, 1, 2], 8)

describe('formatBenchmark', () => {
  it('shows medians with quartiles, memory and the machine', () => {
    expect(formatBenchmark(before).split('\n')).toEqual([
      '3 rounds; a processor, 2 cores; Node v20.0.0; cpu 4.22.0',
      '                         before',
      'rollouts per second      50 (37.5 to 50)',
      'overhead, ms each        5 (5 to 7.5)',
      'processor, ms each       10 (10 to 15)',
      'rows in flight           -',
      'resident memory at most  300 MiB',
      'heap growth              2 MiB',
      'tensors left             0',
      '',
    ])
  })

  it('shows two results side by side, and the ratio with its interval', () => {
    const lines = formatBenchmark(comparisonOf(before, after)).split('\n')
    expect(lines[1]).toBe('                         before           after')
    expect(lines[2]).toBe('rollouts per second      50 (37.5 to 50)  100 (75 to 100)')
    expect(lines[5]).toBe('rows in flight           -                8, at most 16')
    expect(lines.at(-2)).toBe(
      'after is faster: 2.000 times the rollouts per second of before (95 % confidence interval 2.000 to 2.000)',
    )
  })

  it('names every conclusion', () => {
    const last = (seconds: readonly number[]) =>
      formatBenchmark(comparisonOf(before, result('after', seconds)))
        .split('\n')
        .at(-2)
    expect(last([4, 4, 8])).toContain('after is slower: 0.500 times')
    expect(last([2.01, 2, 4])).toContain('after is as fast, within 5 %: 0.998 times')
    expect(last([1, 4, 4])).toContain('after may be faster or slower: run more rounds: 1.000 times')
  })
})

describe('benchmarkPicture', () => {
  const titles = (svg: string): readonly string[] =>
    [...svg.matchAll(/class="t"[^>]*>([^<]*)</g)].map(([, text]) => text!)

  it('draws a panel for each measure that has information', () => {
    expect(titles(benchmarkPicture(before))).toEqual(['Speed', 'Overhead', 'Resident memory'])
  })

  it('draws the ratio of each pair, the estimate and the interval', () => {
    const svg = benchmarkPicture(comparisonOf(before, after))
    expect(titles(svg)).toEqual(['Speed', 'after over before', 'Overhead', 'Rows in flight', 'Resident memory'])
    expect(svg).toContain('95 % interval')
    expect(svg).toContain('<title id="title">Benchmark of before and after</title>')
  })

  it('is the same for equal results', () => {
    expect(benchmarkPicture(before)).toBe(benchmarkPicture(result('before', [2, 2, 4])))
  })
})
