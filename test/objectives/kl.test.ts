/** Divergences in the loss and in the reward, their controllers, aggregation: verl's numbers. */
import { valueAndGrad } from '@tandem-rl/tfjs-onnxruntime'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import { REWARD_KL_FORMS, type RewardKLForm, rewardKL } from '../../src/data/rewardKL.js'
import { AdaptiveKLController, ConstantKLController, klPenalizedRewards } from '../../src/objectives/klControl.js'
import { type Aggregation, aggregate, countsOf } from '../../src/objectives/tokenLosses/aggregation.js'
import { type KLForm, klTerm } from '../../src/objectives/tokenLosses/klForms.js'
import { expectClose } from '../kit/close.js'
import { useEngine } from '../kit/engine.js'

useEngine()

const LOG_PROBS = [-1, -0.5, -2, -0.1, -30]
const REFERENCE = [-1.2, -0.1, -2, -3.1, -1]

const K3 = [0.01873075, 0.0918247, 0, 2.04978707, 10]
const DIFFERENCES = [0.2, -0.4, 0, 3, -29]

const CASES: readonly (readonly [KLForm, readonly number[], readonly number[]])[] = [
  ['k1', DIFFERENCES, [1, 1, 1, 1, 1]],
  ['abs', [0.2, 0.4, 0, 3, 29], [1, -1, 0, 1, -1]],
  ['k2', [0.02, 0.08, 0, 4.5, 420.5], DIFFERENCES],
  ['k3-limited', K3, [0.18126925, -0.4918247, 0, 0.95021293, 0]],
  ['k3-limited+', K3, DIFFERENCES],
  ['k1+', DIFFERENCES, DIFFERENCES],
]

describe('klTerm against verl', () => {
  it.each(CASES)('%s: values and gradients', (form, values, gradient) => {
    scope(() => {
      const result = valueAndGrad({ x: tf.tensor1d(LOG_PROBS) }, ({ x }) => {
        const each = klTerm(form, tf.sub(x, tf.tensor1d(REFERENCE)))
        return { value: tf.sum(each), aux: { each } }
      })
      expectClose(Array.from(result.aux.each.dataSync()), values, { absolute: 1e-6, relative: 1e-6 })
      expectClose(Array.from(result.grads.x!.dataSync()), gradient, { absolute: 1e-6, relative: 1e-6 })
      return []
    })
  })

  it('k3 without limits is k3 where no limit is reached', () => {
    scope(() => {
      const near = tf.tensor1d(DIFFERENCES.slice(0, 4))
      expectClose(Array.from(klTerm('k3', near).dataSync()), K3.slice(0, 4), { absolute: 1e-6 })
      return []
    })
  })
})

describe('divergence in the reward', () => {
  it.each(REWARD_KL_FORMS)('%s is the number that the loss has, without a gradient', (form) => {
    scope(() => {
      const expected = Array.from(klTerm(form, tf.tensor1d(DIFFERENCES.slice(0, 4))).dataSync())
      const actual = DIFFERENCES.slice(0, 4).map((d) => rewardKL(form, d))
      expectClose(actual, expected, { absolute: 1e-6, relative: 1e-6 })
      return []
    })
  })

  it.each<readonly [RewardKLForm, readonly number[]]>([
    ['k1', DIFFERENCES],
    ['abs', [0.2, 0.4, 0, 3, 29]],
    ['k2', [0.02, 0.08, 0, 4.5, 420.5]],
    ['k3-limited', K3],
  ])('%s is subtracted from the reward of each token that counts', (form, kl) => {
    const rows = {
      rewards: [[1, 1, 1, 1, 1, Number.NaN]],
      logProbs: [[...LOG_PROBS, Number.NaN]],
      reference: [[...REFERENCE, 0]],
      mask: [[1, 1, 1, 1, 1, 0]],
    }
    const result = klPenalizedRewards(rows, { form, coefficient: 0.5 })
    expectClose(
      result.rewards[0]!.slice(0, 5),
      kl.map((x) => 1 - 0.5 * x),
      { absolute: 1e-7 },
    )
    expect(result.rewards[0]![5]).toBeNaN()
    expectClose([result.kl], [kl.reduce((a, b) => a + b, 0) / 5], { absolute: 1e-7 })
  })
})

describe('controllers', () => {
  it('the adaptive one follows its target as in verl and TorchRL', () => {
    const first = AdaptiveKLController({ initial: 0.1, target: 6, horizon: 10_000 }).update(9, 256)
    expectClose([first.coefficient, first.update(5.5, 256).coefficient], [0.100512, 0.1002975744], { absolute: 1e-10 })
  })

  it('the constant one does not move', () => {
    expect(ConstantKLController(0.3).update(100, 5).update(0, 1).coefficient).toBe(0.3)
  })

  it('refuses a target that cannot be followed', () => {
    expect(() => AdaptiveKLController({ initial: 0.1, target: 0, horizon: 10 })).toThrow(/got 0, 10 and 0.1/)
  })
})

const LOSSES = [
  [1, 2, 3, 4],
  [5, 6, 7, 8],
  [9, 9, 9, 9],
]
const MASK = [
  [1, 1, 0, 1],
  [1, 1, 1, 1],
  [0, 0, 0, 0],
]

/** verl's local counts leave out completions without a token. */
const LOCAL = [7, 2] as const

describe('aggregate against verl', () => {
  it.each<readonly [Aggregation, number, number]>([
    ['token-mean', 4.71428571, 2.35714286],
    ['token-sum', 33, 33],
    ['seq-mean-token-sum', 16.5, 8.25],
    ['seq-mean-token-mean', 4.41666665, 2.20833333],
    [{ mode: 'seq-mean-token-sum-norm', length: 4 }, 4.125, 2.0625],
    [{ mode: 'seq-mean-token-sum-norm', length: 10 }, 1.65, 0.825],
  ])('%j, with its own counts and with those of twice as much', (aggregation, own, half) => {
    scope(() => {
      const [losses, mask] = [tf.tensor2d(LOSSES.flat(), [3, 4]), tf.tensor2d(MASK.flat(), [3, 4])]
      const at = ([tokens, completions]: readonly [number, number]): number =>
        aggregate(losses, {
          mask,
          aggregation,
          counts: { tokens: tf.scalar(tokens), completions: tf.scalar(completions) },
        }).dataSync()[0]!
      expectClose([at(LOCAL), at([14, 4])], [own, half], { absolute: 1e-6 })
      return []
    })
  })

  it('counts of a batch by itself are its tokens and all of its rows', () => {
    scope(() => {
      const counts = countsOf(tf.tensor2d(MASK.flat(), [3, 4]))
      expect([counts.tokens.dataSync()[0], counts.completions.dataSync()[0]]).toEqual([7, 3])
      return []
    })
  })
})
