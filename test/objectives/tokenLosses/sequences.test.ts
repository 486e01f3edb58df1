/**
 * Losses and weights that look at whole completions, against their equations in float64. TRL's own
 * numbers: `npm run verify -- trl`.
 */
import { describe, expect, it } from 'vitest'
import { policyLoss } from '../../../src/objectives/policyLoss.js'
import { cispo } from '../../../src/objectives/tokenLosses/cispo.js'
import { gspo } from '../../../src/objectives/tokenLosses/gspo.js'
import { luspo } from '../../../src/objectives/tokenLosses/luspo.js'
import { vespo } from '../../../src/objectives/tokenLosses/vespo.js'
import { highEntropyWeights, offPolicyWeights } from '../../../src/objectives/tokenWeights.js'
import { expectClose } from '../../kit/close.js'
import { useEngine } from '../../kit/engine.js'
import { type LossRows, lossNumbers } from '../../kit/policyLoss.js'

useEngine()

const ROWS: LossRows = {
  logProbs: [
    [-0.7, -0.9, -4, -1.95],
    [-0.8, -0.95, -0.9, -2],
  ],
  old: [
    [-1, -0.5, -9, -2],
    [-0.7, -1.2, -0.3, -9],
  ],
  mask: [
    [1, 1, 0, 1],
    [1, 1, 1, 0],
  ],
  advantages: [[1.5], [-0.5]],
}
const N = 6
const RATIOS = ROWS.logProbs.map((row, b) => row.map((x, t) => x - ROWS.old[b]![t]!))
const SUMS = RATIOS.map((row, b) => row.reduce((sum, x, t) => sum + x * ROWS.mask[b]![t]!, 0))
const place = (f: (b: number, t: number) => number): number[] =>
  ROWS.mask.flatMap((row, b) => row.map((m, t) => (m === 0 ? 0 : f(b, t))))
const close = { absolute: 1e-6, relative: 1e-5 }

describe('VESPO', () => {
  it('has the gradient -phi(s) A, with the ratio of the completion in a gamma weight by the sign of the advantage', () => {
    const phi = [
      Math.exp(2 * SUMS[0]! + 3 * (1 - Math.exp(SUMS[0]!))),
      Math.exp(3 * SUMS[1]! + 2 * (1 - Math.exp(SUMS[1]!))),
    ]
    const { gradient } = lossNumbers(policyLoss({ objective: vespo() }), ROWS)
    expectClose(
      gradient.flat(),
      place((b) => (-phi[b]! * ROWS.advantages[b]![0]!) / N),
      close,
    )
  })

  it('is REINFORCE where the policy has not moved', () => {
    const { gradient } = lossNumbers(policyLoss({ objective: vespo() }), { ...ROWS, logProbs: ROWS.old })
    expectClose(
      gradient.flat(),
      place((b) => -ROWS.advantages[b]![0]! / N),
      close,
    )
  })

  it('refuses powers below 0 and decays that are not positive', () => {
    expect(() => vespo({ positive: { power: -1, decay: 1 } })).toThrow(/powers must not be negative .* got -1 and 1/)
    expect(() => vespo({ negative: { power: 1, decay: 0 } })).toThrow(RangeError)
  })
})

describe('LUSPO', () => {
  it('is GSPO with each completion as many times as it has tokens', () => {
    const wide = { clipEpsilon: 0.9 }
    const [long, mean] = [luspo(wide), gspo(wide)].map((objective) => lossNumbers(policyLoss({ objective }), ROWS))
    expectClose(
      long!.gradient.flat(),
      mean!.gradient.flat().map((g) => 3 * g),
      close,
    )
    expect(() => policyLoss({ objective: luspo(), aggregation: 'token-mean' })).toThrow(/luspo is a loss of sequences/)
  })
})

