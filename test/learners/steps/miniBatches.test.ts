import { keyFromSeed } from '@tandem-rl/base'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { miniBatches } from '../../../src/learners/steps/miniBatches.js'
import { rowsAt } from '../../../src/objectives/lossRows.js'
import { combineUpdates, type StepMetrics } from '../../../src/objectives/policyMetrics.js'
import { lossRows, rowsOf } from '../../kit/trainingRows.js'

const cases = fc
  .record({
    groups: fc.array(fc.nat(5), { minLength: 1, maxLength: 12 }),
    count: fc.integer({ min: 1, max: 8 }),
    seed: fc.nat(1000),
  })
  .map(({ groups, count, seed }) => ({
    groups: groups.map((g) => `g${g}`),
    count,
    key: keyFromSeed(seed),
  }))

const groupsIn = (places: readonly number[], groups: readonly string[]) => new Set(places.map((place) => groups[place]))

describe('miniBatches', () => {
  it('have every row once, and no group is in two of them', () => {
    fc.assert(
      fc.property(cases, ({ groups, count, key }) => {
        const parts = miniBatches(groups, { count, key })
        expect(parts.flat().toSorted((a, b) => a - b)).toEqual([...groups.keys()])
        const sets = parts.map((places) => groupsIn(places, groups))
        expect(sets.reduce((sum, set) => sum + set.size, 0)).toBe(new Set(groups).size)
      }),
    )
  })

  it('differ by one group at most, are as many as asked for where there are groups enough, and are never empty', () => {
    fc.assert(
      fc.property(cases, ({ groups, count, key }) => {
        const sizes = miniBatches(groups, { count, key }).map((places) => groupsIn(places, groups).size)
        expect(sizes).toHaveLength(Math.min(count, new Set(groups).size))
        expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(1)
        expect(Math.min(...sizes)).toBeGreaterThan(0)
      }),
    )
  })

  const groups = ['a', 'a', 'b', 'b', 'c', 'c', 'd', 'd']

  it('are in an order that the key decides: the same key gives the same, another one another', () => {
    const orders = Array.from({ length: 8 }, (_, seed) =>
      JSON.stringify(miniBatches(groups, { count: 4, key: keyFromSeed(seed) })),
    )
    expect(new Set(orders).size).toBeGreaterThan(3)
    expect(miniBatches(groups, { count: 4, key: keyFromSeed(3) })).toEqual(
      miniBatches(groups, { count: 4, key: keyFromSeed(3) }),
    )
  })

  it('keep members of a group side by side, so that they share their prompt', () => {
    for (const places of miniBatches(groups, { count: 2, key: keyFromSeed(1) }))
      expect(places.map((place, i) => groups[place] === groups[places[i - (i % 2)]!])).toEqual(Array(4).fill(true))
  })

  it('are the batch itself where there is one, and none of nothing', () => {
    expect(miniBatches(groups, { count: 1, key: keyFromSeed(1) })).toEqual([[...groups.keys()]])
    expect(miniBatches([], { count: 2, key: keyFromSeed(1) })).toEqual([])
  })

  it.each([0, 1.5, -1, Number.NaN])('are refused for a count of %d', (count) => {
    expect(() => miniBatches(groups, { count, key: keyFromSeed(1) })).toThrow(/count must be at least 1/)
  })
})

describe('rowsAt', () => {
  it('selects rows with all of their lists, and pairs by two', () => {
    const rows = lossRows(rowsOf(9, [2, 2]))
    const { prompts, completions, lists } = rowsAt(rows, [3, 0])
    expect([prompts, completions]).toEqual([
      [rows.prompts[3], rows.prompts[0]],
      [rows.completions[3], rows.completions[0]],
    ])
    for (const [name, list] of Object.entries(rows.lists)) expect(lists[name]).toEqual([list[3], list[0]])
    expect(rowsAt({ ...rows, kind: 'pairs' }, [1]).completions).toEqual([rows.completions[2], rows.completions[3]])
  })
})

const metrics = (changes: Partial<StepMetrics>): StepMetrics => ({
  ...{
    loss: 0,
    clipFraction: 0,
    pgClipFraction: 0,
    klApprox: 0,
    klToRef: null,
    ess: 1,
    entropy: 0,
    gradNorm: 0,
    tokens: 1,
  },
  ...{ computedPlaces: 1, learnedFraction: 1, maxLogProbGap: 0, ...changes },
})

describe('combineUpdates', () => {
  it('weights means of tokens by tokens, and takes means over updates of loss and norm', () => {
    const first = metrics({ loss: 1, clipFraction: 0.5, klToRef: 1, gradNorm: 2, tokens: 30, maxLogProbGap: 0.1 })
    const second = metrics({ loss: 3, clipFraction: 0.1, klToRef: 2, gradNorm: 4, tokens: 10, maxLogProbGap: 0.9 })
    expect(combineUpdates([first, second])).toEqual(
      metrics({
        ...{ loss: 2, clipFraction: 0.4, klToRef: 1.25, gradNorm: 3, tokens: 40, maxLogProbGap: 0.1 },
        ...{ computedPlaces: 2, learnedFraction: 20 },
      }),
    )
  })

  it('adds up computed places, and has none if a server computes them', () => {
    const [first, second] = [metrics({ tokens: 6, computedPlaces: 16 }), metrics({ tokens: 10, computedPlaces: 48 })]
    expect(combineUpdates([first, second])).toMatchObject({ computedPlaces: 64, learnedFraction: 0.25 })
    const remote = metrics({ computedPlaces: null, learnedFraction: null })
    expect(combineUpdates([first, remote])).toMatchObject({ computedPlaces: null, learnedFraction: null })
  })

  it('is that update where there is one, and zeros where there is none', () => {
    const one = metrics({ loss: 3, entropy: Math.PI, tokens: 7 })
    expect(combineUpdates([one])).toBe(one)
    expect(combineUpdates([])).toEqual(metrics({ ess: 0, tokens: 0, computedPlaces: 0, learnedFraction: 0 }))
  })

  it('has no divergence to a reference where the updates have none', () => {
    expect(combineUpdates([metrics({}), metrics({})]).klToRef).toBeNull()
  })
})
