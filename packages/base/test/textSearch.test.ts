import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { cpuSeconds, expectLinear } from '../../../test/kit/scaling.js'
import { indexOfText } from '../src/textSearch.js'

/** Long enough that the search of the platform is not used. */
const LONG = 3000

describe('indexOfText', () => {
  it('finds what String.indexOf finds, in short and in long texts', () => {
    const part = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 12 })
    fc.assert(
      fc.property(part, part, fc.nat(2 * LONG), fc.boolean(), (piece, end, from, isLong) => {
        const text = piece.repeat(isLong ? LONG : 3) + end
        const sought = piece.repeat(isLong ? LONG / 2 : 1) + end
        expect(indexOfText(text, sought, from)).toBe(text.indexOf(sought, from))
      }),
    )
  })

  it('takes time in proportion to both texts', () => {
    expectLinear((size) => {
      const half = 'a'.repeat(size / 4)
      return cpuSeconds(() => expect(indexOfText('a'.repeat(size), `${half}b${half}`)).toBe(-1))
    }, 200_000)
  })
})
