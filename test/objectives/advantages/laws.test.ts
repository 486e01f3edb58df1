import { orThrow } from '@tandem-rl/base'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  gdpoAdvantage,
  gpgAdvantage,
  grpoAdvantage,
  opoAdvantage,
  passKAdvantage,
  reinforcePlusPlusBaseline,
  rlooAdvantage,
} from '../../../src/objectives/advantages/outcome.js'
import type { RewardedRows, TokenAdvantages } from '../../../src/objectives/advantages/rows.js'
import { gae, optimalTokenBaseline, remaxAdvantage, vTrace } from '../../../src/objectives/advantages/temporal.js'
import { expectClose } from '../../kit/close.js'

const number = fc.double({ min: -2, max: 2, noNaN: true })
const probability = fc.double({ min: 0.01, max: 0.99, noNaN: true })

interface Drawn extends RewardedRows {
  readonly rewards: readonly (readonly number[])[]
  readonly mask: readonly (readonly number[])[]
  readonly values: readonly (readonly number[])[]
  readonly ratios: readonly (readonly number[])[]
  readonly chosen: readonly (readonly number[])[]
}

/**
 * Completions of two prompts with gaps in their masks; each has a token that counts, so that a
 * shift of its return is one of its reward.
 */
const drawn: fc.Arbitrary<Drawn> = fc
  .array(
    fc.record({
      group: fc.constantFrom('a', 'b'),
      tokens: fc.array(fc.record({ m: fc.constantFrom(0, 1), r: number, v: number, d: number, p: probability }), {
        maxLength: 5,
      }),
      last: fc.record({ m: fc.constant(1), r: number, v: number, d: number, p: probability }),
    }),
    { minLength: 1, maxLength: 6 },
  )
  .map((rows) => {
    const all = rows.map(({ tokens, last }) => [...tokens, last])
    return {
      groups: rows.map(({ group }) => group),
      rewards: all.map((row) => row.map(({ r }) => r)),
      mask: all.map((row) => row.map(({ m }) => m)),
      values: all.map((row) => row.map(({ v }) => v)),
      ratios: all.map((row) => row.map(({ d }) => d)),
      chosen: all.map((row) => row.map(({ p }) => p)),
    }
  })

const ESTIMATORS: Readonly<Record<string, (rows: RewardedRows) => TokenAdvantages>> = {
  grpo: (rows) => orThrow(grpoAdvantage(rows)),
  'dr-grpo': (rows) => orThrow(grpoAdvantage(rows, { normalize: 'mean' })),
  rloo: (rows) => orThrow(rlooAdvantage(rows)),
  opo: (rows) => orThrow(opoAdvantage(rows)),
  gpg: (rows) => orThrow(gpgAdvantage(rows)),
  passk: (rows) => orThrow(passKAdvantage(rows)),
  'reinforce++ baseline': (rows) => orThrow(reinforcePlusPlusBaseline(rows)),
  gdpo: (rows) => orThrow(gdpoAdvantage(rows, [{ rewards: rows.rewards, weight: 1 }])),
}

/** Adds a row of a group whose tokens are all masked. */
const withMasked = (rows: Drawn, group: string, reward: number): RewardedRows => ({
  groups: [...rows.groups, group],
  rewards: [...rows.rewards, [0, reward]],
  mask: [...rows.mask, [0, 0]],
})

/** Adds to the reward of the last token of each row. */
const shifted = (rows: Drawn, by: number): RewardedRows => ({
  ...rows,
  rewards: rows.rewards.map((row) => [...row.slice(0, -1), row.at(-1)! + by]),
})

const scaled = (rows: Drawn, by: number): RewardedRows => ({
  ...rows,
  rewards: rows.rewards.map((row) => row.map((r) => r * by)),
})

const returnsOf = ({ rewards, mask }: Drawn): readonly number[] =>
  rewards.map((row, b) => row.reduce((sum, r, t) => sum + r * mask[b]![t]!, 0))

/** No two returns so near each other that rounding changes their order or their spread. */
const isSpread = (rows: Drawn): boolean => {
  const sorted = returnsOf(rows).toSorted((a, b) => a - b)
  return sorted.every((x, i) => i === 0 || x - sorted[i - 1]! > 0.05)
}

