/** The loss of reward models against the formula of TRL's `RewardTrainer` on plain numbers. */
import { valueAndGrad } from '@tandem-rl/tfjs-onnxruntime'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { totalLoss } from '../../src/objectives/loss.js'
import { type RewardModelLoss, rewardModelLoss } from '../../src/objectives/rewardModelLoss.js'
import { expectClose } from '../kit/close.js'
import { useEngine, valuesOf } from '../kit/engine.js'
import { interleavedTensors } from '../kit/trainingRows.js'

useEngine()

interface Pair {
  readonly chosen: number
  readonly rejected: number
  readonly margin: number
}

/** `-logsigmoid(chosen - rejected - margin).mean() + c * mean((chosen + rejected) ** 2)`. */
const trl = (pairs: readonly Pair[], center: number): number =>
  pairs.reduce((sum, { chosen, rejected, margin }) => {
    const lead = chosen - rejected - margin
    return sum + Math.log1p(Math.exp(-lead)) + center * (chosen + rejected) ** 2
  }, 0) / pairs.length

const reward = fc.integer({ min: -40, max: 40 }).map((x) => x / 8)

const anyPairs = fc.array(fc.record({ chosen: reward, rejected: reward, margin: reward }), {
  minLength: 1,
  maxLength: 5,
})

const inputOf = (pairs: readonly Pair[]) => ({
  chosen: tf.tensor1d(pairs.map(({ chosen }) => chosen)),
  rejected: tf.tensor1d(pairs.map(({ rejected }) => rejected)),
  margin: tf.tensor1d(pairs.map(({ margin }) => margin)),
})

/** The output of a loss for rewards `[B]`. */
const applied = (
  loss: RewardModelLoss,
  { chosen, rejected, margin }: Readonly<Record<'chosen' | 'rejected' | 'margin', tf.Tensor>>,
  pairs = chosen.size,
) => {
  const rows = (a: tf.Tensor, b: tf.Tensor) => interleavedTensors(tf.expandDims(a, 1), tf.expandDims(b, 1))
  const counts = { tokens: tf.scalar(0), completions: tf.scalar(2 * pairs) }
  return loss.apply(
    { values: rows(chosen, rejected) },
    { mask: tf.ones([2 * chosen.size, 1]), margins: rows(margin, margin), counts },
  )
}

describe('rewardModelLoss', () => {
  it("is TRL's loss, and its gradient", () => {
    fc.assert(
      fc.property(anyPairs, fc.constantFrom(0, 0.01, 0.5), (pairs, center) => {
        scope(() => {
          const { chosen, rejected, margin } = inputOf(pairs)
          const loss = rewardModelLoss({ centerRewardsCoefficient: center })
          const { value, grads } = valueAndGrad({ chosen, rejected }, (given) => ({
            value: totalLoss(applied(loss, { chosen: given.chosen!, rejected: given.rejected!, margin })),
            aux: {},
          }))
          expectClose(valuesOf(value), [trl(pairs, center)], { absolute: 1e-5, relative: 1e-5 })
          const slope = pairs.map((pair) => {
            const pull = 1 / (1 + Math.exp(pair.chosen - pair.rejected - pair.margin))
            const centering = 2 * center * (pair.chosen + pair.rejected)
            return [(-pull + centering) / pairs.length, (pull + centering) / pairs.length] as const
          })
          expectClose(
            valuesOf(grads.chosen!),
            slope.map(([c]) => c),
            { absolute: 1e-5, relative: 1e-5 },
          )
          expectClose(
            valuesOf(grads.rejected!),
            slope.map(([, r]) => r),
            { absolute: 1e-5, relative: 1e-5 },
          )
        })
      }),
    )
  })

  it('adds up over micro-batches that are given the pairs of the whole', () => {
    scope(() => {
      const pairs = [
        { chosen: 1, rejected: 0, margin: 0.5 },
        { chosen: -1, rejected: 2, margin: 0 },
      ]
      const loss = rewardModelLoss({ centerRewardsCoefficient: 0.1 })
      const parts = pairs.map((pair) => totalLoss(applied(loss, inputOf([pair]), 2)))
      expectClose([parts.reduce((sum, x) => sum + valuesOf(x)[0]!, 0)], [trl(pairs, 0.1)], { relative: 1e-5 })
    })
  })

  it('refuses shapes that do not fit, and invalid settings', () => {
    scope(() => {
      const [one, two] = [tf.ones([2, 1]), tf.ones([4, 1])]
      expect(() => rewardModelLoss().apply({ values: one }, { mask: two })).toThrow('values [2,1], mask [4,1]')
      expect(() => rewardModelLoss({ centerRewardsCoefficient: -1 })).toThrow('centerRewardsCoefficient')
    })
  })
})
