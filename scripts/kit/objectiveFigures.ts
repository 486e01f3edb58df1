/** Figures of objectives, computed by the functions themselves and differentiated by the engine. */
import { constant, cosine, linear, type Schedule, warmUp } from '@tandem-rl/base'
import { valueAndGrad } from '@tandem-rl/tfjs-onnxruntime'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import type { LineChart } from '../../packages/bench/src/lineChart.js'
import { totalLoss } from '../../src/objectives/loss.js'
import { policyLoss } from '../../src/objectives/policyLoss.js'
import { cispo } from '../../src/objectives/tokenLosses/cispo.js'
import { clippedSurrogate } from '../../src/objectives/tokenLosses/clippedSurrogate.js'
import { clipCov, klCov } from '../../src/objectives/tokenLosses/covariance.js'
import { dppo } from '../../src/objectives/tokenLosses/dppo.js'
import { dro } from '../../src/objectives/tokenLosses/dro.js'
import { gmpo } from '../../src/objectives/tokenLosses/gmpo.js'
import { gspo } from '../../src/objectives/tokenLosses/gspo.js'
import { type KLForm, klTerm } from '../../src/objectives/tokenLosses/klForms.js'
import { luspo } from '../../src/objectives/tokenLosses/luspo.js'
import { policyGradient } from '../../src/objectives/tokenLosses/policyGradient.js'
import { sapo } from '../../src/objectives/tokenLosses/sapo.js'
import type { TokenObjective } from '../../src/objectives/tokenLosses/tokenObjective.js'
import { vespo } from '../../src/objectives/tokenLosses/vespo.js'

type Point = readonly [x: number, y: number]
type Curve = Readonly<Record<'pull' | 'loss', readonly Point[]>>

/** The probability of the probed token under the old policy. */
const OLD = 0.3

interface Probe {
  readonly objective: TokenObjective
  /** The settings and batch of the figure, for the reader. */
  readonly setting: string
  readonly xLabel?: string
  readonly range?: readonly [low: number, high: number]
  readonly marks?: readonly number[]
  /** Other advantages than the two, or other settings: drawn as a third curve. */
  readonly more?: { readonly name: string; readonly objective: TokenObjective; readonly advantage: number }
  /** Tokens of the probed completion; all have the same log-ratio. Default 1. */
  readonly length?: number
  /** The ratio across is the product of those of its tokens, or each of them. Default `each`. */
  readonly ratio?: 'each' | 'product'
  /** Tokens besides the probed one, with advantage 0. */
  readonly others?: readonly number[]
}

const COUNT = 61

/** Fewer where each ratio has a batch of its own. */
const BATCHES = 25

const spaced = ([low, high]: readonly [number, number], count: number): readonly number[] =>
  Array.from({ length: count }, (_, i) => low * (high / low) ** (i / (count - 1)))

interface Rows {
  readonly logProbs: readonly (readonly number[])[]
  readonly old: readonly (readonly number[])[]
  readonly advantages: readonly number[]
}

/** A completion for each ratio, whose tokens all have it, and behind them the others. */
const rowsOf = (
  { length = 1, ratio = 'each', others = [] }: Probe,
  ratios: readonly number[],
  advantage: number,
): Rows => {
  const tokens = (value: number): readonly number[] => Array.from({ length }, () => value)
  const own = ratios.map((w) => tokens(Math.log(OLD) + (ratio === 'each' ? Math.log(w) : Math.log(w) / length)))
  return {
    logProbs: [...own, ...others.map(tokens)],
    old: [...own.map(() => tokens(Math.log(OLD))), ...others.map(tokens)],
    advantages: [...own.map(() => advantage), ...others.map(() => 0)],
  }
}

const matrix = (rows: Rows['old']): tf.Tensor => tf.tensor2d(rows.flat(), [rows.length, rows[0]!.length])

/**
 * Minus the gradient of each completion's first token, and the loss of each completion: the
 * derivative with respect to the weights of its tokens. Losses are divided by one token or
 * completion, so that each is by itself.
 */
