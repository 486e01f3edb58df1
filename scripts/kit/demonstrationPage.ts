/** `docs/demonstration.md`: its pictures and tables from the results of the runs. */
import { lineChart, type Panel } from '../../packages/bench/src/lineChart.js'
import { KINDS, type RunName, type RunResult, SHARED, SIDES, TASKS, type Task, untrained } from './demonstration.js'

export const PAGE = 'docs/demonstration.md'
export const PICTURE = 'docs/images/demonstration.svg'

const KIND_TITLES = { lora: 'LoRA', all: 'all weights' } as const
const SIDE_TITLES = { tandem: 'Tandem', trl: 'TRL' } as const

type Results = readonly RunResult[]
type Setup = Omit<RunName, 'seed'>

const runsOf = (results: Results, { task, kind, side }: Setup): Results =>
  results.filter((run) => run.task === task && run.kind === kind && run.side === side)

const panelOf = (results: Results, task: Task, kind: RunName['kind']): Panel => ({
  title: `${task}, ${KIND_TITLES[kind]}`,
  xLabel: 'step',
  yLabel: 'mean reward',
  xRange: [1, SHARED.steps],
  yRange: [0, 1],
  series: SIDES.flatMap((side, color) =>
    runsOf(results, { task, kind, side }).map(({ steps }): Panel['series'][number] => ({
      name: SIDE_TITLES[side],
      points: steps.map(({ reward }, i) => [i + 1, reward]),
      color,
      line: side === 'tandem' ? 'solid' : 'dotted',
    })),
  ),
})

const percent = (share: number): string => (100 * share).toFixed(1)

/** The picture: one panel for each task and kind, with a curve for each run. */
export const demonstrationPicture = (results: Results): string =>
  lineChart({
    title: 'Mean reward of each step',
    description: results
      .map(({ task, side, kind, seed, steps }) => {
        const [first, last] = [steps[0]!, steps.at(-1)!]
        return `${task}, ${KIND_TITLES[kind]}, ${SIDE_TITLES[side]}, seed ${seed}: ${first.reward.toFixed(2)} to ${last.reward.toFixed(2)}`
      })
      .join('; '),
    panels: TASKS.flatMap((task) => KINDS.map((kind) => panelOf(results, task, kind))).filter(
      ({ series }) => series.length > 0,
    ),
    columns: 2,
  })

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!

/** The range of a number of digits, or one number. */
const range = (values: readonly number[], digits: number): string => {
  const [low, high] = [Math.min(...values).toFixed(digits), Math.max(...values).toFixed(digits)]
  return low === high ? low : `${low} to ${high}`
}

type Column = readonly [title: string, cell: (runs: Results, setup: Setup) => string]

const LEARNING: readonly Column[] = [
  ['Seeds', (runs) => runs.map(({ seed }) => seed).join(', ')],
  ['Rate', ([run]) => run!.learningRate.toExponential()],
  ['Reward of step 1', (runs) => runs.map(({ steps }) => steps[0]!.reward.toFixed(2)).join(', ')],
  ['Of the last step', (runs) => runs.map(({ steps }) => steps.at(-1)!.reward.toFixed(2)).join(', ')],
  ['Held out, before', (_, { task }) => `${percent(untrained(task).accuracy)} %`],
  ['After', (runs) => `${runs.map(({ heldOut }) => percent(heldOut.accuracy)).join(', ')} %`],
]

const totalOf = (steps: RunResult['steps']): number => steps.reduce((sum, { cpuSeconds }) => sum + cpuSeconds, 0)

const later = ({ steps }: RunResult): RunResult['steps'] => steps.slice(1)

const COSTS: readonly Column[] = [
  ['Runs', (runs) => String(runs.length)],
  [
    'First step',
    (runs) =>
      `${range(
        runs.map(({ steps }) => steps[0]!.cpuSeconds),
        0,
      )} s`,
  ],
  [
    'Later steps',
    (runs) =>
      `${range(
        runs.map((run) => median(later(run).map(({ cpuSeconds }) => cpuSeconds))),
        1,
      )} s`,
  ],
  [
    'All steps',
    (runs) =>
      `${range(
        runs.map(({ steps }) => totalOf(steps)),
        0,
      )} s`,
  ],
  [
    'Wall time of them',
    (runs) =>
      `${range(
        runs.map((run) => median(later(run).map((step) => step.wallSeconds))),
        1,
      )} s`,
  ],
  [
    'Of 100 tokens',
    (runs) =>
      `${((100 * sum(runs, 'cpuSeconds')) / (SHARED.prompts * SHARED.group * sum(runs, 'tokens'))).toFixed(2)} s`,
  ],
  [
    'Peak memory',
    (runs) =>
      `${range(
        runs.map(({ peakMiB }) => peakMiB),
        0,
      )} MiB`,
  ],
]

const sum = (runs: Results, key: 'cpuSeconds' | 'tokens'): number =>
  runs.flatMap(later).reduce((total, step) => total + step[key], 0)

const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`

const table = (results: Results, columns: readonly Column[]): readonly string[] => [
  row(['Task', 'Weights', 'Trainer', ...columns.map(([title]) => title)]),
  row(['---', '---', '---', ...columns.map(() => '--:')]),
  ...TASKS.flatMap((task) => KINDS.flatMap((kind) => SIDES.map((side) => ({ task, kind, side })))).flatMap((setup) => {
    const runs = runsOf(results, setup)
    if (runs.length === 0) return []
    const { task, kind, side } = setup
    return [row([`\`${task}\``, KIND_TITLES[kind], SIDE_TITLES[side], ...columns.map(([, cell]) => cell(runs, setup))])]
  }),
]

/** Returns the page with new tables between its marks. */
export const filledPage = (page: string, results: Results): string =>
  Object.entries({ learning: LEARNING, costs: COSTS }).reduce(
    (text, [name, columns]) =>
      text.replace(new RegExp(`<!-- ${name} -->\\n[\\s\\S]*?<!-- end -->`), () =>
        [`<!-- ${name} -->`, '', ...table(results, columns), '', '<!-- end -->'].join('\n'),
      ),
    page,
  )
