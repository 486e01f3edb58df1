import fc from 'fast-check'
import { expect, it } from 'vitest'
import { addToken, countTokens } from '../../../../src/modules/generation/sampling/counts.js'

it('counting tokens one by one counts all of them', () => {
  const ids = fc.array(fc.nat(5))
  const law = fc.property(ids, ids, (first, rest) => {
    const counts = rest.reduce(addToken, countTokens(first))
    expect(counts).toEqual(countTokens([...first, ...rest]))
    for (const [id, count] of counts) expect(count).toBe([...first, ...rest].filter((other) => other === id).length)
  })
  fc.assert(law)
})
