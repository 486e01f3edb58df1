/** The charts of a run's report, as data for the page. */
import { evenly, ownValue } from '@tandem-rl/base'
import type { EvaluationRecord, StepRecord } from '../metrics/records.js'

/** The most steps in a chart. All records are in metrics.jsonl. */
const CHART_STEPS = 2000

type Column = readonly (number | null)[]

/** A line of a chart. */
interface Line {
  readonly label: string
  readonly stroke: string
  readonly values: Column
  /** `points` also marks each value; used for evaluations, which are few. */
  readonly style: 'points' | 'plain' | 'dashed'
}

/** A chart whose lines share one axis of steps. */
interface Chart {
  readonly title: string
  readonly steps: readonly number[]
  readonly format: 'percent' | 'number'
  readonly lines: readonly Line[]
}

const STROKES = ['blue', 'violet', 'red', 'gold'] as const
const SAMPLE_STROKES = ['teal', 'orange', 'gray', 'violet'] as const

/** Returns the number if it can be drawn, else `null`. */
const known = (value: number | null | undefined): number | null =>
  value === null || value === undefined || !Number.isFinite(value) ? null : value

/** Charts of evaluation scores with the sampled success rate, of rewards, and of the loss. */
const learningChart = (
  steps: readonly StepRecord[],
  evaluations: readonly EvaluationRecord[],
): { readonly share: Chart; readonly reward: Chart | null; readonly loss: Chart } => {
  const axis = [...new Set([...steps, ...evaluations].map(({ step }) => step))].sort((a, b) => a - b)
  const at = <T extends { readonly step: number }>(records: readonly T[], value: (record: T) => number | undefined) => {
    const found = new Map(records.map((record) => [record.step, known(value(record))]))
    return axis.map((step) => found.get(step) ?? null)
  }
  const names = [...new Set(evaluations.map(({ name }) => name))]
  const evaluated = names.map((name, i): Line => {
    const own = evaluations.filter((each) => each.name === name)
    const score = own[0]!.score
    return {
      label: `${name}: ${score}`,
      stroke: STROKES[i % STROKES.length]!,
      style: 'points',
      values: at(own, ({ scores }) => scores[score]),
    }
  })
  const success = steps.some(({ parts }) => parts.success !== undefined)
  const sampled: readonly Line[] = success
    ? [
        {
          label: 'success of samples',
          stroke: 'teal',
          style: 'plain',
          values: at(steps, ({ parts }) => parts.success),
        },
      ]
    : []
  const parts = Object.keys(steps[0]?.parts ?? {}).filter((name) => name !== 'success')
  const hasRewards = steps.some(({ reward }) => reward !== undefined)
  const rewards: readonly Line[] = [
    { label: 'reward', stroke: 'blue', style: 'plain', values: at(steps, ({ reward }) => reward) },
    ...parts.map(
      (name, i): Line => ({
        label: name,
        stroke: SAMPLE_STROKES[i % SAMPLE_STROKES.length]!,
        style: 'dashed',
        values: at(steps, (record) => ownValue(record.parts, name)),
      }),
    ),
  ]
  const isShare = evaluations.every(({ measure }) => measure === 'success')
  return {
    share: { title: '', steps: axis, format: isShare ? 'percent' : 'number', lines: [...evaluated, ...sampled] },
    reward: hasRewards ? { title: 'Reward and its parts', steps: axis, format: 'number', lines: rewards } : null,
    loss: {
      title: 'Loss',
      steps: axis,
      format: 'number',
      lines: [{ label: 'loss', stroke: 'blue', style: 'plain', values: at(steps, ({ update }) => update.loss) }],
    },
  }
}

