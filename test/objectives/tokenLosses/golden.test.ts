/**
 * Policy losses against numbers that verl's functions give in float64: values, gradients and
 * metrics of one batch of three completions.
 */
import { describe, expect, it } from 'vitest'
import { policyLoss } from '../../../src/objectives/policyLoss.js'
import type { Aggregation } from '../../../src/objectives/tokenLosses/aggregation.js'
import { cispo } from '../../../src/objectives/tokenLosses/cispo.js'
import { clippedSurrogate } from '../../../src/objectives/tokenLosses/clippedSurrogate.js'
import { klCov } from '../../../src/objectives/tokenLosses/covariance.js'
import { dppo } from '../../../src/objectives/tokenLosses/dppo.js'
import { dro } from '../../../src/objectives/tokenLosses/dro.js'
import { gmpo } from '../../../src/objectives/tokenLosses/gmpo.js'
import { gspo } from '../../../src/objectives/tokenLosses/gspo.js'
import { policyGradient } from '../../../src/objectives/tokenLosses/policyGradient.js'
import { sapo } from '../../../src/objectives/tokenLosses/sapo.js'
import type { TokenObjective } from '../../../src/objectives/tokenLosses/tokenObjective.js'
import { expectClose } from '../../kit/close.js'
import { useEngine } from '../../kit/engine.js'
import { lossNumbers } from '../../kit/policyLoss.js'
import { oracleAggregation } from '../../kit/policyLossCases.js'
import { gradientOracle, lossOracle, type ObjectiveSpec } from '../../kit/policyLossOracle.js'

useEngine()

const OLD = [
  [-1, -0.5, -9, -2],
  [-0.7, -1.2, -0.3, -9],
  [-1.5, -9, -9, -9],
]
const DIFFERENCE = [
  [0.3, -0.4, 5, 0.05],
  [-0.1, 0.25, -0.6, 7],
  [1.6, 3, 3, 3],
]
const BATCH = {
  logProbs: OLD.map((row, b) => row.map((x, t) => x + DIFFERENCE[b]![t]!)),
  old: OLD,
  mask: [
    [1, 1, 0, 1],
    [1, 1, 1, 0],
    [1, 0, 0, 0],
  ],
  advantages: [
    [1, 1, 0, 1],
    [-0.5, -0.5, -0.5, 0],
    [-2, 0, 0, 0],
  ],
}

interface Golden {
  readonly name: string
  readonly objective: TokenObjective
  readonly aggregation?: Aggregation
  readonly value: number
  readonly gradient: readonly (readonly number[])[]
  /** Shares of the seven tokens. */
  readonly outside?: number
  readonly cut?: number
}

const vanilla = clippedSurrogate({ clipEpsilon: 0.2, dualClip: 3 })

/** Gradients of the vanilla loss, which are 0 but in four places. */
const four = (a: number, b: number, c: number, d: number) => [
  [0, a, 0, b],
  [c, d, 0, 0],
  [0, 0, 0, 0],
]

