/** `docs/algorithms.md`: which runs it shows, and its pictures and tables from their numbers. */
import { lineChart, type Panel } from '../../packages/bench/src/lineChart.js'
import type { AlgorithmName } from '../../src/objectives/algorithms.js'
import type { Kept, LearningData, LearningRun, SharedSettings } from './learningRuns.js'

export const DATA = 'docs/data/algorithms.json'
export const PAGE = 'docs/algorithms.md'

/** Algorithms under the same settings. */
export interface Setup {
  readonly id: string
  readonly title: string
  /** The settings that differ from the defaults of `tandem train`. */
  readonly settings: SharedSettings
  readonly algorithms: readonly AlgorithmName[]
  readonly seeds: readonly number[]
  /**
   * The requirement of `test/learning/algorithms.test.ts` for seed 1 after the last batch; null if
   * that test does not make these runs.
   */
  readonly threshold: number | null
}

const COMPARED: readonly AlgorithmName[] = [
  'grpo',
  'dapo',
  'dr-grpo',
  'rloo',
  'reinforce++',
  'gspo',
  'cispo',
  'gmpo',
  'sapo',
]

const SHARED = { prompts: 8, learningRate: 5e-5, steps: 10, evalEvery: 1, evalTasks: 100 } as const

export const SETUPS: readonly Setup[] = [
  {
    id: 'one-update',
    title: 'One update for each batch',
    settings: SHARED,
    algorithms: COMPARED,
    seeds: [1, 2, 3],
    threshold: 0.85,
  },
  {
    id: 'four-updates',
    title: 'Four updates for each batch',
    settings: { ...SHARED, steps: 4, miniBatches: 4 },
    algorithms: COMPARED,
    seeds: [1],
    threshold: null,
  },
]

const kebab = (name: string): string => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)

/** Settings as options of `tandem train`. */
export const flagsOf = (settings: SharedSettings): readonly string[] =>
  Object.entries(settings).flatMap(([name, value]) => [`--${kebab(name)}`, String(value)])

const mean = (values: readonly number[]): number => values.reduce((a, b) => a + b, 0) / values.length

/** The mean of several lists, entry by entry. */
const meanCurve = (curves: readonly (readonly number[])[]): readonly number[] =>
  curves[0]!.map((_, i) => mean(curves.map((curve) => curve[i]!)))

const runsOf = ({ runs }: LearningData, setup: string, algorithm: AlgorithmName): readonly LearningRun[] =>
  runs.filter((run) => run.setup === setup && run.algorithm === algorithm)

/** The algorithms of a setup that were run. */
const algorithmsOf = (data: LearningData, { id, algorithms }: Setup): readonly AlgorithmName[] =>
  algorithms.filter((algorithm) => runsOf(data, id, algorithm).length > 0)

type Series = Panel['series'][number]

/** Points of a curve in percent, numbered by the batches that came before. */
const pointsOf = (curve: readonly number[]): Series['points'] => curve.map((value, i) => [i, 100 * value])

const panelOf = (data: LearningData, setup: Setup, algorithm: AlgorithmName): Panel => {
  const curves = (name: AlgorithmName): readonly (readonly number[])[] =>
    runsOf(data, setup.id, name).map(({ heldOut }) => heldOut)
  return {
    title: algorithm,
    xLabel: 'batches',
    yLabel: '% right',
    xRange: [0, setup.settings.steps],
    yRange: [0, 100],
    series: [
      { name: 'mean of grpo', points: pointsOf(meanCurve(curves('grpo'))), color: 7, line: 'dashed' },
      ...curves(algorithm).map(
        (curve): Series => ({ name: 'one seed', points: pointsOf(curve), color: 1, line: 'dotted' }),
      ),
      { name: 'mean', points: pointsOf(meanCurve(curves(algorithm))), color: 0 },
    ],
  }
}