/** Titles, strokes, formats and values of the small charts, one line each. */
const SMALL: readonly (readonly [
  string,
  string,
  'percent' | 'number',
  (record: StepRecord) => number | null | undefined,
])[] = [
  ['Loss', 'blue', 'number', ({ update }) => update.loss],
  ['KL to the reference (nats a token)', 'violet', 'number', ({ update }) => update.klToRef],
  ['Entropy (nats)', 'teal', 'number', ({ update }) => update.entropy],
  ['Gradient norm before clipping', 'orange', 'number', ({ update }) => update.gradNorm],
  ['Tokens per completion', 'blue', 'number', ({ completionTokens }) => completionTokens],
  ['Turns per trajectory', 'teal', 'number', ({ turns }) => turns],
  ['Tool results per trajectory', 'violet', 'number', ({ toolCalls }) => toolCalls],
  ['Truncated', 'red', 'percent', ({ truncated }) => truncated],
  ['Tokens trained of places computed', 'gray', 'percent', ({ update }) => update.learnedFraction],
  ['Clipped tokens', 'orange', 'percent', ({ update }) => update.clipFraction],
  ['Groups without signal', 'gold', 'number', ({ groupsWithoutSignal }) => groupsWithoutSignal],
  [
    'Seconds per step',
    'gray',
    'number',
    ({ seconds }) => Object.values(seconds).reduce((sum: number, x: number) => sum + x, 0),
  ],
]

/** Returns `false` for charts without information: all values absent, or turns always 1. */
const isWorth = (title: string, values: Column): boolean => {
  if (values.every((value) => value === null)) return false
  if (title.startsWith('Turns')) return values.some((value) => value !== 1)
  return !title.startsWith('Tool') || values.some((value) => value !== 0)
}

/** Charts of the run's custom metrics, in order of first appearance. */
const ownCharts = (steps: readonly StepRecord[]): readonly Chart[] => {
  const names = [...new Set(steps.flatMap(({ metrics }) => Object.keys(metrics)))]
  return names.map((name) => ({
    title: name,
    steps: steps.map(({ step }) => step),
    format: 'number',
    lines: [{ label: '', stroke: 'blue', style: 'plain', values: steps.map(({ metrics }) => known(metrics[name])) }],
  }))
}

/** Metrics that already have a chart, and counts. */
const SHOWN_METRICS = [
  ...['loss', 'gradNorm', 'klToRef', 'entropy', 'clipFraction', 'tokens', 'ess', 'klApprox'],
  ...['computedPlaces', 'learnedFraction'],
]

/** Charts of metrics of other losses, such as `accuracy` and `margin` of preference losses. */
const updateCharts = (steps: readonly StepRecord[]): readonly Chart[] => {
  const names = [...new Set(steps.flatMap(({ update }) => Object.keys(update)))]
  if (names.includes('ess') && !names.includes('valueLoss')) return [] // a policy loss
  return names
    .filter((name) => !SHOWN_METRICS.includes(name))
    .map((name) => {
      const values = steps.map(({ update }) => {
        const value = (update as unknown as Readonly<Record<string, unknown>>)[name] // metrics of a loss by name
        return known(typeof value === 'number' ? value : null)
      })
      return {
        title: `${name} of the update`,
        steps: steps.map(({ step }) => step),
        format: 'number',
        lines: [{ label: '', stroke: 'violet', style: 'plain', values }],
      }
    })
}

/** Builds the charts of the report page. */
export const chartData = (
  metrics: readonly (StepRecord | EvaluationRecord)[],
): { readonly learning: Chart; readonly grid: readonly Chart[] } => {
  const steps = evenly(
    metrics.filter((record) => record.type === 'step'),
    CHART_STEPS,
  )
  const evaluations = metrics.filter((record) => record.type === 'evaluation')
  const { share, reward, loss } = learningChart(steps, evaluations)
  const small = SMALL.flatMap(([title, stroke, format, value]): readonly Chart[] => {
    const values = steps.map((record) => known(value(record)))
    if (!isWorth(title, values)) return []
    return [
      { title, steps: steps.map(({ step }) => step), format, lines: [{ label: '', stroke, values, style: 'plain' }] },
    ]
  })
  return {
    learning: share.lines.length > 0 ? share : (reward ?? loss),
    grid: [...(reward === null ? [] : [reward]), ...small, ...updateCharts(steps), ...ownCharts(steps)],
  }
}
