/** Results of benchmarks as pictures. */
import type { Benchmark, BenchmarkRound, Comparison } from './benchmark.js'
import { lineChart, type Panel } from './lineChart.js'

const byRound = (values: readonly number[]): readonly (readonly [number, number])[] =>
  values.map((value, i) => [i + 1, value] as const)

/** The ratio of each pair of rounds, with the estimate and its interval as horizontal lines. */
const ratioPanel = ({ baseline, candidate, ratio }: Comparison): Panel => {
  const speed = ({ units, seconds }: BenchmarkRound): number => units / seconds
  const level = (value: number) => byRound(baseline.rounds.map(() => value))
  return {
    title: `${candidate.name} over ${baseline.name}`,
    xLabel: 'round',
    yLabel: 'ratio of the speeds',
    series: [
      {
        name: 'ratio of a pair',
        points: byRound(candidate.rounds.map((round, i) => speed(round) / speed(baseline.rounds[i]!))),
        color: 2,
      },
      { name: 'estimate', points: level(ratio.estimate), color: 3, line: 'dashed' },
      { name: '95 % interval', points: level(ratio.low), color: 3, line: 'dotted' },
      { name: '95 % interval', points: level(ratio.high), color: 3, line: 'dotted' },
    ],
  }
}

/**
 * Draws a result as SVG text: speed, rows in flight and memory by round, and for a comparison the
 * ratio of each pair with the confidence interval. Panels without information are left out.
 *
 * @example
 * typeof benchmarkPicture // 'function'
 */
export const benchmarkPicture = (result: Benchmark | Comparison): string => {
  const all = result._tag === 'Benchmark' ? [result] : [result.baseline, result.candidate]
  const panel = (title: string, yLabel: string, value: (round: BenchmarkRound) => number): readonly Panel[] => {
    const isFlat = all.every(({ rounds }) => rounds.every((round) => value(round) === 0))
    const series = all.map(({ name, rounds }) => ({ name, points: byRound(rounds.map(value)) }))
    return isFlat ? [] : [{ title, xLabel: 'round', yLabel, series }]
  }
  const { unit, host } = all[0]!
  const names = all.map(({ name }) => name).join(' and ')
  return lineChart({
    title: `Benchmark of ${names}`,
    description: `Speed, rows in flight and memory of ${names} by round, on ${host.cpu}, Node ${host.node}.`,
    panels: [
      ...panel('Speed', `${unit} / s`, ({ units, seconds }) => units / seconds),
      ...(result._tag === 'Comparison' ? [ratioPanel(result)] : []),
      ...panel('Overhead', 'ms each', ({ units, restSeconds }) => (1000 * restSeconds) / units),
      ...panel('Rows in flight', 'mean', ({ inFlight }) => inFlight.mean),
      ...panel('Resident memory', 'MiB', ({ residentBytes }) => residentBytes / 2 ** 20),
    ],
  })
}
