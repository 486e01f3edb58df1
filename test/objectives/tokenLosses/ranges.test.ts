/**
 * Numbers that an objective cannot take are refused one by one, in its own words; those at the
 * border are taken.
 */
import { describe, expect, it } from 'vitest'
import { policyLoss } from '../../../src/objectives/policyLoss.js'
import { cispo } from '../../../src/objectives/tokenLosses/cispo.js'
import { clippedSurrogate } from '../../../src/objectives/tokenLosses/clippedSurrogate.js'
import { clipCov, klCov } from '../../../src/objectives/tokenLosses/covariance.js'
import { dppo } from '../../../src/objectives/tokenLosses/dppo.js'
import { gmpo } from '../../../src/objectives/tokenLosses/gmpo.js'
import { gspo } from '../../../src/objectives/tokenLosses/gspo.js'
import { useEngine } from '../../kit/engine.js'
import { lossNumbers } from '../../kit/policyLoss.js'

useEngine()

describe('a number out of range is refused', () => {
  it.each<readonly [string, () => unknown, string]>([
    ['a share of 0', () => clipCov({ share: 0 }), 'clipCov: share must be above 0 and at most 1, got 0'],
    ['a share above 1', () => klCov({ share: 1.1 }), 'klCov: share must be above 0 and at most 1, got 1.1'],
    ['bounds that are equal', () => clipCov({ bounds: [1, 1] }), 'clipCov: bounds must be in order, got 1, 1'],
    ['bounds in the other order', () => clipCov({ bounds: [5, 1] }), 'clipCov: bounds must be in order, got 5, 1'],
    ['a negative coefficient', () => klCov({ coefficient: -1 }), 'klCov: coefficient must not be negative, got -1'],
    [
      'a low bound of 0',
      () => dppo({ epsilon: [0, 0.1] }),
      'dppo: epsilon and largestRatio must be positive, got 0, 0.1',
    ],
    [
      'a high bound of 0',
      () => dppo({ epsilon: [0.1, 0] }),
      'dppo: epsilon and largestRatio must be positive, got 0.1, 0',
    ],
    ['a low clip of 1', () => gspo({ clipEpsilon: [1, 0.1] }), 'gspo: clipEpsilon must have 0 <= low < 1'],
    ['a low clip below 0', () => clippedSurrogate({ clipEpsilon: [-0.1, 0.2] }), 'clipEpsilon must have 0 <= low < 1'],
    ['a high clip below 0', () => clippedSurrogate({ clipEpsilon: [0.2, -0.1] }), 'high >= 0, got 0.2 and -0.1'],
    ['a high clip below 0', () => cispo({ clipEpsilon: [0.2, -0.1] }), 'cispo: '],
    ['a low bound below 0', () => gmpo({ clipEpsilon: [-0.1, 0.1] }), 'gmpo: clipEpsilon must not be negative'],
    ['a high bound below 0', () => gmpo({ clipEpsilon: [0.1, -0.1] }), 'gmpo: clipEpsilon must not be negative'],
  ])('%s', (_, make, reason) => {
    expect(make).toThrow(RangeError)
    expect(make).toThrow(reason)
  })
})

describe('a number at the border is taken', () => {
  it.each<readonly [string, () => unknown]>([
    ['a share of 1', () => clipCov({ share: 1 })],
    ['a coefficient of 0', () => klCov({ coefficient: 0 })],
    ['a clip of 0', () => clippedSurrogate({ clipEpsilon: 0 })],
    ['bounds of 0', () => gmpo({ clipEpsilon: 0 })],
  ])('%s', (_, make) => {
    expect(make).not.toThrow()
  })
})

describe('dppo without a bound', () => {
  /**
   * Old probabilities of 0.5 that went up by 0.19 and by 0.21, or in divergence by 0.047 and by
   * 0.054.
   */
  const rowsOf = (near: number, far: number) => ({
    logProbs: [[Math.log(near)], [Math.log(far)]],
    old: [[Math.log(0.5)], [Math.log(0.5)]],
    mask: [[1], [1]],
    advantages: [[1], [1]],
  })

  it.each([
    ['a total variation of 0.2', dppo(), rowsOf(0.69, 0.71)],
    ['a divergence of 0.05', dppo({ divergence: 'kl' }), rowsOf(0.65, 0.66)],
  ])('has %s', (_, objective, rows) => {
    const [[near], [far]] = lossNumbers(policyLoss({ objective }), rows).gradient as [[number], [number]] // of these rows
    expect(near).toBeLessThan(-0.5)
    expect(far).toBeCloseTo(0, 12)
  })
})

describe('an aggregation', () => {
  it.each([
    ['another mode', { mode: 'seq-mean', length: 4 }],
    ['no mode', { length: 4 }],
    ['no length', { mode: 'seq-mean-token-sum-norm' }],
    ['a length in words', { mode: 'seq-mean-token-sum-norm', length: '4' }],
    ['nothing', null],
    ['a word that is none', 'token-means'],
    ['a number', 4],
  ])('is refused with %s', (_, value) => {
    const call = () => policyLoss({ objective: cispo(), aggregation: value as never }) // as from plain JavaScript
    expect(call).toThrow(/^policyLoss\S*: .*(aggregation|length)/)
  })

  it('is a word, or a mode with its length', () => {
    for (const aggregation of ['token-mean', { mode: 'seq-mean-token-sum-norm', length: 4 }] as const)
      expect(() => policyLoss({ objective: cispo(), aggregation })).not.toThrow()
  })
})
