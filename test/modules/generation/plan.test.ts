import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { byAge, lengthClass, planAdmission, planChunks } from '../../../src/modules/generation/plan.js'

describe('lengthClass', () => {
  it('puts rows together of which the longest is at most four times as long as the shortest, or has 64 tokens', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 1e6 }), fc.integer({ min: 1, max: 1e6 }), (a, b) => {
        const [short, long] = [Math.min(a, b), Math.max(a, b)]
        if (lengthClass(short) === lengthClass(long)) expect(long <= 64 || long < 4 * short).toBe(true)
        expect(lengthClass(short)).toBeLessThanOrEqual(lengthClass(long))
      }),
    )
  })

  it('refuses an invalid length', () => {
    for (const length of [0, -1, 1.5, Number.NaN]) expect(() => lengthClass(length)).toThrow(RangeError)
  })
})

const prompts = fc.array(
  fc.record({ remaining: fc.integer({ min: 1, max: 50 }), limit: fc.integer({ min: 1, max: 50 }) }),
)

describe('planChunks', () => {
  it('gives the first as much as may be, then the next, within the budget', () => {
    fc.assert(
      fc.property(prompts, fc.integer({ min: 0, max: 200 }), (list, budget) => {
        const chunks = planChunks(list, budget)
        const most = list.map(({ remaining, limit }) => Math.min(remaining, limit))
        expect(chunks).toHaveLength(list.length)
        expect(chunks.reduce((a, b) => a + b, 0)).toBe(
          Math.min(
            Math.max(1, budget),
            most.reduce((a, b) => a + b, 0),
          ),
        )
        const short = chunks.findIndex((chunk, i) => chunk < most[i]!)
        if (short >= 0) expect(chunks.slice(short + 1).every((chunk) => chunk === 0)).toBe(true)
      }),
    )
  })
})

const line = fc.array(fc.record({ rows: fc.integer({ min: 1, max: 4 }), tokens: fc.nat(40) }), { maxLength: 12 })
const room = fc.record({ rows: fc.nat(12), tokens: fc.integer({ min: -5, max: 100 }), memory: fc.nat(12) })

describe('planAdmission', () => {
  it('takes as many from the head as have rows, memory and tokens to begin with, and no more', () => {
    fc.assert(
      fc.property(line, room, (asking, { rows, tokens, memory }) => {
        const may = (count: number): boolean => {
          const taken = asking.slice(0, count)
          const before = taken.slice(0, -1).reduce((sum, each) => sum + each.tokens, 0)
          return (
            taken.reduce((sum, each) => sum + each.rows, 0) <= rows &&
            count <= memory &&
            (taken.at(-1)!.tokens === 0 || before < tokens)
          )
        }
        const count = planAdmission(asking, { rows, tokens, isIdle: false, fits: (first) => first <= memory })
        for (let i = 1; i <= count; i++) expect(may(i)).toBe(true)
        if (count < asking.length) expect(may(count + 1)).toBe(false)
      }),
    )
  })

  it('takes the first one that has the rows when nothing else is computed', () => {
    fc.assert(
      fc.property(line, room, (asking, { rows, tokens }) => {
        const count = planAdmission(asking, { rows, tokens, isIdle: true, fits: () => false })
        expect(count).toBe(asking.length > 0 && asking[0]!.rows <= rows ? 1 : 0)
      }),
    )
  })
})

describe('byAge', () => {
  it('puts earlier requests first, and completions of one by their number', () => {
    const ages = [
      [2, 0],
      [1, 1],
      [1, 0],
    ].map(([arrival, index]) => ({ arrival: arrival!, index: index! }))
    expect(ages.sort(byAge).map(({ arrival, index }) => [arrival, index])).toEqual([
      [1, 0],
      [1, 1],
      [2, 0],
    ])
  })
})
