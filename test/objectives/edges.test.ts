/**
 * The results of every estimator and loss in edge cases: nothing to learn from, nothing to compare
 * with, NaN and infinities.
 */
import { orThrow } from '@tandem-rl/base'
import { valueAndGrad } from '@tandem-rl/tfjs-onnxruntime'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import {
  cispo,
  clipCov,
  clippedSurrogate,
  type DegenerateGroup,
  dppo,
  dro,
  type Estimated,
  gae,
  gdpoAdvantage,
  gmpo,
  gpgAdvantage,
  groupAdvantage,
  grpoAdvantage,
  gspo,
  klCov,
  luspo,
  opoAdvantage,
  optimalTokenBaseline,
  passKAdvantage,
  policyGradient,
  type RewardedRows,
  reinforcePlusPlus,
  reinforcePlusPlusBaseline,
  remaxAdvantage,
  rlooAdvantage,
  sapo,
  type TokenAdvantages,
  type TokenObjective,
  totalLoss,
  vespo,
  vocabularyDivergence,
  vTrace,
} from '../../src/doors/objectives.js'
import * as objectives from '../../src/index.js'
import { expectClose } from '../kit/close.js'
import { useEngine, valuesOf } from '../kit/engine.js'

useEngine()

type Rows = RewardedRows
type Result = E.Either<DegenerateGroup, TokenAdvantages>

const zeros = (rows: Rows) => rows.mask.map((row) => Array.from(row, () => 0))
const advantagesOf = E.map(({ advantages }: Estimated) => advantages)

/**
 * `grouped`: members of a group are compared, so that a single one, or one equal to all others, has
 * no signal.
 */
const ESTIMATORS: readonly (readonly [string, 'grouped' | 'each', (rows: Rows) => Result])[] = [
  ['grpo', 'grouped', (rows) => grpoAdvantage(rows)],
  ['dr-grpo', 'grouped', (rows) => grpoAdvantage(rows, { normalize: 'mean' })],
  ['rloo', 'grouped', (rows) => rlooAdvantage(rows)],
  ['opo', 'grouped', (rows) => opoAdvantage(rows)],
  ['gpg', 'grouped', (rows) => gpgAdvantage(rows)],
  ['passk', 'grouped', (rows) => passKAdvantage(rows)],
  ['reinforce++ baseline', 'grouped', (rows) => reinforcePlusPlusBaseline(rows)],
  ['gdpo', 'grouped', (rows) => gdpoAdvantage(rows, [{ rewards: rows.rewards, weight: 1 }])],
  ['reinforce++', 'each', (rows) => advantagesOf(reinforcePlusPlus(rows))],
  ['gae', 'each', (rows) => advantagesOf(gae(rows, zeros(rows)))],
  ['vtrace', 'each', (rows) => advantagesOf(vTrace(rows, { values: zeros(rows), logRatios: zeros(rows) }))],
  [
    'remax',
    'each',
    (rows) =>
      remaxAdvantage(
        rows,
        rows.groups.map(() => 0),
      ),
  ],
  ['token baseline', 'each', (rows) => optimalTokenBaseline(rows, { chosen: zeros(rows), sumOfSquares: zeros(rows) })],
]

const allZero = (result: Result): boolean => orThrow(result).every((row) => row.every((a) => Math.abs(a) < 1e-12))

describe.each(ESTIMATORS)('%s', (_, kind, estimate) => {
  it('gives nothing for no rows, nothing for a completion without tokens, and 0 for one whose tokens are all masked', () => {
    expect(orThrow(estimate({ groups: [], rewards: [], mask: [] }))).toEqual([])
    const rows: Rows = { groups: ['a', 'a', 'a'], rewards: [[], [5, 5], [1]], mask: [[], [0, 0], [1]] }
    const [empty, masked, last] = orThrow(estimate(rows))
    expect([empty, masked]).toEqual([[], [0, 0]])
    expect(Number.isFinite(last![0])).toBe(true)
  })

  it('refuses a batch with a reward that is no number, wherever it counts', () => {
    for (const bad of [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])
      expect(estimate({ groups: ['a', 'a'], rewards: [[0, 1], [bad]], mask: [[1, 1], [1]] })).toEqual(
        E.left({ _tag: 'DegenerateGroup', reason: 'not-finite' }),
      )
  })

  if (kind !== 'each')
    it('gives 0 to a group of equal rewards and to a group of one', () => {
      expect(
        allZero(estimate({ groups: ['a', 'a', 'b'], rewards: [[0, 0.3], [0.3], [7]], mask: [[1, 1], [1], [1]] })),
      ).toBe(true)
    })

  if (kind !== 'grouped')
    it('gives a completion that stands alone an advantage that is a number', () => {
      expect(
        orThrow(estimate({ groups: ['b'], rewards: [[1]], mask: [[1]] }))
          .flat()
          .every(Number.isFinite),
      ).toBe(true)
    })
})

