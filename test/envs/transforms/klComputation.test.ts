import { readFileSync } from 'node:fs'
import { checkLaws, erased, transformLaws } from '@tandem-rl/testing'
import { discard } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { REWARD_KL_FORMS, rewardKL } from '../../../src/data/rewardKL.js'
import { raggedSpec, tensorSpec } from '../../../src/data/spec.js'
import { meta, ragged } from '../../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { KLComputation, type KLComputationOptions } from '../../../src/envs/transforms/klComputation.js'
import { answered, empty, freeing, numbersAt, refused, rowsAt } from '../../kit/conversation.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

type Rows = readonly (readonly number[])[]

const sum = (numbers: readonly number[]): number => numbers.reduce((total, x) => total + x, 0)
const numbers = (rows: Rows) => ({ response: ragged('float32', rows) })
const actionOf = (rows: Rows): TensorDict => TensorDict({ logProbs: numbers(rows) }, [rows.length])

interface Given {
  readonly policy: Rows
  readonly reference: Rows
  readonly reward?: readonly number[]
}

/** A step after which the reference's numbers are there. What went in is freed. */
const stepped =
  (options: KLComputationOptions, { policy, reference, reward }: Given) =>
  async () => {
    const given = reward === undefined ? {} : { reward: tf.tensor1d([...reward]) }
    const next = TensorDict({ refLogProbs: numbers(reference), ...given }, [policy.length])
    const context = { previous: empty(policy.length), action: actionOf(policy) }
    const result = await KLComputation(options).step(next, context, null)()
    discard(next, result)
    return result
  }

const logProb = fc.integer({ min: -64, max: 0 }).map((n) => n / 8) // sums of these are exact in float32
const rows = fc
  .array(fc.array(fc.tuple(logProb, logProb), { maxLength: 5 }), { minLength: 1, maxLength: 4 })
  .map((all) => ({
    policy: all.map((row) => row.map(([p]) => p)),
    reference: all.map((row) => row.map(([, q]) => q)),
  }))