describe('CISPO without a lower bound', () => {
  it('keeps small weights as they are', () => {
    const { gradient } = lossNumbers(policyLoss({ objective: cispo({ clipEpsilon: [1, 0.2] }) }), ROWS)
    expectClose(
      gradient.flat(),
      place((b, t) => (-Math.min(Math.exp(RATIOS[b]![t]!), 1.2) * ROWS.advantages[b]![0]!) / N),
      close,
    )
    expect(() => cispo({ clipEpsilon: [1.1, 0.2] })).toThrow(/clipEpsilon must have 0 <= low < 1/)
  })
})

describe('a divergence that is corrected by the ratio', () => {
  it('has the value and the gradient of w times k3', () => {
    const reference = ROWS.old.map((row) => row.map((x) => x + 0.3))
    const kl = (correction: 'none' | 'ratio') =>
      policyLoss({ kl: [{ to: 'reference', coefficient: 1, correction }] }).apply
    const numbers = (correction: 'none' | 'ratio') =>
      lossNumbers({ ...policyLoss(), apply: kl(correction) }, { ...ROWS, reference })
    const [plain, corrected] = [numbers('none'), numbers('ratio')]
    const each = (b: number, t: number) => {
      const d = ROWS.logProbs[b]![t]! - reference[b]![t]!
      const w = Math.exp(RATIOS[b]![t]!)
      const k3 = Math.exp(-d) - 1 + d
      return { value: (w - 1) * k3, gradient: w * (k3 + 1 - Math.exp(-d)) - (1 - Math.exp(-d)) }
    }
    const sum = (f: (b: number, t: number) => number): number => place(f).reduce((a, x) => a + x, 0)
    expectClose([corrected.value - plain.value], [sum((b, t) => each(b, t).value) / N], close)
    expectClose(
      corrected.gradient.flat().map((g, i) => g - plain.gradient.flat()[i]!),
      place((b, t) => each(b, t).gradient / N),
      close,
    )
  })
})

describe('the entropy bonus', () => {
  it('is a mean over tokens, or aggregated as the objective', () => {
    const entropy = ROWS.mask.map((row) => row.map((_, t) => t + 1))
    const bonus = (entropyAggregation: 'loss' | 'token-mean') => {
      const options = { aggregation: 'token-sum', entropyCoefficient: 0.5, entropyAggregation } as const
      return lossNumbers(policyLoss(options), { ...ROWS, entropy }).metrics.lossEntropy!
    }
    expectClose([bonus('loss'), bonus('token-mean')], [-0.5 * 13, (-0.5 * 13) / N], close)
  })
})

describe('highEntropyWeights', () => {
  it('keeps the tokens at which the policy chooses, and never looks under the mask', () => {
    const entropies = [
      [0.1, 2, Number.NaN],
      [1, 0.2],
    ]
    const mask = [
      [1, 1, 0],
      [1, 1],
    ]
    expect(highEntropyWeights(entropies, mask, 0.5)).toEqual([
      [0, 1, 0],
      [1, 0],
    ])
    expect(highEntropyWeights(entropies, mask, 1)).toEqual(mask)
    expect(highEntropyWeights([[3], []], [[0], []], 0.2)).toEqual([[0], []])
    expect(() => highEntropyWeights([[1]], [[1]], 0)).toThrow(/share must be above 0/)
  })
})

describe('offPolicyWeights', () => {
  const mask = [[1, 1, 0], [1, 1], []]

  it('leaves out what was bad and has become unlikely', () => {
    const difference = [[-1, -3, Number.POSITIVE_INFINITY], [-1, -3], []]
    const weights = (a: number, limit = 1) => offPolicyWeights({ difference, mask, advantages: [a, -a, -1] }, limit)
    expect(weights(1)).toEqual([[1, 1, 0], [0, 0], []])
    expect(weights(-1)).toEqual([[0, 0, 0], [1, 1], []])
    expect(weights(0)).toEqual([[1, 1, 0], [1, 1], []])
    expect(weights(-1, 2)).toEqual(mask)
  })

  it('refuses advantages for other rows', () => {
    expect(() => offPolicyWeights({ difference: mask, mask, advantages: [1] }, 1)).toThrow(/1 advantages for 3 rows/)
  })
})
