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