describe('KLComputation', () => {
  describe('as a transform', () => {
    const samples = rows.map(({ policy, reference }) => ({
      inner: { observation: { refLogProbs: { response: raggedSpec('float32') } }, action: {} },
      state: () => TensorDict({ refLogProbs: numbers(reference.map(() => [])) }, [policy.length]),
      action: () => actionOf(policy),
      next: () => TensorDict({ refLogProbs: numbers(reference), reward: tf.ones([policy.length]) }, [policy.length]),
    }))
    const transforms = fc
      .tuple(
        fc.constantFrom(...REWARD_KL_FORMS.slice(0, 3)),
        fc.constantFrom('sum', 'tokens'),
        fc.constantFrom('subtract', 'keep'),
      )
      .map(([form, shape, reward]) => erased(KLComputation({ form, shape, reward, coefficient: 0.5 })))
    checkLaws(it, transformLaws(transforms, samples))
  })

  interface Golden {
    readonly coefficient: number
    readonly policy: Rows
    readonly reference: Rows
    readonly reward: Rows
    readonly kl: Rows
    readonly after: Rows
  }
  const golden = JSON.parse(readFileSync('test/golden/transforms.json', 'utf8')) as {
    readonly divergences: readonly Golden[]
    readonly missing: Rows
  }

  it('is what TorchRL computes: the divergence of each token, and rewards that add up to ours', () =>
    freeing(async (keep) => {
      expect(golden.divergences.length).toBe(4)
      for (const { coefficient, policy, reference, reward, kl, after } of golden.divergences) {
        const [added] = await answered(stepped({ coefficient }, { policy, reference, reward: reward.map(sum) }))
        keep(added)
        const flat = rowsAt(added, 'klPenalty').flat()
        for (const [t, x] of kl.flat().entries()) expect(flat[t]).toBeCloseTo(x, 6)
        for (const [i, x] of after.map(sum).entries()) expect(numbersAt(added, 'reward')[i]).toBeCloseTo(x, 4)
      }
    }))

  it('a number that is missing is a failure, where TorchRL takes 0', async () => {
    expect(golden.missing).toEqual([[0, 1]])
    const { reason } = await refused(stepped({}, { policy: [[-1, -2]], reference: [[Number.NaN, -3]] }))
    expect(reason).toBe(
      'the divergence k1 of token 0 of completion 0 is no number: the policy has -1, the reference NaN',
    )
  })

  it.each(REWARD_KL_FORMS)('as %s, kept by token or summed, paid or not', async (form) => {
    const law = fc.asyncProperty(rows, fc.integer({ min: -8, max: 8 }), (compared, eighths) =>
      freeing(async (keep) => {
        const coefficient = eighths / 8
        const reward = compared.policy.map((_, i) => i)
        const [byToken] = await answered(stepped({ form, coefficient }, { ...compared, reward }))
        const [summed] = await answered(
          stepped({ form, coefficient, shape: 'sum', reward: 'keep' }, { ...compared, reward }),
        )
        keep([byToken, summed])
        const each = compared.policy.map((row, i) =>
          row.map((p, t) => Math.fround(rewardKL(form, p - compared.reference[i]![t]!))),
        )
        expect(rowsAt(byToken, 'klPenalty')).toEqual(each)
        expect(numbersAt(summed, 'klPenalty')).toEqual(each.map((row) => Math.fround(sum(row))))
        expect(summed.entries.has('reward')).toBe(false)
        for (const [i, row] of each.entries())
          expect(numbersAt(byToken, 'reward')[i]).toBeCloseTo(i - coefficient * sum(row), 2)
      }),
    )
    await fc.assert(law, { numRuns: 30 })
  })

  it('takes the coefficient from the state: one for all, or one for each element', () =>
    freeing(async (keep) => {
      const action = actionOf([[-1], [-1]])
      const next = TensorDict({ refLogProbs: numbers([[-2], [-2]]) }, [2])
      const kl = KLComputation({ coefficient: { entry: 'klCoefficient' } })
      const paid = async (klCoefficient: tf.Tensor | ReturnType<typeof meta>) => {
        const previous = keep(TensorDict({ klCoefficient }, [2]))
        const [added] = await answered(kl.step(next, { previous, action }, null))
        return numbersAt(keep(added), 'reward')
      }
      expect(await paid(meta(0.5))).toEqual([-0.5, -0.5])
      expect(await paid(tf.tensor1d([0.25, 2]))).toEqual([-0.25, -2])
      for (const wrong of [meta('much'), meta(Number.NaN), tf.tensor1d([Number.NaN, 1])]) {
        const previous = keep(TensorDict({ klCoefficient: wrong }, [2]))
        const { reason } = await refused(kl.step(next, { previous, action }, null))
        expect(reason).toBe("the state's klCoefficient is no finite number, or not one for each of 2")
      }
      expect((await refused(kl.step(next, { previous: empty(2), action }, null))).reason).toContain('klCoefficient')
    }))

  it('reads the numbers of a policy that was scored, by the name of their entry', () =>
    freeing(async (keep) => {
      const next = TensorDict({ own: numbers([[-1]]), teacher: numbers([[-4]]) }, [1])
      const kl = KLComputation({ policy: 'own', reference: 'teacher' })
      const [added] = await answered(kl.step(next, { previous: empty(1), action: empty(1) }, null))
      keep(added)
      expect(numbersAt(added, 'reward')).toEqual([-3])
      expect(kl.spec({ observation: { reward: tensorSpec('float32') }, action: {} })).toMatchObject({
        _tag: 'Left',
        left: { problems: ['teacher: missing', 'own: missing'] },
      })
    }))

  it.each([
    ['rows of other lengths', [[-1]], [[-1, -2]], 'the policy has rows of [1] numbers, the reference rows of [2]'],
    ['a policy without numbers', [[Number.NaN]], [[-1]], 'the divergence k3 of token 0'],
    ['a penalty without bounds', [[-300]], [[-1]], 'is no number: the policy has -300, the reference -1'],
    ['a sum without bounds', [[-89, -89]], [[-0.5, -0.5]], 'would cost Infinity: its k3 divergence is'],
  ])('%s is a failure', async (_, policy, reference, reason) => {
    expect((await refused(stepped({ form: 'k3' }, { policy, reference }))).reason).toContain(reason)
  })

  it('needs both numbers, and options that make sense', async () => {
    const next = TensorDict({ refLogProbs: numbers([[-1]]) }, [1])
    const step = (state: TensorDict, action: TensorDict) =>
      KLComputation().step(state, { previous: empty(1), action }, null)
    expect((await refused(step(next, empty(1)))).reason).toContain('the action has no logProbs.response')
    expect((await refused(step(empty(1), actionOf([[-1]])))).reason).toBe('the state has no refLogProbs.response')
    // Wrong calls.
    expect(() => KLComputation({ form: 'k9' as 'k1' })).toThrow(/form must be 'k1' or .*, got "k9"/)
    expect(() => KLComputation({ coefficient: Number.NaN })).toThrow('coefficient must be')
  })
})
