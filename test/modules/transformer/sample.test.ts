import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { chooseToken, type TokenChoice } from '../../../src/modules/transformer/sample.js'

/** Log-probabilities of a distribution over up to ten tokens; ties and impossible tokens occur. */
const distribution = fc
  .array(fc.constantFrom<number>(0, 1, 1, 2, 3, 5, 100), { minLength: 2, maxLength: 10 })
  .filter((weights) => weights.some((w) => w > 0))
  .map((weights) => {
    const total = weights.reduce((a, b) => a + b, 0)
    return Float32Array.from(weights, (w) => Math.log(w / total))
  })

const point = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })

const choice: fc.Arbitrary<TokenChoice> = fc.record(
  {
    temperature: fc.constantFrom(0.5, 1, 2),
    topK: fc.integer({ min: 1, max: 12 }),
    topP: fc.double({ min: 0, max: 1, noNaN: true }),
  },
  { requiredKeys: ['temperature'] },
)

const byProbability = (logProbs: Float32Array): readonly number[] =>
  [...logProbs.keys()].sort((a, b) => logProbs[b]! - logProbs[a]! || a - b)

/** How often each token is chosen on a fine grid of points, as a share. */
const shares = (logProbs: Float32Array, options: TokenChoice, banned: readonly number[] = []): readonly number[] => {
  const grid = 2000
  const counts = Array.from(logProbs, () => 0)
  for (let i = 0; i < grid; i++) {
    const id = chooseToken(logProbs, options, { point: (i + 0.5) / grid, banned })
    counts[id] = counts[id]! + 1 / grid
  }
  return counts
}

const expectShares = (actual: readonly number[], expected: readonly number[]): void => {
  // each token's share of the grid is exact but for one point at either end
  for (const [id, share] of expected.entries()) expect(Math.abs(actual[id]! - share), `token ${id}`).toBeLessThan(2e-3)
}

const normalized = (weights: readonly number[]): readonly number[] => {
  const total = weights.reduce((a, b) => a + b, 0)
  return weights.map((w) => w / total)
}

describe('chooseToken', () => {
  it('chooses each token with its probability', () => {
    fc.assert(
      fc.property(distribution, (logProbs) => {
        expectShares(shares(logProbs, { temperature: 1 }), normalized(Array.from(logProbs, Math.exp)))
      }),
      { numRuns: 40 },
    )
  })

  it('at temperature 0 takes the most probable token, the first of equals, whatever the point', () => {
    fc.assert(
      fc.property(distribution, point, (logProbs, p) => {
        expect(chooseToken(logProbs, { temperature: 0 }, { point: p })).toBe(byProbability(logProbs)[0])
      }),
    )
  })

  it('keeps the k most probable tokens, in their proportions', () => {
    fc.assert(
      fc.property(distribution, fc.integer({ min: 1, max: 12 }), (logProbs, topK) => {
        const kept = byProbability(logProbs).slice(0, topK)
        const weights = Array.from(logProbs, (x, id) => (kept.includes(id) ? Math.exp(x) : 0))
        expectShares(shares(logProbs, { temperature: 1, topK }), normalized(weights))
      }),
      { numRuns: 40 },
    )
  })

  it('keeps the smallest set of most probable tokens that reaches p', () => {
    const logProbs = Float32Array.from([0.1, 0.5, 0.15, 0.25], Math.log)
    const survivorsOf = (topP: number): number[] =>
      shares(logProbs, { temperature: 1, topP }).flatMap((share, id) => (share > 0 ? [id] : []))
    expect(survivorsOf(0)).toEqual([1])
    expect(survivorsOf(0.49)).toEqual([1])
    expect(survivorsOf(0.51)).toEqual([1, 3])
    expect(survivorsOf(0.76)).toEqual([1, 2, 3])
    expect(survivorsOf(1)).toEqual([0, 1, 2, 3])
  })

  it('with top-k of everything and top-p 1 has the distribution without truncation', () => {
    fc.assert(
      fc.property(distribution, (logProbs) => {
        const cut = shares(logProbs, { temperature: 1, topK: logProbs.length, topP: 1 })
        expectShares(cut, shares(logProbs, { temperature: 1 }))
      }),
      { numRuns: 20 },
    )
  })

  it('never chooses a banned or an impossible token, with whatever options', () => {
    fc.assert(
      fc.property(distribution, choice, point, fc.array(fc.nat(9)), (logProbs, options, p, banned) => {
        const possible = [...logProbs.keys()].filter((id) => logProbs[id]! > -Infinity && !banned.includes(id))
        fc.pre(possible.length > 0)
        for (const given of [options, { temperature: 0 }]) {
          expect(possible).toContain(chooseToken(logProbs, given, { point: p, banned }))
        }
      }),
    )
  })

  it('shares what banned tokens leave among the others in their proportions', () => {
    fc.assert(
      fc.property(distribution, fc.nat(9), (logProbs, banned) => {
        const weights = Array.from(logProbs, (x, id) => (id === banned ? 0 : Math.exp(x)))
        fc.pre(weights.some((w) => w > 0) && banned < logProbs.length)
        expectShares(shares(logProbs, { temperature: 1 }, [banned]), normalized(weights))
      }),
      { numRuns: 40 },
    )
  })

  it('does not mind a token that is banned twice, nor one that is not in the vocabulary', () => {
    fc.assert(
      fc.property(distribution, fc.nat(9), (logProbs, banned) => {
        fc.pre([...logProbs.keys()].some((id) => logProbs[id]! > -Infinity && id !== banned))
        const once = shares(logProbs, { temperature: 1 }, [banned])
        expectShares(shares(logProbs, { temperature: 1 }, [banned, banned]), once)
        expectShares(shares(logProbs, { temperature: 1 }, [banned, 5000]), once)
      }),
      { numRuns: 20 },
    )
  })

  it('keeps at least one token: top-k 0 is top-k 1', () => {
    fc.assert(
      fc.property(distribution, point, (logProbs, p) => {
        const most = chooseToken(logProbs, { temperature: 1, topK: 1 }, { point: p })
        expect(chooseToken(logProbs, { temperature: 1, topK: 0 }, { point: p })).toBe(most)
      }),
    )
  })

  it('chooses a possible token at the last point before 1, where rounding leaves a crumb', () => {
    fc.assert(
      fc.property(distribution, choice, (logProbs, options) => {
        const id = chooseToken(logProbs, options, { point: 1 - Number.EPSILON / 2 })
        expect(logProbs[id]).toBeGreaterThan(-Infinity)
      }),
    )
  })
})
