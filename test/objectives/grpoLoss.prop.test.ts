import { valueAndGrad } from '@tandem-rl/tfjs-onnxruntime'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { essOf } from '../../src/objectives/ess.js'
import { GRPOLoss, type GRPOLossOptions } from '../../src/objectives/grpoLoss.js'
import { scalarsOf, totalLoss } from '../../src/objectives/loss.js'
import type { PolicyLossInput, PolicyOutputs } from '../../src/objectives/policyLoss.js'
import { klTerm } from '../../src/objectives/tokenLosses/klForms.js'
import { expectClose } from '../kit/close.js'
import { useEngine } from '../kit/engine.js'

useEngine()

/** Rows of tokens on the host. */
interface Rows {
  readonly logProbs: readonly (readonly number[])[]
  readonly old: readonly (readonly number[])[]
  readonly mask: readonly (readonly number[])[]
  readonly advantages: readonly number[]
}

const nat = fc.double({ min: -4, max: 0, noNaN: true })

const rows: fc.Arbitrary<Rows> = fc
  .tuple(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: 5 }))
  .chain(([b, t]) => {
    const matrix = <T>(element: fc.Arbitrary<T>) =>
      fc.array(fc.array(element, { minLength: t, maxLength: t }), { minLength: b, maxLength: b })
    return fc.record({
      logProbs: matrix(nat),
      old: matrix(nat),
      mask: matrix(fc.constantFrom(0, 1)),
      advantages: fc.array(fc.double({ min: -2, max: 2, noNaN: true }), { minLength: b, maxLength: b }),
    })
  })

const shapeOf = ({ mask }: Rows): [number, number] => [mask.length, mask[0]!.length]

const inputOf = (given: Rows): PolicyLossInput => ({
  oldLogProbs: tf.tensor2d(given.old.flat(), shapeOf(given)),
  mask: tf.tensor2d(given.mask.flat(), shapeOf(given)),
  advantages: tf.tensor2d([...given.advantages], [given.advantages.length, 1]),
})

/** The value of the loss, the gradient with respect to each log-probability, and the metrics. */
const lossOf = (given: Rows, options: GRPOLossOptions = {}, extra: Partial<PolicyLossInput & PolicyOutputs> = {}) => {
  let value = 0
  let gradient: number[] = []
  let metrics: Record<string, number> = {}
  scope(() => {
    const x = tf.tensor2d(given.logProbs.flat(), shapeOf(given))
    const result = valueAndGrad({ x }, (params) => {
      const output = GRPOLoss(options).apply({ logProbs: params.x, ...extra }, { ...inputOf(given), ...extra })
      return { value: totalLoss(output), aux: scalarsOf(output) }
    })
    value = result.value.dataSync()[0]!
    gradient = Array.from(result.grads.x!.dataSync())
    metrics = Object.fromEntries(
      Object.entries(result.aux).map(([name, tensor]: [string, tf.Tensor]) => [name, tensor.dataSync()[0]!]),
    )
    return []
  })
  const ess = essOf({
    logSumWeights: metrics.logSumWeights!,
    logSumSquaredWeights: metrics.logSumSquaredWeights!,
    tokens: metrics.tokens!,
  })
  return { value, gradient, metrics: { ...metrics, ess } as Record<string, number> }
}

const countOf = ({ mask }: Rows): number => mask.flat().filter((m) => m === 1).length

const runs = { numRuns: 25 }