const CASES: readonly Golden[] = [
  {
    name: 'clippedSurrogate, token-mean',
    objective: vanilla,
    value: 0.6532629,
    gradient: four(-0.09576001, -0.15018159, 0.06463124, 0.0917161),
    cut: 3 / 7, // two by the range, one by the dual clip
  },
  {
    name: 'clippedSurrogate, token-sum',
    objective: vanilla,
    aggregation: 'token-sum',
    value: 4.57284027,
    gradient: four(-0.67032005, -1.0512711, 0.45241871, 0.64201271),
  },
  {
    name: 'clippedSurrogate, seq-mean-token-sum',
    objective: vanilla,
    aggregation: 'seq-mean-token-sum',
    value: 1.52428009,
    gradient: four(-0.22344002, -0.3504237, 0.15080624, 0.21400424),
  },
  {
    name: 'clippedSurrogate, seq-mean-token-mean',
    objective: vanilla,
    aggregation: 'seq-mean-token-mean',
    value: 1.84142668,
    gradient: four(-0.07448, -0.1168079, 0.05026875, 0.07133475),
  },
  {
    name: 'clippedSurrogate, seq-mean-token-sum-norm',
    objective: vanilla,
    aggregation: { mode: 'seq-mean-token-sum-norm', length: 4 },
    value: 0.38107002,
    gradient: four(-0.05586, -0.08760592, 0.03770156, 0.05350106),
  },
  {
    name: 'clippedSurrogate, clip-higher',
    objective: clippedSurrogate({ clipEpsilon: [0.2, 0.28], dualClip: 3 }),
    value: 0.64183432,
    gradient: four(-0.09576001, -0.15018159, 0.06463124, 0.0917161),
  },
  ...(['sequence', 'token'] as const).map((form) => ({
    name: `gspo, ${form}`,
    objective: gspo({ clipEpsilon: 0.2, form }),
    value: 3.1176491,
    gradient: [
      [-0.10927461, -0.10927461, 0, -0.10927461],
      [0.04781711, 0.04781711, 0.04781711, 0],
      [3.30202158, 0, 0, 0],
    ],
  })),
  {
    name: 'gspo, 3e-4 and 4e-4',
    objective: gspo(),
    value: 3.14081443,
    gradient: [
      [-0.10927461, -0.10927461, 0, -0.10927461],
      [0, 0, 0, 0],
      [3.30202158, 0, 0, 0],
    ],
    cut: 0.42857143,
  },
  {
    name: 'cispo',
    objective: cispo({ clipEpsilon: 0.2 }),
    value: 0.36543481,
    gradient: [
      [-0.17142857, -0.11428571, 0, -0.15018159],
      [0.06463124, 0.08571429, 0.05714286, 0],
      [0.34285714, 0, 0, 0],
    ],
    outside: 0.71428571,
  },
  {
    name: 'policyGradient',
    objective: policyGradient(),
    value: 0.34642857,
    gradient: [
      [-0.14285714, -0.14285714, 0, -0.14285714],
      [0.07142857, 0.07142857, 0.07142857, 0],
      [0.28571429, 0, 0, 0],
    ],
  },
  {
    name: 'gmpo',
    objective: gmpo({ clipEpsilon: 0.2 }),
    value: 3.14885697,
    gradient: [
      [0, -0.10569216, 0, -0.10569216],
      [0.0546373, 0.0546373, 0, 0],
      [3.3020215, 0, 0, 0],
    ],
  },
  {
    name: 'sapo',
    objective: sapo(),
    value: 2.12898667,
    gradient: [
      [-0.14548678, -0.07249232, 0, -0.11673117],
      [0.05014348, 0.06977185, 0.02884081, 0],
      [0.20167123, 0, 0, 0],
    ],
  },
  ...(['tv', 'kl'] as const).map((divergence) => ({
    name: `dppo, ${divergence}`,
    objective: dppo({ divergence }),
    value: 0.5167039,
    gradient: [
      [-0.19283697, -0.09576001, 0, -0.15018159],
      [0.06463124, 0.0917161, 0, 0],
      [1.41515212, 0, 0, 0],
    ],
    outside: 0.14285714,
  })),
  {
    name: 'dro',
    objective: dro({ beta: 0.5 }),
    value: 0.46232143,
    gradient: [
      [-0.12142857, -0.17142857, 0, -0.13928571],
      [0.06428571, 0.08928571, 0.02857143, 0],
      [0.4, 0, 0, 0],
    ],
  },
  {
    name: 'klCov',
    objective: klCov({ share: 0.34, coefficient: 1 }),
    value: 1.25049316,
    gradient: [
      [-0.04997983, -0.09576001, 0, -0.15018159],
      [0.06463124, 0.23457324, 0.03920083, 0],
      [1.41515212, 0, 0, 0],
    ],
  },
]

