import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { overlongReward } from '../../../src/envs/rewards/overlong.js'

const options = fc
  .record({ longest: fc.integer({ min: 1, max: 500 }), share: fc.double({ min: 0, max: 1, noNaN: true }) })
  .map(({ longest, share }) => ({ longest, cache: Math.max(1, Math.round(share * longest)) }))

describe('overlongReward', () => {
  it.each([
    [0, 0],
    [16384, 0],
    [16385, -1 / 4096],
    [17408, -0.25],
    [18432, -0.5],
    [20480, -1],
    [20481, -1],
    [99999, -1],
  ])('with the numbers of DAPO, 20480 tokens of which the last 4096 cost, is for %d tokens %d', (tokens, reward) => {
    expect(overlongReward(tokens, { longest: 20480, cache: 4096 })).toBe(reward)
  })

  it('never rises with the length, is 0 before the cache and minus the factor at the end', () => {
    fc.assert(
      fc.property(options, fc.nat(600), fc.integer({ min: 0, max: 8 }), (given, tokens, quarter) => {
        const rule = { ...given, factor: quarter / 4 }
        const reward = overlongReward(tokens, rule)
        expect(reward).toBeGreaterThanOrEqual(overlongReward(tokens + 1, rule))
        expect(reward).toBeLessThanOrEqual(0)
        expect(reward).toBeGreaterThanOrEqual(-rule.factor)
        if (tokens <= rule.longest - rule.cache) expect(reward).toBe(0)
        if (tokens >= rule.longest) expect(reward + rule.factor).toBe(0)
      }),
    )
  })

  it.each([
    [{ longest: 0, cache: 1 }, 'longest must be at least 1'],
    [{ longest: 4, cache: 5 }, 'cache must be from 1 to 4, got 5'],
    [{ longest: 4, cache: 0 }, 'cache must be from 1'],
    [{ longest: 4, cache: 1.5 }, 'cache must be from 1'],
    [{ longest: 4, cache: 2, factor: -1 }, 'factor must not be negative'],
    [{ longest: 0.5, cache: 2, factor: Number.NaN }, 'longest must be at least 1, got 0.5; cache'],
  ])('%j is refused with the reason', (wrong, reason) => {
    expect(() => overlongReward(1, wrong)).toThrow(RangeError)
    expect(() => overlongReward(1, wrong)).toThrow(reason)
  })
})