const measured = (objective: TokenObjective, rows: Rows): readonly Readonly<Record<keyof Curve, number>>[] => {
  const loss = policyLoss({ objective })
  let found: readonly Readonly<Record<keyof Curve, number>>[] = []
  scope(() => {
    const logProbs = matrix(rows.logProbs)
    const mask = tf.onesLike(logProbs)
    const { grads } = valueAndGrad({ logProbs, weights: tf.onesLike(logProbs) }, (params) => {
      const output = loss.apply(
        { logProbs: params.logProbs },
        {
          weights: params.weights,
          oldLogProbs: matrix(rows.old),
          mask,
          advantages: matrix(rows.advantages.map((a) => [a])),
          noise: tf.mul(mask, 0.5),
          counts: { tokens: tf.scalar(1), completions: tf.scalar(1) },
        },
      )
      return { value: totalLoss(output), aux: [] }
    })
    const pulls = tf.neg(tf.slice(grads.logProbs!, [0, 0], [-1, 1])).dataSync()
    const losses = tf.sum(grads.weights!, 1).dataSync()
    found = rows.old.map((_, b) => ({ pull: pulls[b]!, loss: losses[b]! }))
    return []
  })
  return found
}

/** Objectives that look at the whole batch get one for each ratio, the others all ratios in one. */
const curveOf = (probe: Probe, objective: TokenObjective, advantage: number): Curve => {
  const ratios = spaced(probe.range ?? [0.3, 3], probe.others === undefined ? COUNT : BATCHES)
  const found =
    probe.others === undefined
      ? measured(objective, rowsOf(probe, ratios, advantage))
      : ratios.map((w) => measured(objective, rowsOf(probe, [w], advantage))[0]!)
  const curve = (which: keyof Curve): readonly Point[] => found.map((each, i) => [ratios[i]!, each[which]] as const)
  return { pull: curve('pull'), loss: curve('loss') }
}

const SEQUENCE = 'ratio of the completion'

const narrow = {
  length: 4,
  xLabel: SEQUENCE,
  range: [0.9989, 1.0011],
  marks: [1 - 3e-4, 1 + 4e-4],
} as const

/** Two tokens with advantage 0: the probed one has the only large covariance. */
const batch = { others: [-4, -4] } as const

const PROBES: Readonly<Record<string, Probe>> = {
  clippedSurrogate: {
    objective: clippedSurrogate(),
    setting: 'Clip range 0.2. The third curve has a dual clip of 2.',
    marks: [0.8, 1.2],
    more: { name: 'A = -1, dual clip', objective: clippedSurrogate({ dualClip: 2 }), advantage: -1 },
  },
  policyGradient: { objective: policyGradient(), setting: 'The old probability is 0.3.' },
  cispo: { objective: cispo(), setting: 'Clip range 0.2, old probability 0.3.', marks: [0.8, 1.2] },
  sapo: { objective: sapo(), setting: 'The default sharpness, 1 and 1.05.' },
  dppo: { objective: dppo(), setting: 'Total variation up to 0.2, old probability 0.3.', marks: [1 / 3, 5 / 3] },
  dro: { objective: dro(), setting: 'beta 0.5, old probability 0.3.' },
  clipCov: {
    objective: clipCov({ share: 0.34 }),
    setting:
      'Clip range 0.2, old probability 0.3. The batch has two more tokens, with advantage 0 and log-probability -4; one of three is held back if its covariance is between 1 and 5.',
    marks: [0.8, 1.2],
    ...batch,
  },
  klCov: {
    objective: klCov({ share: 0.34 }),
    setting:
      'Old probability 0.3. The batch has two more tokens, with advantage 0 and log-probability -4; the one of three with the largest covariance is held.',
    ...batch,
  },
  gspo: { objective: gspo(), setting: 'Four tokens with one ratio; the default range of 3e-4 and 4e-4.', ...narrow },
  luspo: { objective: luspo(), setting: 'Four tokens with one ratio; the default range of 3e-4 and 4e-4.', ...narrow },
  gmpo: {
    objective: gmpo(),
    setting: 'Four tokens with one ratio; log-ratios within 0.4.',
    length: 4,
    xLabel: SEQUENCE,
    marks: [Math.exp(-0.4), Math.exp(0.4)],
  },
  vespo: {
    objective: vespo(),
    setting: 'Four tokens, old probability 0.3; the ratio is the product of theirs.',
    length: 4,
    ratio: 'product',
    xLabel: SEQUENCE,
  },
}

