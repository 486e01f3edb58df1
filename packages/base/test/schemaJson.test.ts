import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { fitSchema, parseJsonAs } from '../src/schemaJson.js'

const schema = z.object({ n: z.number(), name: z.string().default('none') })

describe('fitSchema', () => {
  it('returns the value with the defaults of the schema', () => {
    expect(fitSchema(schema, { n: 1 })).toEqual(E.right({ n: 1, name: 'none' }))
  })

  it('names every problem and its place', () => {
    const { left } = fitSchema(schema, { n: 'one', name: 2 }) as E.Left<string> // both entries are of the wrong type
    expect(left).toContain('at n')
    expect(left).toContain('at name')
  })
})

describe('the reason', () => {
  it("has each problem in zod's words, with its place, outer values first", () => {
    const place = z.object({ 'a key': z.array(z.strictObject({ n: z.number() })), other: z.string(), _$1: z.null() })
    fc.assert(
      fc.property(
        fc.record(
          { 'a key': fc.array(fc.object(), { minLength: 1 }), other: fc.nat(), _$1: fc.string() },
          { requiredKeys: [] },
        ),
        (value) => {
          const { error } = place.safeParse(value)
          expect(fitSchema(place, value)).toEqual(E.left(z.prettifyError(error!)))
        },
      ),
    )
  })
})

describe('parseJsonAs', () => {
  it('reads a text', () => {
    expect(parseJsonAs(schema, '{"n":1,"name":"a"}')).toEqual(E.right({ n: 1, name: 'a' }))
  })

  it.each([
    ['{"n":', 'not JSON: '],
    ['', 'not JSON: '],
    ['[]', 'expected object, received array'],
  ])('refuses %j with the reason', (text, reason) => {
    expect(parseJsonAs(schema, text)).toEqual(E.left(expect.stringContaining(reason)))
  })
})
