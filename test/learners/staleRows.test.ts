import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { CollectedBatch } from '../../src/collectors/rollouts/turnRows.js'
import { data, ragged } from '../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { correctStaleRows, tokenLags } from '../../src/learners/staleRows.js'
import { flatRows, lossRows } from '../kit/trainingRows.js'

const batchOf = (versions: readonly number[], each?: readonly (readonly number[])[]) =>
  TensorDict(
    {
      tokens: { response: ragged('int32', [[5, 6], [7]]) },
      policyVersion: data(versions),
      ...(each && { versions: { response: ragged('int32', each) } }),
    },
    [2],
  ) as unknown as CollectedBatch<unknown> // the entries that tokenLags reads

describe('tokenLags', () => {
  it('are those of the stamps of tokens, or of their row', () => {
    expect(tokenLags(batchOf([2, 3]), [0, 1], 4)).toEqual([[2, 2], [1]])
    expect(tokenLags(batchOf([2, 3], [[2, 4], [3]]), [1, 0], 4)).toEqual([[1], [2, 0]])
  })

  it('refuse a token that is newer than the trainer', () => {
    expect(() => tokenLags(batchOf([2, 5]), [0, 1], 4)).toThrow('row 1 has a token of version 5, newer than 4')
  })
})

const logProb = fc.double({ min: -8, max: 0, noNaN: true })
const someRows = fc
  .array(fc.array(fc.record({ before: logProb, now: logProb, lag: fc.nat(2) }), { minLength: 1, maxLength: 4 }), {
    minLength: 1,
    maxLength: 4,
  })
  .map((tokens) => {
    const each = <T>(f: (token: (typeof tokens)[number][number]) => T) => tokens.map((row) => row.map(f))
    const rows = lossRows({
      ...{ prompts: tokens.map(() => [1]), completions: each(() => 2), temperature: 1 },
      ...{ oldLogProbs: each(({ before }) => before), advantages: tokens.map((_, i) => i) },
    })
    return { tokens, rows, own: each(({ now }) => now), lags: each(({ lag }) => lag) }
  })

describe('correctStaleRows', () => {
  it('law: stale tokens have the weight min(pi now / pi then, 2) and a ratio against now; the others are as they were', () => {
    fc.assert(
      fc.property(someRows, ({ tokens, rows, ...stale }) => {
        const corrected = flatRows(correctStaleRows(rows, stale).rows)
        for (const [i, row] of tokens.entries()) {
          for (const [t, { before, now, lag }] of row.entries()) {
            expect(corrected.oldLogProbs[i]![t]).toBe(lag > 0 ? now : before)
            expect(corrected.behaviorLogProbs![i]![t]).toBe(before)
            if (lag === 0) expect(corrected.weights![i]![t]).toBe(1)
            else expect(corrected.weights![i]![t]).toBeCloseTo(Math.min(2, Math.exp(now - before)), 12)
          }
        }
      }),
    )
  })

  it('refuses lists that do not fit', () => {
    const rows = lossRows({
      prompts: [[1]],
      completions: [[2]],
      oldLogProbs: [[0]],
      advantages: [1],
      temperature: 1,
    })
    expect(() => correctStaleRows(rows, { own: [[0]], lags: [[0, 1]] })).toThrow('a number for each token')
  })
})
