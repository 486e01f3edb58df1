/**
 * Losses of given completions, pairs, teachers and returns, against numbers of TRL and torch in
 * float64 (`test/golden/generate/objectives.py`).
 */
import { readFileSync } from 'node:fs'
import { entropy, valueAndGrad } from '@tandem-rl/tfjs-onnxruntime'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import {
  DistillationLoss,
  type VocabularyDivergence,
  vocabularyDivergence,
} from '../../src/objectives/distillationLoss.js'
import { type DPOLossOptions, dpoLoss } from '../../src/objectives/dpoLoss.js'
import { SFTLoss, type SFTLossOptions } from '../../src/objectives/sftLoss.js'
import { valueLoss } from '../../src/objectives/valueLoss.js'
import { expectClose } from '../kit/close.js'
import { useEngine, valuesOf } from '../kit/engine.js'
import { interleavedTensors } from '../kit/trainingRows.js'

useEngine()

type Nested = number | readonly Nested[]
type Matrix = readonly (readonly number[])[]

interface Graded {
  readonly value: number
  readonly gradients: readonly Nested[]
}

interface Side {
  readonly logProbs: Matrix
  readonly refLogProbs: Matrix
  readonly mask: Matrix
}

interface Golden {
  readonly chosen: Side
  readonly rejected: Side
  readonly student: Nested
  readonly teacher: Nested
  readonly dpo: Readonly<
    Record<string, Graded & { readonly accuracy?: number; readonly chosen?: number; readonly rejected?: number }>
  >
  readonly sft: Readonly<Record<string, Graded>>
  readonly distillation: Readonly<Record<string, Graded>>
  readonly divergence: Readonly<Record<string, Graded>>
}

const GOLDEN = JSON.parse(readFileSync(new URL('../golden/objectives.json', import.meta.url), 'utf8')) as Golden // as its generator writes it

const flat = (x: Nested): readonly number[] => (typeof x === 'number' ? [x] : x.flatMap(flat))
const tensorOf = (x: Nested): tf.Tensor => tf.tensor(x as number[], undefined, 'float32') // tfjs takes readonly lists too

const sideOf = ({ refLogProbs, mask }: Side, logProbs: tf.Tensor) => ({
  logProbs,
  refLogProbs: tensorOf(refLogProbs),
  mask: tensorOf(mask),
})

const FLOAT32 = { absolute: 3e-7, relative: 2e-6 }

/** Fails unless value and gradients are the golden ones; returns the other outputs of the loss. */
const expectGolden = (
  golden: Graded,
  inputs: readonly Nested[],
  loss: (...inputs: readonly tf.Tensor[]) => {
    readonly value: tf.Tensor
    readonly aux: Readonly<Record<string, tf.Tensor>>
  },
): Readonly<Record<string, readonly number[]>> => {
  const told: Record<string, readonly number[]> = {}
  scope(() => {
    const params = Object.fromEntries(inputs.map((x, i) => [`x${i}`, tensorOf(x)]))
    const { value, grads, aux } = valueAndGrad(params, (given) => loss(...inputs.map((_, i) => given[`x${i}`]!)))
    expectClose(valuesOf(value), [golden.value], FLOAT32)
    for (const [i, gradient] of golden.gradients.entries())
      expectClose(valuesOf(grads[`x${i}`]!), flat(gradient), FLOAT32)
    for (const [name, x] of Object.entries(aux)) told[name] = valuesOf(x)
    return []
  })
  return told
}

describe('SFTLoss', () => {
  it.each<readonly [string, SFTLossOptions]>([
    ['sft', {}],
    ['sft, sums', { normalizeBySeqLength: 'no' }],
    ['sft, divergence', { klToRefCoefficient: 0.2 }],
    ['minor_sft', { lossFunction: 'minor_sft', beta: 0.3 }],
    ['minor_sft, sums', { lossFunction: 'minor_sft', beta: 0.3, normalizeBySeqLength: 'no' }],
  ])('%s has the values and gradients of its formula', (name, options) => {
    const told = expectGolden(GOLDEN.sft[name]!, [GOLDEN.chosen.logProbs], (x) => {
      const { lossSft, lossKlToRef, losses } = SFTLoss(options).apply({ logProbs: x! }, sideOf(GOLDEN.chosen, x!))
      return { value: lossKlToRef === undefined ? lossSft : tf.add(lossSft, lossKlToRef), aux: { losses, lossSft } }
    })
    expectClose([told.losses!.reduce((a, b) => a + b, 0) / 3], told.lossSft!, FLOAT32)
  })
})