/** The picture of a setup: one panel for each algorithm, all with the same axes. */
export const curvesPicture = (data: LearningData, setup: Setup): string =>
  lineChart({
    title: setup.title,
    description: algorithmsOf(data, setup)
      .map((algorithm) => {
        const runs = runsOf(data, setup.id, algorithm)
        return `${algorithm}: ${percent(mean(runs.map(first)))} to ${percent(mean(runs.map(last)))}`
      })
      .join('; '),
    panels: algorithmsOf(data, setup).map((algorithm) => panelOf(data, setup, algorithm)),
    columns: 3,
  })

const first = ({ heldOut }: LearningRun): number => heldOut[0]!
const last = ({ heldOut }: LearningRun): number => heldOut.at(-1)!

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`

/** Batches until an evaluation first reaches a share; more than there were if none does. */
const batchesTo = (share: number, { heldOut }: LearningRun): string => {
  const reached = heldOut.findIndex((accuracy) => accuracy >= share)
  return reached === -1 ? `> ${heldOut.length - 1}` : String(reached)
}

/** Numbers below one thousandth as they are written in papers, others with few digits. */
const figure = (value: number): string => {
  if (value === 0) return '0'
  return value < 1e-3 ? value.toExponential(1) : String(Number(value.toPrecision(2)))
}

/** The columns of a table for an algorithm's runs. */
type Column = readonly [title: string, cell: (runs: readonly LearningRun[]) => string]

const average =
  (key: Kept) =>
  (runs: readonly LearningRun[]): string =>
    figure(mean(runs.flatMap((run) => run[key])))

const lowest = (runs: readonly LearningRun[]): number => Math.min(...runs.map(last))

const columnsOf = ({ threshold }: Setup): readonly Column[] => [
  ['Seeds', (runs) => String(runs.length)],
  ['Before', (runs) => percent(mean(runs.map(first)))],
  ['After, mean', (runs) => percent(mean(runs.map(last)))],
  ['Lowest', (runs) => percent(lowest(runs))],
  ...(threshold === null
    ? []
    : [['Above the test', (runs) => `${(100 * (lowest(runs) - threshold)).toFixed(0)} points`] satisfies Column]),
  ['Batches to 90 %', (runs) => runs.map((run) => batchesTo(0.9, run)).join(', ')],
  ['Clip fraction', average('clipFraction')],
  ['Cut fraction', average('pgClipFraction')],
  ['Gradient norm', average('gradNorm')],
  ['KL to the start', (runs) => `${figure(mean(runs.map((run) => run.klToRef.at(-1)!)))} nats`],
  ['CPU time of a batch', (runs) => `${mean(runs.map((run) => run.cpuSeconds)).toFixed(1)} s`],
]

const row = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`

/** The table of a setup: one line for each algorithm. */
const curvesTable = (data: LearningData, setup: Setup): readonly string[] => {
  const columns = columnsOf(setup)
  return [
    row(['Algorithm', ...columns.map(([title]) => title)]),
    row(['---', ...columns.map(() => '--:')]),
    ...algorithmsOf(data, setup).map((algorithm) =>
      row([`\`${algorithm}\``, ...columns.map(([, cell]) => cell(runsOf(data, setup.id, algorithm)))]),
    ),
  ]
}

/** Returns the path of a setup's picture. */
export const pictureOf = ({ id }: Setup): string => `docs/images/algorithms/${id}.svg`

/** Returns the page with new tables between the marks of each setup. */
export const filledPage = (page: string, data: LearningData): string =>
  SETUPS.reduce((text, setup) => {
    const command = `tandem train ${flagsOf(setup.settings).join(' ')} --threads 1 --algorithm NAME --seed N`
    const table = [`\`${command}\``, '', ...curvesTable(data, setup)]
    return text.replace(new RegExp(`<!-- ${setup.id} -->\\n[\\s\\S]*?<!-- end -->`), () =>
      [`<!-- ${setup.id} -->`, '', ...table, '', '<!-- end -->'].join('\n'),
    )
  }, page)