const CLOSE = { absolute: 1e-6, relative: 1e-6 }

describe.each(Object.entries(ESTIMATORS))('%s', (name, estimate) => {
  it('gives each completion the same advantage wherever it stands', () => {
    fc.assert(
      fc.property(drawn, (rows) => {
        fc.pre(isSpread(rows))
        const turned: RewardedRows = {
          groups: rows.groups.toReversed(),
          rewards: rows.rewards.toReversed(),
          mask: rows.mask.toReversed(),
        }
        expectClose(estimate(turned).toReversed().flat(), estimate(rows).flat(), CLOSE)
      }),
    )
  })

  if (name !== 'gpg')
    it('is not changed by a shift of all returns: what is common says nothing', () => {
      fc.assert(
        fc.property(drawn, number, (rows, by) => {
          fc.pre(isSpread(rows))
          expectClose(estimate(shifted(rows, by)).flat(), estimate(rows).flat(), { absolute: 1e-5, relative: 1e-5 })
        }),
      )
    })

  it('grows with the rewards where it has their unit, and is not changed by a positive scale where it has none', () => {
    const unit = ['dr-grpo', 'rloo', 'opo', 'gpg'].includes(name) ? 1 : 0
    fc.assert(
      fc.property(drawn, fc.double({ min: 0.5, max: 8, noNaN: true }), (rows, by) => {
        fc.pre(isSpread(rows))
        const expected = estimate(rows)
          .flat()
          .map((a) => a * by ** unit)
        expectClose(estimate(scaled(rows, by)).flat(), expected, { absolute: 1e-4, relative: 1e-4 })
      }),
    )
  })

  it('compares a group without its rows whose tokens are all masked', () => {
    fc.assert(
      fc.property(drawn, fc.constantFrom('a', 'b', 'c'), fc.constantFrom(0, 1, -5, 1e300), (rows, group, reward) => {
        expect(estimate(withMasked(rows, group, reward))).toEqual([...estimate(rows), [0, 0]])
      }),
    )
    const thirds = {
      groups: ['a', 'a', 'a'],
      rewards: [
        [0, 1],
        [0, 1],
        [0, 1],
      ],
      mask: [
        [1, 1],
        [1, 1],
        [0, 0],
      ],
    }
    if (name !== 'gpg') expect(estimate(thirds).flat()).toEqual([0, 0, 0, 0, 0, 0])
  })

  it('is 0 under the mask, whatever is there', () => {
    fc.assert(
      fc.property(drawn, fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY, 1e300), (rows, junk) => {
        const soiled = rows.rewards.map((row, b) => row.map((r, t) => (rows.mask[b]![t] === 1 ? r : junk)))
        const result = estimate({ ...rows, rewards: soiled })
        expect(result).toEqual(estimate(rows))
        expect(result.every((row, b) => row.every((a, t) => rows.mask[b]![t] === 1 || a === 0))).toBe(true)
      }),
    )
  })
})

