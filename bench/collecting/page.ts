/** The page and the picture of what collecting costs. */
import { lineChart } from '../../packages/bench/src/lineChart.js'
import type { Figures, MemoryReading } from './runs.js'

export interface CollectResults {
  readonly machine: string
  readonly date: string
  /** Of one minute, before and after. */
  readonly load: readonly [before: number, after: number]
  readonly runs: number
  readonly figures: readonly Figures[]
  readonly memory: readonly MemoryReading[]
}

const name = (latencyMs: number): string => `policy of ${latencyMs} ms`

const curves = (figures: readonly Figures[], y: (each: Figures) => number) =>
  [...new Set(figures.map(({ latencyMs }) => latencyMs))].map((latencyMs) => ({
    name: name(latencyMs),
    points: figures
      .filter((each) => each.latencyMs === latencyMs)
      .map((each): [number, number] => [each.inFlight, y(each)]),
  }))

const across = { xLabel: 'conversations in flight', xScale: 'log' } as const

/** Rollouts a second, the time of the processor for one, and memory, over the conversations in flight. */
export const collectChart = ({ figures, memory }: Pick<CollectResults, 'figures' | 'memory'>): string =>
  lineChart({
    title: 'What collecting costs',
    description: `Rollouts a second, processor time for a rollout and memory by conversations in flight, and memory over ${memory.at(-1)?.rollouts ?? 0} rollouts.`,
    panels: [
      {
        title: 'Rollouts a second',
        yLabel: 'rollouts / s',
        ...across,
        series: curves(figures, (each) => each.rolloutsPerSecond),
      },
      { title: 'Processor time for a rollout', yLabel: 'ms', ...across, series: curves(figures, (each) => each.cpuMs) },
      { title: 'Memory', yLabel: 'MiB resident', ...across, series: curves(figures, (each) => each.rssMegabytes) },
      {
        title: 'Memory of a long run',
        xLabel: 'rollouts',
        yLabel: 'MiB',
        series: [
          { name: 'alive on the heap', points: memory.map((each) => [each.rollouts, each.heapMegabytes]) },
          { name: 'resident', points: memory.map((each) => [each.rollouts, each.rssMegabytes]) },
        ],
      },
    ],
  })

const row = (cells: readonly (string | number)[]): string => `| ${cells.join(' | ')} |`

const growth = (memory: readonly MemoryReading[]): string => {
  const [first, last] = [memory[0], memory.at(-1)]
  if (first === undefined || last === undefined) return 'There is no reading.'
  const change = last.heapMegabytes - first.heapMegabytes
  return `From the first reading to the last one what is alive changes by ${change} MiB, ${((Math.abs(change) / (last.rollouts - first.rollouts)) * 2 ** 20).toFixed(0)} bytes for a rollout.`
}

/** The page in Markdown. `picture` is where it finds the figure. */
export const collectPage = (results: CollectResults, picture: string): string => {
  const { machine, date, load, runs, figures, memory } = results
  const longest = memory.at(-1)
  return [
    '# Speed of collecting',
    '',
    'This page is written by `npm run bench -- collect --page docs/benchmarksCollect.md`. Do not edit it.',
    '',
    `- Host: ${machine}. Date: ${date}. Load average of one minute: ${load[0].toFixed(1)} before, ${load[1].toFixed(1)} after; the bench uses one core, so a load well above 1 means that others used the machine, and that rates are too low. The time of the processor suffers less from it.`,
    `- Concurrent rollouts of \`LLMCollector\` play conversations of one turn with a scripted policy, which answers at once or after 50 ms, in a scripted environment; batches of 64 rows. Medians of ${runs} runs.`,
    '- The overhead is the time of the clock for a rollout without what the policy takes (its latency for each wave of conversations in flight).',
    '',
    `![Rollouts a second, processor time, memory](${picture})`,
    '',
    row([
      'policy',
      'in flight',
      'rollouts',
      'rollouts / s',
      'overhead, ms',
      'processor, ms',
      'seconds of a run, least to most',
      'resident, MiB',
      'tensors left',
    ]),
    row(['---', ...Array<string>(8).fill('---:')]),
    ...figures.map((each) =>
      row([
        `${each.latencyMs} ms`,
        each.inFlight,
        each.rollouts,
        each.rolloutsPerSecond,
        each.overheadMs,
        each.cpuMs,
        each.spreadSeconds.join(' to '),
        each.rssMegabytes,
        each.tensorsLeft,
      ]),
    ),
    '',
    '## Memory of a long run',
    '',
    `${longest?.rollouts ?? 0} rollouts; memory is read after a collection of garbage, first when as many rollouts are over as are in flight. ${growth(memory)}`,
    '',
    row(['rollouts', 'alive on the heap, MiB', 'resident, MiB', 'tensors']),
    row(['---:', '---:', '---:', '---:']),
    ...memory.map((each) => row([each.rollouts, each.heapMegabytes, each.rssMegabytes, each.tensors])),
    '',
  ].join('\n')
}