describe('GRPOLoss', () => {
  it('at equal policies has ratio 1: nothing clipped, no divergence, all samples effective, the objective minus the mean advantage', () => {
    fc.assert(
      fc.property(rows, (drawn) => {
        const given = { ...drawn, old: drawn.logProbs }
        fc.pre(countOf(given) > 0)
        const { value, metrics } = lossOf(given)
        const mean =
          given.mask.reduce((sum, row, b) => sum + row.filter((m) => m === 1).length * given.advantages[b]!, 0) /
          countOf(given)
        expectClose([value, metrics.clipFraction!, metrics.klApprox!, metrics.ess!], [-mean, 0, 0, 1], {
          absolute: 2e-6,
        })
      }),
      runs,
    )
  })

  it('at equal policies has the gradient of REINFORCE', () => {
    fc.assert(
      fc.property(rows, (drawn) => {
        const given = { ...drawn, old: drawn.logProbs }
        const expected = given.mask.flatMap((row, b) =>
          row.map((m) => (-m * given.advantages[b]!) / Math.max(1, countOf(given))),
        )
        expectClose(lossOf(given).gradient, expected, { absolute: 1e-6 })
      }),
      runs,
    )
  })

  it('does not look at values under the mask, be they NaN or infinite', () => {
    fc.assert(
      fc.property(rows, fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY, -1e30, 7), (given, junk) => {
        const soil = (matrix: readonly (readonly number[])[]) =>
          matrix.map((row, b) => row.map((x, t) => (given.mask[b]![t] === 1 ? x : junk)))
        const dirty = { ...given, logProbs: soil(given.logProbs), old: soil(given.old) }
        const [clean, soiled] = [lossOf(given), lossOf(dirty)]
        expect(soiled.value).toBe(clean.value)
        expect(soiled.metrics).toEqual(clean.metrics)
        const counted = given.mask.flat()
        expect(soiled.gradient.filter((_, i) => counted[i] === 1)).toEqual(
          clean.gradient.filter((_, i) => counted[i] === 1),
        )
      }),
      runs,
    )
  })

  it('is not changed by padding on either side', () => {
    fc.assert(
      fc.property(rows, fc.constantFrom('left', 'right'), fc.integer({ min: 1, max: 3 }), (given, side, width) => {
        const pad = (matrix: readonly (readonly number[])[]) =>
          matrix.map((row) => (side === 'left' ? [...Array(width).fill(0), ...row] : [...row, ...Array(width).fill(0)]))
        const wide = { ...given, logProbs: pad(given.logProbs), old: pad(given.old), mask: pad(given.mask) }
        for (const aggregation of ['token-mean', 'prompt-mean'] as const) {
          const [narrow, padded] = [lossOf(given, { aggregation }), lossOf(wide, { aggregation })]
          expectClose([padded.value], [narrow.value], { absolute: 1e-6 })
          for (const [name, value] of Object.entries(narrow.metrics))
            expectClose([padded.metrics[name]!], [value], { absolute: 1e-6 })
        }
      }),
      { numRuns: 15 },
    )
  })

  it('has zero loss, metrics and gradient without any token that counts', () => {
    fc.assert(
      fc.property(rows, (drawn) => {
        const given = { ...drawn, mask: drawn.mask.map((row) => row.map(() => 0)) }
        const { value, gradient, metrics } = lossOf(given, { entropyCoefficient: 0, klToInferenceCoefficient: 0.5 })
        expect(
          [value, metrics.clipFraction, metrics.klApprox, metrics.ess, metrics.klToInference].map((x) => Math.abs(x!)),
        ).toEqual([0, 0, 0, 0, 0])
        expect(gradient.every((g) => g === 0)).toBe(true)
      }),
      runs,
    )
  })

  it('adds up over micro-batches when it is given the counts of the whole', () => {
    fc.assert(
      fc.property(rows, (given) => {
        fc.pre(given.mask.length > 1)
        for (const aggregation of ['token-mean', 'prompt-mean'] as const) {
          const whole = lossOf(given, { aggregation })
          const parts = given.mask.map((_, b) => {
            const one = (matrix: readonly (readonly number[])[]) => [matrix[b]!]
            const row = {
              logProbs: one(given.logProbs),
              old: one(given.old),
              mask: one(given.mask),
              advantages: [given.advantages[b]!],
            }
            const counts = { tokens: tf.scalar(countOf(given)), completions: tf.scalar(given.mask.length) }
            const part = lossOf(row, { aggregation }, { counts })
            tf.dispose(counts)
            return part
          })
          expectClose([parts.reduce((sum, part) => sum + part.value, 0)], [whole.value], { absolute: 2e-6 })
          expectClose(
            parts.flatMap((part) => part.gradient),
            whole.gradient,
            { absolute: 2e-6 },
          )
        }
      }),
      { numRuns: 15 },
    )
  })

  it('clips only the side on which the ratio would go on: asymmetric bounds', () => {
    const single = (logRatio: number, advantage: number) =>
      lossOf(
        { logProbs: [[logRatio - 1]], old: [[-1]], mask: [[1]], advantages: [advantage] },
        { clipEpsilon: [0.2, 0.28] },
      ).gradient[0]!
    expect(Math.abs(single(Math.log(1.3), 1))).toBe(0)
    expect(single(Math.log(1.3), -1)).toBeCloseTo(1.3, 5)
    expect(Math.abs(single(Math.log(0.7), -1))).toBe(0)
    expect(single(Math.log(0.7), 1)).toBeCloseTo(-0.7, 5)
    expect(single(Math.log(1.25), 1)).toBeCloseTo(-1.25, 5)
  })

  it('means the same by token and by prompt when all completions are equally long', () => {
    fc.assert(
      fc.property(rows, (drawn) => {
        const given = { ...drawn, mask: drawn.mask.map((row) => row.map(() => 1)) }
        expectClose([lossOf(given, { aggregation: 'prompt-mean' }).value], [lossOf(given).value], { absolute: 1e-6 })
      }),
      runs,
    )
  })

  it('refuses clip ranges that make no sense, shapes that do not fit and terms without their input', () => {
    for (const clipEpsilon of [-0.1, [1, 0.2], [0.2, -1], Number.NaN] as const) {
      expect(() => GRPOLoss({ clipEpsilon }), String(clipEpsilon)).toThrow(RangeError)
    }
    const given: Rows = { logProbs: [[-1]], old: [[-1]], mask: [[1]], advantages: [1] }
    expect(() => lossOf(given, { entropyCoefficient: 0.1 })).toThrow('needs `entropy`')
    expect(() => lossOf(given, { klToRefCoefficient: 0.1 })).toThrow('needs `refLogProbs`')
    expect(() => lossOf({ ...given, advantages: [1, 2] })).toThrow('[B, 1] or [B, T]')
  })
})

describe('k3', () => {
  it('is never negative, zero only for equal policies, and on average the exact divergence', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: 0.05, max: 1, noNaN: true }), { minLength: 2, maxLength: 6 }),
        fc.array(fc.double({ min: 0.05, max: 1, noNaN: true }), { minLength: 6, maxLength: 6 }),
        (a, b) => {
          const normalize = (xs: readonly number[]): number[] => xs.map((x) => x / xs.reduce((s, y) => s + y, 0))
          const p = normalize(a)
          const q = normalize(b.slice(0, a.length))
          let values: number[] = []
          scope(() => {
            values = Array.from(klTerm('k3', tf.tensor1d(p.map((x, i) => Math.log(x / q[i]!)))).dataSync())
            return []
          })
          for (const value of values) expect(value).toBeGreaterThanOrEqual(-1e-6)
          const exact = p.reduce((sum, x, i) => sum + x * Math.log(x / q[i]!), 0)
          expectClose([p.reduce((sum, x, i) => sum + x * values[i]!, 0)], [exact], { absolute: 2e-6 })
        },
      ),
      runs,
    )
  })
})