describe('estimators of tokens', () => {
  /** `sum_(k >= t) gamma^(k - t) r_k` over the tokens that count, at each of them. */
  const toGo = (rows: Drawn, gamma: number): TokenAdvantages =>
    rows.rewards.map((row, b) => {
      const own = row.flatMap((_, t) => (rows.mask[b]![t] === 1 ? [t] : []))
      return row.map((_, t) =>
        rows.mask[b]![t] === 0 ? 0 : own.filter((k) => k >= t).reduce((sum, k, i) => sum + gamma ** i * row[k]!, 0),
      )
    })

  const minusValues = (rows: Drawn, returns: TokenAdvantages): readonly number[] =>
    returns.flatMap((row, b) => row.map((g, t) => (rows.mask[b]![t] === 0 ? 0 : g - rows.values[b]![t]!)))

  const discount = fc.double({ min: 0, max: 1, noNaN: true })

  it('gae with lambda 1 is the discounted rewards to go minus the values', () => {
    fc.assert(
      fc.property(drawn, discount, (rows, gamma) => {
        const { advantages, returns } = orThrow(gae(rows, rows.values, { gamma, whitened: 'no' }))
        expectClose(advantages.flat(), minusValues(rows, toGo(rows, gamma)), CLOSE)
        expectClose(returns.flat(), toGo(rows, gamma).flat(), CLOSE)
      }),
    )
  })

  it('gae with lambda 0 is the temporal difference: a change of reward reaches no earlier token', () => {
    fc.assert(
      fc.property(drawn, discount, number, (rows, gamma, by) => {
        const at = (given: RewardedRows) =>
          orThrow(gae(given, rows.values, { gamma, lambda: 0, whitened: 'no' })).advantages
        const [before, after] = [at(rows), at(shifted(rows, by))]
        expectClose(
          after.flatMap((row) => row.slice(0, -1)),
          before.flatMap((row) => row.slice(0, -1)),
          CLOSE,
        )
        expectClose(
          after.map((row) => row.at(-1)!),
          before.map((row) => row.at(-1)! + by),
          CLOSE,
        )
      }),
    )
  })

  it('vTrace at equal policies, without limits below 1, has the rewards to go as targets', () => {
    fc.assert(
      fc.property(drawn, discount, (rows, gamma) => {
        const given = { values: rows.values, logRatios: rows.ratios.map((row) => row.map(() => 0)) }
        const { advantages, returns } = orThrow(vTrace(rows, given, { gamma }))
        expectClose(returns.flat(), toGo(rows, gamma).flat(), CLOSE)
        expectClose(advantages.flat(), minusValues(rows, toGo(rows, gamma)), CLOSE)
      }),
    )
  })

  it('vTrace stays between the values and what it learns when the ratios vanish', () => {
    fc.assert(
      fc.property(drawn, (rows) => {
        const given = { values: rows.values, logRatios: rows.ratios.map((row) => row.map(() => -60)) }
        const { advantages, returns } = orThrow(vTrace(rows, given))
        expectClose(
          advantages.flat(),
          advantages.flat().map(() => 0),
          CLOSE,
        )
        expectClose(
          returns.flat(),
          rows.values.flatMap((row, b) => row.map((v, t) => v * rows.mask[b]![t]!)),
          CLOSE,
        )
      }),
    )
  })

  it('remax is the rewards to go, where the greedy return is 0, and moves against it', () => {
    fc.assert(
      fc.property(drawn, number, (rows, greedy) => {
        const at = (baseline: number) =>
          orThrow(
            remaxAdvantage(
              rows,
              rows.groups.map(() => baseline),
            ),
          ).flat()
        expectClose(at(0), toGo(rows, 1).flat(), CLOSE)
        expectClose(
          at(greedy),
          at(0).map((a, i) => (rows.mask.flat()[i] === 1 ? a - greedy : 0)),
          CLOSE,
        )
      }),
    )
  })

  it('optimalTokenBaseline has no baseline for a group of one, and leaves no common return in larger ones', () => {
    fc.assert(
      fc.property(drawn, number, (rows, by) => {
        const sumOfSquares = rows.chosen.map((row) => row.map((p) => p * p + (1 - p) * (1 - p)))
        const at = (given: RewardedRows) => orThrow(optimalTokenBaseline(given, { chosen: rows.chosen, sumOfSquares }))
        const alone = { ...rows, groups: rows.groups.map((_, b) => String(b)) }
        expectClose(at(alone).flat(), toGo(rows, 1).flat(), CLOSE)
        const same = rows.mask.map((row) => row.map((m, t) => (t === row.length - 1 ? m * by : 0)))
        const lengths = rows.mask.map((row) => row.reduce((sum, m) => sum + m, 0))
        const shared = at({ ...rows, rewards: same }).flatMap((row, b) =>
          row.filter((_, t) => {
            const place = rows.mask[b]!.slice(0, t + 1).reduce((sum, m) => sum + m, 0)
            const others = rows.groups.filter((g, i) => g === rows.groups[b] && lengths[i]! >= place)
            return rows.mask[b]![t] === 1 && others.length > 1
          }),
        )
        expectClose(
          shared,
          shared.map(() => 0),
          { absolute: 1e-4 },
        )
      }),
    )
  })
})