describe('dpoLoss', () => {
  it.each<readonly [string, DPOLossOptions]>([
    ['sigmoid', {}],
    ['sigmoid_norm', { normalizeBySeqLength: 'yes' }],
    ['ipo', { form: 'ipo' }],
    ['smoothed', { labelSmoothing: 0.1 }],
    ['referenceFree', { reference: 'none' }],
  ])('%s has the values, gradients and rewards of TRL', (name, options) => {
    const { chosen, rejected } = GOLDEN
    const golden = GOLDEN.dpo[name]!
    const told = expectGolden(golden, [chosen.logProbs, rejected.logProbs], (better, worse) => {
      const [own, other] = [sideOf(chosen, better!), sideOf(rejected, worse!)]
      const both = (name: 'logProbs' | 'refLogProbs' | 'mask') => interleavedTensors(own[name]!, other[name]!)
      const output = dpoLoss({ beta: 0.5, ...options }).apply(
        { logProbs: both('logProbs') },
        { refLogProbs: both('refLogProbs'), mask: both('mask') },
      )
      const { chosenRewards, rejectedRewards, accuracy } = output
      return { value: output.lossDpo, aux: { chosenRewards, rejectedRewards, accuracy } }
    })
    if (golden.accuracy === undefined) return
    const mean = (xs: readonly number[]): number => xs.reduce((a, b) => a + b, 0) / xs.length
    expectClose(
      [mean(told.chosenRewards!), mean(told.rejectedRewards!), told.accuracy![0]!],
      [golden.chosen!, golden.rejected!, golden.accuracy],
      FLOAT32,
    )
  })
})

describe('distillation', () => {
  it.each([
    ['reverse', 'reverse', 'seq-mean-token-mean'],
    ['reverse, sums', 'reverse', 'seq-mean-token-sum'],
    ['forward', 'forward', 'seq-mean-token-mean'],
    ['forward, sums', 'forward', 'seq-mean-token-sum'],
  ] as const)(
    '%s from sampled tokens has the values and gradients of its formula',
    (name, klDirection, aggregation) => {
      expectGolden(GOLDEN.distillation[name]!, [GOLDEN.chosen.logProbs], (x) => {
        const { logProbs, refLogProbs: teacherLogProbs, mask } = sideOf(GOLDEN.chosen, x!)
        const output = DistillationLoss({ klDirection, aggregation }).apply({ logProbs }, { teacherLogProbs, mask })
        return { value: output.lossDistillation, aux: {} }
      })
    },
  )

  it.each<readonly [string, VocabularyDivergence]>([
    ['forward', 'forward'],
    ['reverse', 'reverse'],
    ['mixed', { teacherShare: 0.3 }],
  ])('%s over the vocabulary has the values and gradients of TRL', (name, divergence) => {
    expectGolden(GOLDEN.divergence[name]!, [GOLDEN.student], (student) => ({
      value: tf.sum(vocabularyDivergence(student!, tensorOf(GOLDEN.teacher), divergence)),
      aux: {},
    }))
  })
})

describe('the value function', () => {
  const given = (): Readonly<Record<'values' | 'oldValues' | 'returns' | 'mask', tf.Tensor>> => ({
    values: tf.tensor2d([0.5, 1.2, 0, 0.1, 0.9, 0.3, 0.2, 0, 2, 0, 0, 0], [3, 4]),
    oldValues: tf.fill([3, 4], 0.4),
    returns: tf.tensor2d([1, 1, 0, 1, 0, 0, 0, 0, 0.5, 0, 0, 0], [3, 4]),
    mask: tf.tensor2d([1, 1, 0, 1, 1, 1, 1, 0, 1, 0, 0, 0], [3, 4]),
  })

  it('has the loss of verl', () => {
    scope(() => {
      const { values, ...rest } = given()
      const { lossValue, valueCutFraction } = valueLoss({ clipEpsilon: 0.5 }).apply({ values }, rest)
      expectClose([...valuesOf(lossValue), ...valuesOf(valueCutFraction)], [0.30642857, 0], FLOAT32)
      return []
    })
  })

  it('learns nothing where the clipped value is the worse one, and V - R elsewhere', () => {
    scope(() => {
      const { values, ...rest } = given()
      const loss = valueLoss({ clipEpsilon: 0.05, aggregation: 'token-sum' })
      const { grads, aux } = valueAndGrad({ values }, (params) => {
        const { lossValue, valueCutFraction } = loss.apply({ values: params.values! }, rest)
        return { value: lossValue, aux: { valueCutFraction } }
      })
      expectClose(valuesOf(grads.values!), [0, 0, 0, -0.9, 0.9, 0, 0, 0, 1.5, 0, 0, 0], FLOAT32)
      expectClose(valuesOf(aux.valueCutFraction), [4 / 7], FLOAT32)
      return []
    })
  })
})

describe('entropy', () => {
  it('is exact, as verl has it', () => {
    scope(() => {
      expectClose(valuesOf(entropy(tf.tensor2d([1, 2, 3, 5, 5, 5], [2, 3]))), [0.83239558, 1.09861229], FLOAT32)
      expect(entropy(tf.tensor2d([[0, 1]])).shape).toEqual([1])
      return []
    })
  })
})
