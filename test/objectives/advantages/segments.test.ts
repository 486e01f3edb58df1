/** Trajectories in several rows: the fixture of AgentFly, and what cuts must not change. */
import { orThrow } from '@tandem-rl/base'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type SegmentRule, segmentGAE, segmentRewards } from '../../../src/objectives/advantages/segments.js'
import { gae } from '../../../src/objectives/advantages/temporal.js'
import { expectClose } from '../../kit/close.js'

const TWO = {
  groups: ['a', 'a'],
  mask: [
    [1, 1, 1],
    [1, 1, 1],
  ],
  rewards: [
    [0, 0, 0],
    [0, 0, 1],
  ],
}
const VALUES = [
  [0.3, 0.2, 0.1],
  [0.6, 0.4, 0.2],
]

describe('segmentGAE', () => {
  it('by two levels has the numbers of AgentFly', () => {
    const { advantages, returns } = orThrow(segmentGAE(TWO, VALUES, { form: 'two-level', whitened: 'no' }))
    expectClose(advantages.flat(), [1, 1.1, 1.2, 0.4, 0.6, 0.8], { absolute: 1e-12 })
    expectClose(returns.flat(), [0.6, 0.6, 0.6, 1, 1, 1], { absolute: 1e-12 })
  })

  it('by two levels adds to the last stretch without a gap, and passes over a segment without tokens', () => {
    const rows = {
      groups: ['a', 'a', 'a'],
      mask: [[1, 0, 1, 1, 0], [0, 0], [1]],
      rewards: [[0, Number.NaN, 0, 0, 9], [5, 5], [1]],
    }
    const values = [[0.3, 7, 0.2, 0.1, 7], [Number.NaN, 8], [0.6]]
    const { advantages } = orThrow(segmentGAE(rows, values, { form: 'two-level', whitened: 'no' }))
    const over = 0.6 - 0.3 + (1 - 0.6)
    expectClose(advantages.flat(), [0.3, 0, 0.4 + over, 0.5 + over, 0, 0, 0, 0.4], { absolute: 1e-12 })
  })

  const number = fc.double({ min: -2, max: 2, noNaN: true })
  const tokens = fc.array(fc.record({ m: fc.constantFrom(0, 1, 1), r: number, v: number, isEnd: fc.boolean() }), {
    minLength: 1,
    maxLength: 8,
  })
  const trajectories = fc.array(tokens, { minLength: 1, maxLength: 3 })
  const shares = fc.double({ min: 0, max: 1, noNaN: true })
  const settings = fc.record({
    gamma: shares,
    lambda: shares,
    whitened: fc.constantFrom('yes' as const, 'no' as const),
  })

  it('chained is gae of the whole trajectory, wherever it is cut and however trajectories are interleaved', () => {
    fc.assert(
      fc.property(trajectories, settings, (drawn, options) => {
        const whole = {
          groups: drawn.map((_, i) => String(i)),
          mask: drawn.map((row) => row.map(({ m }) => m)),
          rewards: drawn.map((row) => row.map(({ r }) => r)),
        }
        const expected = orThrow(
          gae(
            whole,
            drawn.map((row) => row.map(({ v }) => v)),
            options,
          ),
        )
        const pieces = drawn.flatMap((row, i) =>
          row
            .reduce<(typeof row)[]>(
              (all, token) => [...all.slice(0, -1), [...all.at(-1)!, token], ...(token.isEnd ? [[]] : [])],
              [[]],
            )
            .map((piece, k) => ({ group: String(i), k, piece })),
        )
        // segments of one trajectory stay in order, those of others stand between them
        const mixed = pieces.toSorted((a, b) => a.k - b.k)
        const rows = {
          groups: mixed.map(({ group }) => group),
          mask: mixed.map(({ piece }) => piece.map(({ m }) => m)),
          rewards: mixed.map(({ piece }) => piece.map(({ r }) => r)),
        }
        const actual = orThrow(
          segmentGAE(
            rows,
            mixed.map(({ piece }) => piece.map(({ v }) => v)),
            options,
          ),
        )
        for (const what of ['advantages', 'returns'] as const)
          for (const [i, row] of expected[what].entries()) {
            const own = actual[what].filter((_, at) => mixed[at]!.group === String(i)).flat()
            expectClose(own, row, { absolute: 1e-9 })
          }
      }),
    )
  })

  it('by two levels is gae for trajectories of one segment', () => {
    fc.assert(
      fc.property(tokens, settings, (row, options) => {
        const rows = { groups: ['a'], mask: [row.map(({ m }) => m)], rewards: [row.map(({ r }) => r)] }
        const values = [row.map(({ v }) => v)]
        expect(segmentGAE(rows, values, { ...options, form: 'two-level' })).toEqual(gae(rows, values, options))
      }),
    )
  })

  it('refuses invalid settings', () => {
    expect(() => segmentGAE(TWO, VALUES, { gamma: 2 })).toThrow(/gamma must be from 0 to 1, got 2/)
    expect(() => segmentGAE(TWO, VALUES, { form: 'both' as never })).toThrow(/form must be 'chained' or 'two-level'/) // as from JSON
    expect(() => segmentGAE(TWO, [[1]])).toThrow(/values has 1 rows, mask 2/)
  })
})

describe('segmentRewards', () => {
  it('are those of AgentFly', () => {
    expect(segmentRewards(2, 3, 'last')).toEqual([0, 0, 2])
    expect(segmentRewards(2, 3, 'each')).toEqual([2, 2, 2])
    expectClose(segmentRewards(2, 4, 'uniform'), [0.5, 0.5, 0.5, 0.5], { absolute: 0 })
    const scale = (2 * 0.1) / (1 - 0.9 ** 3)
    expectClose(segmentRewards(2, 3, { geometric: 0.9 }), [0.81 * scale, 0.9 * scale, scale], { absolute: 1e-12 })
  })

  it('add up to the reward of the trajectory, but for the rule that tells it to each', () => {
    const rule = fc.oneof(
      fc.constantFrom<SegmentRule>('last', 'uniform'),
      fc.double({ min: 0.01, max: 0.99, noNaN: true }).map((geometric): SegmentRule => ({ geometric })),
    )
    fc.assert(
      fc.property(
        fc.double({ min: -9, max: 9, noNaN: true }),
        fc.integer({ min: 1, max: 9 }),
        rule,
        (reward, n, how) => {
          const rewards = segmentRewards(reward, n, how)
          expect(rewards).toHaveLength(n)
          expectClose([rewards.reduce((a, b) => a + b, 0)], [reward], { absolute: 1e-9 })
        },
      ),
    )
    expect(segmentRewards(1, 0, 'uniform')).toEqual([])
  })

  it('refuses an invalid number of segments and an unknown rule', () => {
    expect(() => segmentRewards(1, 1.5, 'last')).toThrow(RangeError)
    expect(() => segmentRewards(1, -1, 'last')).toThrow(/whole number from 0, got -1/)
    for (const geometric of [0, 1, Number.NaN]) expect(() => segmentRewards(1, 2, { geometric })).toThrow(RangeError)
    expect(() => segmentRewards(1, 2, 'first' as never)).toThrow(/rule must be 'last' or/) // as from JSON
  })
})