const CLIP = [0.2, 0.2] as const
const VANILLA: ObjectiveSpec = { name: 'clippedSurrogate', clip: CLIP, dual: 3 }

/** The settings of the cases for the oracle, in their order. */
const SPECS: readonly ObjectiveSpec[] = [
  ...CASES.slice(0, 5).map(() => VANILLA),
  { ...VANILLA, clip: [0.2, 0.28] },
  { name: 'gspo', clip: CLIP, form: 'sequence' },
  { name: 'gspo', clip: CLIP, form: 'token' },
  { name: 'gspo', clip: [3e-4, 4e-4], form: 'sequence' },
  { name: 'cispo', clip: CLIP },
  { name: 'policyGradient' },
  { name: 'gmpo', clip: CLIP },
  { name: 'sapo', positive: 1, negative: 1.05 },
  { name: 'dppo', divergence: 'tv', epsilon: CLIP, largest: 20 },
  { name: 'dppo', divergence: 'kl', epsilon: [0.05, 0.05], largest: 20 },
  { name: 'dro', beta: 0.5 },
  { name: 'klCov', share: 0.34, coefficient: 1 },
]

describe('the float64 oracle against verl', () => {
  it.each(CASES.map((golden, i) => ({ ...golden, spec: SPECS[i]! })))('$name', (golden) => {
    const aggregation = golden.aggregation ?? golden.objective.aggregation ?? 'token-mean'
    const settings = { objective: golden.spec, aggregation: oracleAggregation(aggregation) }
    // verl divides by the tokens of a completion plus 1e-8, which shows in the loss of gmpo, where
    // it does so twice
    const within = { absolute: golden.spec.name === 'gmpo' ? 1.2e-7 : 1e-7, relative: 0 }
    expectClose([lossOracle(settings, BATCH, BATCH.logProbs)], [golden.value], within)
    expectClose(gradientOracle(settings, BATCH).flat(), golden.gradient.flat(), within)
  })
})

const FLOAT32 = { absolute: 3e-7, relative: 2e-6 }

describe('policy losses against verl', () => {
  it.each(CASES)('$name', ({ objective, aggregation, value, gradient, outside, cut }) => {
    const loss = policyLoss(aggregation === undefined ? { objective } : { objective, aggregation })
    const numbers = lossNumbers(loss, BATCH)
    expectClose([numbers.value], [value], FLOAT32)
    expectClose(numbers.gradient.flat(), gradient.flat(), FLOAT32)
    if (outside !== undefined) expectClose([numbers.metrics.clipFraction!], [outside], FLOAT32)
    if (cut !== undefined) expectClose([numbers.metrics.pgClipFraction!], [cut], FLOAT32)
  })

  it('clippedSurrogate with weights of tokens', () => {
    const weights = [
      [1, 2, 0, 0.5],
      [1, 1, 1, 0],
      [0.25, 0, 0, 0],
    ]
    const { value, gradient } = lossNumbers(policyLoss({ objective: vanilla }), { ...BATCH, weights })
    expectClose([value], [-0.01026346], FLOAT32)
    expectClose(gradient.flat(), four(-0.19152001, -0.07509079, 0.06463124, 0.0917161).flat(), FLOAT32)
  })

  it("verl's clip fraction is what the range cuts, its lower one what the dual clip cuts besides", () => {
    const cut = (objective: TokenObjective) => lossNumbers(policyLoss({ objective }), BATCH).metrics.pgClipFraction!
    const byRange = cut(clippedSurrogate())
    expectClose([byRange, cut(vanilla) - byRange], [0.28571429, 0.14285714], FLOAT32)
  })

  it('the mean of log ratios has the sign that verl and TorchRL give it', () => {
    expect(lossNumbers(policyLoss({ objective: vanilla }), BATCH).metrics.klApprox).toBeCloseTo(-0.15714286, 6)
  })
})