describe('a group that lost members', () => {
  it('is compared among those that are left', () => {
    const left = orThrow(grpoAdvantage({ groups: ['a', 'a'], rewards: [[1], [0]], mask: [[1], [1]] }))
    expect(left.flat()).toEqual(orThrow(groupAdvantage([1, 0])))
  })

  it.each(ESTIMATORS)('%s: a row whose tokens are all masked changes no other row', (_, __, estimate) => {
    const kept: Rows = {
      groups: ['a', 'b', 'a', 'b'],
      rewards: [[1], [0, 2], [0], [0]],
      mask: [[1], [1, 1], [1], [1]],
    }
    const whole: Rows = {
      groups: [...kept.groups, 'a'],
      rewards: [...kept.rewards, [0.5, 3]],
      mask: [...kept.mask, [0, 0]],
    }
    const rows = orThrow(estimate(whole))
    expect(rows.at(-1)).toEqual([0, 0])
    expectClose(rows.slice(0, -1).flat(), orThrow(estimate(kept)).flat(), { absolute: 1e-9 })
  })
})

/** A loss on one `[2, 2]` tensor of log-probabilities or values, whose other inputs are plain. */
type Loss = (x: tf.Tensor, mask: tf.Tensor) => tf.Tensor

const like = (value: number): tf.Tensor => tf.fill([2, 2], value)

const policy =
  (objective: TokenObjective): Loss =>
  (logProbs, mask) =>
    objectives
      .policyLoss({ objective })
      .apply({ logProbs }, { mask, oldLogProbs: like(-1), advantages: tf.tensor2d([1, -1], [2, 1]), noise: like(0.5) })
      .lossObjective

const POLICY_OBJECTIVES = [
  clippedSurrogate({ dualClip: 3 }),
  cispo(),
  policyGradient(),
  dro(),
  dppo(),
  gspo(),
  luspo(),
  gmpo(),
  sapo(),
  vespo(),
  klCov(),
  clipCov(),
]

const LOSSES: readonly (readonly [string, Loss])[] = [
  ...POLICY_OBJECTIVES.map((objective) => [objective.name, policy(objective)] as const),
  ['sft', (logProbs, mask) => objectives.SFTLoss().apply({ logProbs }, { mask }).lossSft],
  [
    'minor_sft',
    (logProbs, mask) =>
      objectives.SFTLoss({ lossFunction: 'minor_sft' }).apply({ logProbs }, { mask, refLogProbs: like(-1) }).lossSft,
  ],
  [
    'distillation',
    (logProbs, mask) =>
      objectives.DistillationLoss().apply({ logProbs }, { mask, teacherLogProbs: like(-1) }).lossDistillation,
  ],
  ['value', (values, mask) => objectives.valueLoss().apply({ values }, { mask, returns: like(1) }).lossValue],
]

const graded = (loss: Loss, x: readonly number[], mask: readonly number[]) => {
  let numbers = { value: Number.NaN, gradient: [] as readonly number[] }
  scope(() => {
    const { value, grads } = valueAndGrad({ x: tf.tensor2d([...x], [2, 2]) }, (params) => ({
      value: loss(params.x, tf.tensor2d([...mask], [2, 2])),
      aux: {},
    }))
    numbers = { value: valuesOf(value)[0]!, gradient: valuesOf(grads.x!) }
    return []
  })
  return numbers
}

describe.each(LOSSES)('%s', (_, loss) => {
  it('is 0 with gradient 0 where nothing counts, and a number where one completion has no token', () => {
    const empty = graded(loss, [-1, -2, -1, -2], [0, 0, 0, 0])
    expect([empty.value, ...empty.gradient].map(Math.abs)).toEqual([0, 0, 0, 0, 0])
    const half = graded(loss, [-1, -2, Number.NaN, -2], [1, 1, 0, 0])
    expect([half.value, ...half.gradient.slice(0, 2)].every(Number.isFinite)).toBe(true)
  })

  it('never makes a number of a token that counts and has probability 0, or is no number', () => {
    for (const bad of [Number.NEGATIVE_INFINITY, Number.NaN])
      expect(Number.isFinite(graded(loss, [bad, -2, -1, -2], [1, 1, 1, 1]).value), String(bad)).toBe(false)
  })
})

/** A loss, its gradient and the shape of that for tensors without a number. */
const ofNothing = (loss: Loss, shape: readonly [number, number]) => {
  let numbers: readonly unknown[] = []
  scope(() => {
    const empty = (): tf.Tensor => tf.zeros([...shape])
    const { value, grads } = valueAndGrad({ x: empty() }, ({ x }) => ({ value: loss(x, empty()), aux: {} }))
    numbers = [Math.abs(valuesOf(value)[0]!), ...grads.x!.shape]
    return []
  })
  return numbers
}

