import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { distinctPrompts, sharedRows } from '../../src/data/completions.js'
import { repeated } from '../kit/repeated.js'

const ids = fc.array(fc.integer({ min: 1, max: 3 }), { maxLength: 2 })

describe('sharedRows', () => {
  it('law: gives back the rows when each distinct prompt is repeated, whatever the rows', () => {
    fc.assert(
      fc.property(fc.array(ids), (rows) => {
        const shared = sharedRows(rows)
        expect(repeated(distinctPrompts(rows, shared), shared)).toEqual(rows)
      }),
    )
  })

  it('law: is a multiple of the size of groups, also if neighboring groups have the same prompt', () => {
    fc.assert(
      fc.property(fc.array(ids, { minLength: 1 }), fc.integer({ min: 1, max: 4 }), (prompts, group) => {
        expect(sharedRows(repeated(prompts, group)) % group).toBe(0)
      }),
    )
  })

  it('is 1 for runs without a common divisor, for equal prompts that are not neighbors, and for no rows', () => {
    expect(sharedRows([[1], [1], [2]])).toBe(1)
    expect(sharedRows([[1], [2], [1]])).toBe(1)
    expect(sharedRows([[1], [1, 2]])).toBe(1)
    expect(sharedRows([])).toBe(1)
  })
})
