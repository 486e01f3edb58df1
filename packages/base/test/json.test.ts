import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { parseJson } from '../src/json.js'

describe('parseJson', () => {
  it('gives the value of any JSON text', () => {
    const law = fc.property(fc.json(), (text) => {
      expect(parseJson(text)).toEqual(E.right(JSON.parse(text)))
    })
    fc.assert(law)
  })

  it.each(['', '{', '[1,]', 'NaN', '{"a":1}x', '\ufeff1'])('says why %j is none, and throws for no text', (text) => {
    expect(parseJson(text)).toMatchObject({ left: expect.stringMatching(/^not JSON: ./) })
  })
})
