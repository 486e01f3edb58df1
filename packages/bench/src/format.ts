/** Results of benchmarks as text for people. */
import { countOf, textTable } from '@tandem-rl/base'
import type { Benchmark, Comparison } from './benchmark.js'
import type { SpeedVerdict, Spread } from './statistics.js'

const MIB = 2 ** 20

/** Formats a number with three significant digits, or as an integer from 1000 on. */
const short = (value: number): string =>
  Math.abs(value) >= 1000 ? Math.round(value).toLocaleString('en-US') : String(Number(value.toPrecision(3)))

const spread = ({ median, low, high }: Spread): string => `${short(median)} (${short(low)} to ${short(high)})`

const mean = (values: readonly number[]): number => values.reduce((sum, x) => sum + x, 0) / values.length

/**
 * Describes the memory of all rounds: the peak, and the changes from the first round to the last.
 */
const memoryOf = ({ rounds }: Benchmark): readonly string[] => {
  const [first, last] = [rounds[0]!, rounds.at(-1)!]
  return [
    `${short(Math.max(...rounds.map(({ residentBytes }) => residentBytes)) / MIB)} MiB`,
    `${short((last.heapBytes - first.heapBytes) / MIB)} MiB`,
    short(last.tensors - first.tensors),
  ]
}

const flightOf = ({ rounds }: Benchmark): string => {
  const most = Math.max(...rounds.map(({ inFlight }) => inFlight.most))
  return most === 0 ? '-' : `${short(mean(rounds.map(({ inFlight }) => inFlight.mean)))}, at most ${most}`
}

/** The label and value of each line of a benchmark. */
const linesOf = (result: Benchmark): readonly (readonly [label: string, value: string])[] => {
  const one = result.unit
  const [resident, heap, tensors] = memoryOf(result)
  return [
    [`${one} per second`, spread(result.unitsPerSecond)],
    [`overhead, ms each`, spread(result.overheadMs)],
    [`processor, ms each`, spread(result.cpuMs)],
    ['rows in flight', flightOf(result)],
    ['resident memory at most', resident!], // memoryOf returns three texts
    ['heap growth', heap!],
    ['tensors left', tensors!],
  ]
}

const CONCLUSIONS: Readonly<Record<SpeedVerdict, string>> = {
  faster: 'is faster',
  slower: 'is slower',
  same: 'is as fast, within 5 %',
  unclear: 'may be faster or slower: run more rounds',
}

/** Describes the ratio of a comparison in one line. */
const ratioLine = ({ baseline, candidate, ratio, verdict }: Comparison): string => {
  const [estimate, low, high] = [ratio.estimate, ratio.low, ratio.high].map((x) => x.toFixed(3))
  const share = Math.round(100 * ratio.confidence)
  return (
    `${candidate.name} ${CONCLUSIONS[verdict]}: ${estimate} times the ${candidate.unit} per second of ${baseline.name} ` +
    `(${share} % confidence interval ${low} to ${high})`
  )
}

/**
 * Formats a result as a table: medians with their quartiles, and for a comparison the ratio with
 * its confidence interval.
 *
 * @example
 * typeof formatBenchmark // 'function'
 */
export const formatBenchmark = (result: Benchmark | Comparison): string => {
  const columns = result._tag === 'Benchmark' ? [result] : [result.baseline, result.candidate]
  const lines = columns.map(linesOf)
  const { host, rounds } = columns[0]!
  return [
    `${countOf(rounds.length, 'round')}; ${host.cpu}, ${countOf(host.cores, 'core')}; Node ${host.node}; ${host.backend}`,
    ...textTable([
      ['', ...columns.map(({ name }) => name)],
      ...lines[0]!.map(([label], i) => [label, ...lines.map((each) => each[i]![1])]),
    ]),
    ...(result._tag === 'Comparison' ? [ratioLine(result)] : []),
    '',
  ].join('\n')
}
