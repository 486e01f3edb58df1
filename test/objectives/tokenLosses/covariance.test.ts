/** Which tokens the objectives by covariance hold back, on batches small enough to tell by hand. */
import { describe, expect, it } from 'vitest'
import { policyLoss } from '../../../src/objectives/policyLoss.js'
import { clipCov, klCov } from '../../../src/objectives/tokenLosses/covariance.js'
import { expectClose } from '../../kit/close.js'
import { useEngine } from '../../kit/engine.js'
import { chosenRows, type LossRows, lossNumbers } from '../../kit/policyLoss.js'

useEngine()

/**
 * Covariances 1.9, 1.7, 1.7 and 1.9; the ratio of the first token is `e^0.5`, and the range of 0.2
 * cuts it.
 */
const ROWS: LossRows = {
  logProbs: [[-0.2], [-0.3], [-2], [-2.1]],
  old: [[-0.7], [-0.3], [-2], [-2.1]],
  mask: [[1], [1], [1], [1]],
  advantages: [[2], [2], [-2], [-2]],
  noise: [[0.9], [0.5], [0.7], [0.1]],
}

describe('clipCov', () => {
  it.each([
    [0.25, [0, 0, 1, 0]],
    [0.5, [0, 1, 1, 0]],
    [1, [0, 1, 1, 1]],
  ])('draws the share %f from the tokens that the range leaves alone, by their noise', (share, held) => {
    const loss = policyLoss({ objective: clipCov({ share, bounds: [0, 5] }) })
    expect(chosenRows(loss, ROWS)?.flat()).toEqual(held)
    const { gradient, metrics } = lossNumbers(loss, ROWS)
    const free = [0, -0.5, 0.5, 0.5]
    expectClose(
      gradient.flat(),
      free.map((g, i) => g * (1 - held[i]!)),
      { absolute: 1e-6, relative: 0 },
    )
    expectClose([metrics.pgClipFraction!], [(1 + held.reduce((a, b) => a + b)) / 4], { absolute: 1e-6, relative: 0 })
  })

  it.each([
    [
      [1.8, 5],
      [0, 0, 0, 1],
    ],
    [
      [0, 1.8],
      [0, 1, 1, 0],
    ],
    [
      [2, 5],
      [0, 0, 0, 0],
    ],
  ] as const)('draws from covariances between %j alone', (bounds, held) => {
    const loss = policyLoss({ objective: clipCov({ share: 1, bounds }) })
    expect(chosenRows(loss, ROWS)?.flat()).toEqual(held)
  })

  it('draws no token under the mask, and one of N where the share is less than that', () => {
    const loss = policyLoss({ objective: clipCov({ share: 0.01, bounds: [-9, 9] }) })
    const rows = { ...ROWS, mask: [[1], [1], [0], [1]] }
    expect(chosenRows(loss, rows)?.flat()).toEqual([0, 1, 0, 0])
  })
})

describe('klCov', () => {
  it('pulls back the share of tokens with the largest covariance, and lets them learn', () => {
    const rows = { ...ROWS, logProbs: [[-0.2], [-0.3], [-2], [-2.3]] }
    const loss = policyLoss({ objective: klCov({ share: 0.5, coefficient: 0.7 }) })
    expect(chosenRows(loss, rows)?.flat()).toEqual([1, 0, 0, 1])
    const [up, down] = [Math.exp(0.5), Math.exp(-0.2)]
    expectClose(lossNumbers(loss, rows).gradient.flat(), [(-2 * up + 0.7) / 4, -0.5, 0.5, (2 * down - 0.7) / 4], {
      absolute: 1e-6,
      relative: 1e-6,
    })
  })
})