const NOTHING: readonly (readonly [string, (shape: readonly [number, number]) => Loss])[] = [
  ...POLICY_OBJECTIVES.map(
    (objective) =>
      [
        objective.name,
        ([b, t]: readonly [number, number]): Loss =>
          (logProbs, mask) =>
            totalLoss(
              objectives.policyLoss({ objective, kl: [{ to: 'reference', coefficient: 1 }] }).apply(
                { logProbs },
                {
                  mask,
                  oldLogProbs: tf.zeros([b, t]),
                  refLogProbs: tf.zeros([b, t]),
                  advantages: tf.zeros([b, 1]),
                  noise: tf.zeros([b, t]),
                },
              ),
            ),
      ] as const,
  ),
  ['sft', () => (logProbs, mask) => objectives.SFTLoss().apply({ logProbs }, { mask }).lossSft],
  [
    'distillation',
    () => (logProbs, mask) =>
      objectives.DistillationLoss().apply({ logProbs }, { mask, teacherLogProbs: logProbs }).lossDistillation,
  ],
  ['value', () => (values, mask) => objectives.valueLoss().apply({ values }, { mask, returns: values }).lossValue],
]

describe.each(NOTHING)('%s of nothing', (_, loss) => {
  it('is 0: of completions without tokens, and of no completions', () => {
    for (const shape of [
      [2, 0],
      [0, 3],
      [0, 0],
    ] as const)
      expect(ofNothing(loss(shape), shape), String(shape)).toEqual([0, ...shape])
  })
})

describe('dpoLoss', () => {
  const pairLoss = (chosen: readonly number[], mask: readonly number[], form: 'sigmoid' | 'ipo'): number => {
    let value = Number.NaN
    scope(() => {
      const { lossDpo } = objectives
        .dpoLoss({ form })
        .apply(
          { logProbs: tf.tensor2d([...chosen, -1, -1], [2, 2]) },
          { refLogProbs: like(-1), mask: tf.tensor2d([...mask, 1, 1], [2, 2]) },
        )
      value = valuesOf(lossDpo)[0]!
      return []
    })
    return value
  }

  it('at the reference, or with nothing chosen, is log 2, and for ipo the distance to its lead', () => {
    for (const [x, mask] of [
      [
        [-1, -1],
        [1, 1],
      ],
      [
        [Number.NaN, Number.NaN],
        [0, 0],
      ],
    ] as const) {
      expect(pairLoss(x, mask, 'sigmoid')).toBeCloseTo(Math.LN2, 6)
      expect(pairLoss(x, mask, 'ipo')).toBeCloseTo(25, 4)
    }
  })

  it('is infinite where the chosen completion is impossible', () => {
    expect(pairLoss([Number.NEGATIVE_INFINITY, -1], [1, 1], 'sigmoid')).toBe(Number.POSITIVE_INFINITY)
    expect(pairLoss([Number.NEGATIVE_INFINITY, -1], [1, 1], 'ipo')).toBe(Number.POSITIVE_INFINITY)
  })
})

describe('vocabularyDivergence', () => {
  it('adds nothing for tokens that both lack, with finite gradients, and is infinite for one that the second lacks', () => {
    scope(() => {
      const none = Number.NEGATIVE_INFINITY
      const teacher = tf.tensor2d([[0, 1, none]])
      for (const divergence of ['reverse', 'forward', { teacherShare: 0.5 }] as const) {
        const { value, grads } = valueAndGrad({ x: tf.tensor2d([[1, 0, none]]) }, ({ x }) => ({
          value: tf.sum(vocabularyDivergence(x, teacher, divergence)),
          aux: {},
        }))
        expect([...valuesOf(value), ...valuesOf(grads.x!)].every(Number.isFinite), JSON.stringify(divergence)).toBe(
          true,
        )
        expect(valuesOf(value)[0]).toBeGreaterThan(0)
      }
      const full = tf.tensor2d([[1, 0, 0]])
      expect(valuesOf(vocabularyDivergence(full, teacher, 'reverse'))).toEqual([Number.POSITIVE_INFINITY])
      return []
    })
  })
})

describe('the share of cut values', () => {
  const cutOf = (values: readonly number[], oldValues: readonly number[], returns: readonly number[]): number =>
    scope(() => {
      const row = (numbers: readonly number[]) => tf.tensor2d([[...numbers]])
      const mask = tf.onesLike(row(values))
      const input = { oldValues: row(oldValues), returns: row(returns), mask }
      const { valueCutFraction } = objectives.valueLoss({ clipEpsilon: 0.2 }).apply({ values: row(values) }, input)
      return valueCutFraction.dataSync()[0]!
    })

  it('counts no rounding: nothing is cut inside of the range', () => {
    const many = Array.from({ length: 1000 }, (_, i) => Math.sin(i * 12.9898) * 3)
    const near = many.map((value, i) => value + 0.19 * Math.sin(i * 78.233))
    const returns = many.map((_, i) => 5 * Math.sin(i * 37.719))
    expect(cutOf(near, many, returns)).toBe(0)
  })

  it('counts what left the range towards its return', () => {
    expect(cutOf([1.5, -1.5, 1.5, 1.1], [1, -1, 1, 1], [0, 0, 0, 0])).toBe(0)
    expect(cutOf([1.5, -1.5, 0.5, 1.1], [1, -1, 1, 1], [2, -2, 0, 9])).toBe(0.75)
  })
})