const chartOf = (name: string, probe: Probe): LineChart => {
  const drawn = [
    { name: 'A = +1', line: 'solid', curve: curveOf(probe, probe.objective, 1) },
    { name: 'A = -1', line: 'dashed', curve: curveOf(probe, probe.objective, -1) },
    ...(probe.more === undefined
      ? []
      : [
          {
            name: probe.more.name,
            line: 'dotted',
            curve: curveOf(probe, probe.more.objective, probe.more.advantage),
          } as const,
        ]),
  ] as const
  const panel = (title: string, yLabel: string, which: keyof Curve): LineChart['panels'][number] => ({
    title,
    xLabel: probe.xLabel ?? 'ratio to the old policy',
    yLabel,
    xScale: probe.range === undefined ? 'log' : 'linear',
    series: drawn.map(({ name: series, line, curve }) => ({ name: series, line, points: curve[which] })),
    ...(probe.marks && { marks: probe.marks }),
  })
  return {
    title: `${name}: gradient and loss of a token against the ratio`,
    description: captionOf(name, probe),
    panels: [panel('pull on log pi', '- d loss / d log pi', 'pull'), panel('loss', 'loss', 'loss')],
  }
}

const captionOf = (name: string, { setting, marks }: Probe): string =>
  `${name}: minus the gradient of a token, and the loss, for advantages +1 and -1. ${setting}${marks === undefined ? '' : ' The upright lines are the bounds.'}`

const FORMS: readonly KLForm[] = ['k1', 'abs', 'k2', 'k3']

const KL_CAPTION =
  'klTerm: value and gradient of each form against the log-ratio of the two policies. k2 has the gradient of the reverse divergence itself; that of k3 is bounded on one side.'

const klChart = (): LineChart => {
  const xs = Array.from({ length: COUNT }, (_, i) => -2 + (4 * i) / (COUNT - 1))
  const drawn = FORMS.map((form) => {
    const numbers = { value: [] as readonly Point[], gradient: [] as readonly Point[] }
    scope(() => {
      const values = klTerm(form, tf.tensor1d([...xs])).dataSync()
      const { grads } = valueAndGrad({ d: tf.tensor1d([...xs]) }, ({ d }) => ({
        value: tf.sum(klTerm(form, d!)),
        aux: [],
      }))
      const gradients = grads.d!.dataSync()
      numbers.value = xs.map((x, i) => [x, values[i]!] as const)
      numbers.gradient = xs.map((x, i) => [x, gradients[i]!] as const)
      return []
    })
    return { name: form, ...numbers }
  })
  const panel = (title: string, which: 'value' | 'gradient'): LineChart['panels'][number] => ({
    title,
    xLabel: 'd = log pi - log q',
    yLabel: title,
    series: drawn.map((each) => ({ name: each.name, points: each[which] })),
    yRange: [-3, 3],
  })
  return {
    title: 'klTerm: estimates of a divergence and their gradients',
    description: KL_CAPTION,
    panels: [panel('value', 'value'), panel('gradient', 'gradient')],
  }
}

const STEPS = 100

const SCHEDULES: readonly (readonly [name: string, schedule: Schedule])[] = [
  ['constant(1)', constant(1)],
  ['linear(1, 0, 100)', linear(1, 0, STEPS)],
  ['cosine(1, 0, 100)', cosine(1, 0, STEPS)],
  ['warmUp(20, cosine(1, 0, 80))', warmUp(20, cosine(1, 0, STEPS - 20))],
]

const SCHEDULES_CAPTION =
  'The four schedules side by side: 1 at every step, from 1 to 0 in 100 steps by a line and by half a cosine, and a warm-up of 20 steps before such a cosine of 80.'

const scheduleChart = (): LineChart => ({
  title: 'Schedules: the value at each step',
  description: SCHEDULES_CAPTION,
  panels: [
    {
      title: 'value at each step',
      xLabel: 'step',
      yLabel: 'value',
      series: SCHEDULES.map(([name, schedule]) => ({
        name,
        points: Array.from({ length: STEPS + 21 }, (_, step) => [step, schedule(step)] as const),
      })),
    },
  ],
})

/** The caption of each figure, by the name of its function or of what it compares. */
export const objectiveCaptions: ReadonlyMap<string, string> = new Map([
  ...Object.entries(PROBES).map(([name, probe]) => [name, captionOf(name, probe)] as const),
  ['klTerm', KL_CAPTION],
  ['schedules', SCHEDULES_CAPTION],
])

/** The figures, by the name of their function or of what they compare. Needs a backend. */
export const objectiveFigures = (): ReadonlyMap<string, LineChart> =>
  new Map([
    ...Object.entries(PROBES).map(([name, probe]) => [name, chartOf(name, probe)] as const),
    ['klTerm', klChart()],
    ['schedules', scheduleChart()],
  ])
