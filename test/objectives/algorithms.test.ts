import { requireRight } from '@tandem-rl/testing'
import { describe, expect, it } from 'vitest'
import type { RewardedRows } from '../../src/objectives/advantages/rows.js'
import { ALGORITHM_NAMES, ALGORITHMS, type AlgorithmName, algorithmLoss } from '../../src/objectives/algorithms.js'
import { GRPOLoss } from '../../src/objectives/grpoLoss.js'
import { useEngine } from '../kit/engine.js'
import { lossNumbers } from '../kit/policyLoss.js'

useEngine()

/** Two groups of two; the return of a completion is that of its last token. */
const REWARDED: RewardedRows = {
  groups: ['a', 'a', 'b', 'b'],
  rewards: [[0, 1], [0], [0, 0, 0], [3]],
  mask: [[1, 1], [1], [1, 1, 1], [1]],
}
const OWN = { clipLow: null, clipHigh: null, longest: 8 }

describe.each(ALGORITHM_NAMES)('%s', (name: AlgorithmName) => {
  it('prefers what was better in its group, by the same number for each token of a completion', () => {
    const rows = requireRight(ALGORITHMS[name].advantage(REWARDED))
    const each = rows.map((row) => {
      expect(new Set(row).size).toBe(1)
      return row[0]!
    })
    expect(each[0]! > each[1]! && each[3]! > each[2]!).toBe(true)
  })

  it('pushes up what was better where the policy has not moved', () => {
    const loss = algorithmLoss(name, OWN)
    const logProbs = [
      [-1, -2],
      [-0.5, -1.5],
    ]
    const mask = [
      [1, 1],
      [1, 1],
    ]
    const rows = { logProbs, old: logProbs, mask, advantages: [[1], [-1]], noise: mask }
    const { gradient } = lossNumbers(loss, rows)
    // a token that Clip-Cov holds back has no gradient
    expect(gradient[0]!.every((g) => g <= 0) && gradient[1]!.every((g) => g >= 0)).toBe(true)
    expect(gradient.flat().some((g) => g < 0)).toBe(true)
  })
})

describe('algorithmLoss', () => {
  it('of grpo is that of GRPOLoss', () => {
    const rows = { logProbs: [[-1, -1.5]], old: [[-1.4, -1]], mask: [[1, 1]], advantages: [[0.7]] }
    expect(lossNumbers(algorithmLoss('grpo', OWN), rows)).toEqual(lossNumbers(GRPOLoss(), rows))
  })

  it('takes one side of the range and leaves the other as the source has it', () => {
    const outside = (clipHigh: number | null) => {
      const rows = { logProbs: [[-1]], old: [[-1.3]], mask: [[1]], advantages: [[1]] }
      return lossNumbers(algorithmLoss('dapo', { ...OWN, clipHigh }), rows).metrics.clipFraction
    }
    expect([outside(null), outside(0.4)]).toEqual([1, 0])
  })

  it('of dr-grpo divides by the longest completion that there may be', () => {
    const rows = { logProbs: [[-1, -1]], old: [[-1, -1]], mask: [[1, 1]], advantages: [[1]] }
    expect(lossNumbers(algorithmLoss('dr-grpo', OWN), rows).value).toBeCloseTo(-2 / 8, 6)
  })

  it.each([
    ['rloo', { clipLow: 0.2 }, 'rloo clips no ratios: it takes neither clipLow nor clipHigh'],
    ['grpo', { clipLow: 1 }, 'clipEpsilon must have 0 <= low < 1'],
  ] as const)('refuses a range that %s cannot have', (name, change, reason) => {
    expect(() => algorithmLoss(name, { ...OWN, ...change })).toThrow(reason)
  })
})
